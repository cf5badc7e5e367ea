"""A smaller model that drafts: the same text in fewer steps, and nothing of its memory is lost."""

import logging

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from composer_inference.batching.draft_model import DraftModel, ModelDrafter
from composer_inference.batching.pace import Pace
from composer_inference.decoder.graphs import DecodeGraphs
from composer_inference.decoder.model import Decoder
from composer_inference.drafts.drafter import Drafts
from tests.composer_inference.batching.test_steps_by_graphs import Replays
from tests.composer_inference.batching.tiny import (
    ByteVocabulary,
    Machine,
    Received,
    pool_of,
    sequence_of,
    tiny_decoder,
)

PROMPT = [7, 11, 13, 17, 19]


def draft_model(decoder: Decoder, *, num_blocks: int = 64) -> DraftModel:
    """Never in a hurry."""
    pool = pool_of(decoder, num_blocks)
    return DraftModel(decoder, pool, ByteVocabulary(), draft_s=float("inf"))


def decoded(
    decoder: Decoder, model: DraftModel | None, prompt: list[int] = PROMPT, **sampling: float
) -> tuple[Received, int]:
    received = Received()
    machine = Machine.of(decoder, max_tokens=64)
    drafter = None if model is None else ModelDrafter(model, prompt)
    how = {"max_tokens": 40, "ignore_eos": True, **sampling}
    machine.batcher.add(sequence_of(prompt, received, drafter=drafter, **how))
    return received, machine.run()


def check_free(model: DraftModel) -> None:
    model.cache.check_integrity()
    assert model.cache.num_held == 0


def sure(decoder: Decoder) -> Decoder:
    """Whose likeliest token is far likelier than the others."""
    assert decoder.output is not None
    decoder.output.weight.mul_(50)
    return decoder


@pytest.mark.parametrize("temperature", [0.0, 0.7])
def test_the_same_model_is_always_right_where_nothing_is_drawn(temperature: float) -> None:
    decoder, model = sure(tiny_decoder()), draft_model(sure(tiny_decoder()))
    plain, plain_steps = decoded(decoder, None, temperature=temperature, seed=3)
    drafted, steps = decoded(decoder, model, temperature=temperature, seed=3)
    assert drafted.token_ids == plain.token_ids
    assert steps < plain_steps / 4
    assert drafted.chunks[-1].timings.num_draft_accepted > 20
    check_free(model)


@settings(deadline=None, max_examples=25)
@given(
    st.lists(st.integers(0, 63), min_size=1, max_size=40),
    st.integers(0, 3),
    st.sampled_from([0.0, 0.9]),
)
def test_no_draft_changes_the_text(prompt: list[int], seed: int, temperature: float) -> None:
    decoder, model = tiny_decoder(), draft_model(sure(tiny_decoder(seed)))
    how = {"temperature": temperature, "seed": 11}
    plain, _ = decoded(decoder, None, prompt, **how)
    drafted, _ = decoded(decoder, model, prompt, **how)
    assert (drafted.token_ids, drafted.text) == (plain.token_ids, plain.text)
    check_free(model)


def test_what_it_computed_of_a_prompt_is_shared() -> None:
    model = draft_model(sure(tiny_decoder()))
    prompt = list(range(33))
    first, second = (decoded(sure(tiny_decoder()), model, prompt)[0] for _ in range(2))
    assert first.token_ids == second.token_ids
    assert model.cache.num_cached >= len(prompt) // model.pool.block_size


def test_a_long_text_is_caught_up_with_over_several_steps() -> None:
    model = draft_model(sure(tiny_decoder()))
    model.pace = Pace(8, learns=False)
    drafter = ModelDrafter(model, list(range(30)))
    proposed = [bool(drafter.propose(4)) for _ in range(4)]
    assert proposed == [False, False, False, True]


def test_nothing_is_drafted_where_its_memory_is_full() -> None:
    model = draft_model(sure(tiny_decoder()), num_blocks=2)
    decoder = sure(tiny_decoder())
    drafted, _ = decoded(decoder, model)
    assert drafted.token_ids == decoded(decoder, None)[0].token_ids
    check_free(model)


def test_a_draft_ends_when_others_have_waited_long_enough() -> None:
    model = draft_model(sure(tiny_decoder()))
    model.draft_s = 0.0
    assert len(ModelDrafter(model, PROMPT).propose(4)) == 1


def test_all_drafts_of_a_step_share_its_time() -> None:
    model = draft_model(sure(tiny_decoder()))
    model.draft_s = 0.0
    drafters = [ModelDrafter(model, [*PROMPT, last]) for last in range(3)]
    assert [len(each.propose(4)) for each in drafters] == [1, 0, 0]
    model.begin_step()
    assert [len(each.propose(4)) for each in reversed(drafters)] == [1, 0, 0]


def test_each_step_has_its_own_time() -> None:
    model, received = draft_model(sure(tiny_decoder())), Received()
    model.draft_s = 0.0
    machine = Machine.of(sure(tiny_decoder()), drafts=model)
    drafter = ModelDrafter(model, PROMPT)
    machine.batcher.add(
        sequence_of(PROMPT, received, drafter=drafter, max_tokens=20, ignore_eos=True)
    )
    num_steps = machine.run()
    timings = received.chunks[-1].timings
    assert timings.num_drafted == timings.num_draft_accepted == 20 - num_steps > 8


def test_its_single_tokens_are_replayed_as_graphs() -> None:
    plain, decoder = draft_model(sure(tiny_decoder())), sure(tiny_decoder()).float()
    pool, captured = pool_of(decoder, 64), Replays()
    graphs = DecodeGraphs(decoder, pool, captured)
    model = DraftModel(decoder, pool, ByteVocabulary(), graphs=graphs, draft_s=float("inf"))
    draft = ModelDrafter(model, PROMPT).propose(4)
    assert draft == ModelDrafter(plain, PROMPT).propose(4)
    assert captured.num_runs == len(draft) - 1 == 3


def test_nothing_is_drafted_beyond_its_positions() -> None:
    model = draft_model(sure(tiny_decoder()), num_blocks=256)
    drafter = ModelDrafter(model, [5] * model.decoder.config.max_positions)
    assert drafter.propose(4) == []


def test_a_pre_empted_text_is_drafted_for_again() -> None:
    model = draft_model(sure(tiny_decoder()))
    drafter = ModelDrafter(model, PROMPT)
    draft = drafter.propose(3)
    assert len(draft) == 3
    drafter.release()
    check_free(model)
    assert drafter.propose(3) == draft


def test_one_that_fails_is_told_once_and_costs_nothing_else(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, decoder = draft_model(tiny_decoder()), tiny_decoder()

    def fail(*_: object) -> None:
        raise RuntimeError("out of memory")

    monkeypatch.setattr(model, "best", fail)
    with caplog.at_level(logging.ERROR):
        drafted, _ = decoded(decoder, model)
    assert drafted.token_ids == decoded(decoder, None)[0].token_ids
    assert [record.getMessage() for record in caplog.records] == [
        "the draft model failed; nothing is drafted by it any more"
    ]
    check_free(model)


def test_the_old_text_goes_before_it() -> None:
    model = draft_model(sure(tiny_decoder()))
    known = [40, 41, 42, 43, 44, 45]
    drafts = Drafts(PROMPT, known, ModelDrafter(model, PROMPT))
    assert drafts.propose(3) == known[:3]
    drafts.observe([1, 2])
    assert drafts.propose(3) == ModelDrafter(model, [*PROMPT, 1, 2]).propose(3)
    drafts.release()


@pytest.mark.parametrize("num_right", [0, 1, 2, 4])
def test_after_a_draft_that_was_partly_right_it_goes_on_from_the_text(num_right: int) -> None:
    model = draft_model(sure(tiny_decoder()))
    drafter = ModelDrafter(model, PROMPT)
    draft = drafter.propose(4)
    said = [*draft[:num_right], 63 - draft[num_right] if num_right < len(draft) else 5]
    drafter.observe(said)
    fresh = ModelDrafter(draft_model(sure(tiny_decoder())), [*PROMPT, *said])
    assert drafter.propose(1) == fresh.propose(1) != []

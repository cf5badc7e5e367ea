"""Whatever is computed together, each text is the one that its request would have alone."""

import random

import pytest

from composer_inference.decoder.model import Decoder
from composer_inference.priority import Priority
from tests.composer_inference.batching.tiny import (
    EOS,
    Machine,
    Received,
    greedy,
    sequence_of,
)


def prompts(number: int, seed: int = 0) -> list[list[int]]:
    """Some begin alike."""
    rng = random.Random(seed)
    beginning = [rng.randrange(64) for _ in range(10)]
    return [
        beginning[: rng.choice([0, 4, 10])] + [rng.randrange(64) for _ in range(rng.randint(1, 30))]
        for _ in range(number)
    ]


@pytest.mark.parametrize(
    "limits",
    [
        pytest.param({}, id="room for all"),
        pytest.param({"max_tokens": 5}, id="prompts in parts"),
        pytest.param({"max_sequences": 1}, id="one after the other"),
        pytest.param({"num_blocks": 22, "max_sequences": 8}, id="memory for few"),
        pytest.param({"decodes_along": True}, id="decoding along"),
    ],
)
def test_texts_are_those_of_plain_decoding(decoder: Decoder, limits: dict[str, int]) -> None:
    machine = Machine.of(decoder, **limits)
    asked = prompts(12)
    received = [Received() for _ in asked]
    for number, (prompt, each) in enumerate(zip(asked, received, strict=True)):
        machine.batcher.add(sequence_of(prompt, each, priority=Priority(number % 3), max_tokens=20))
    machine.run()
    assert [each.token_ids for each in received] == [greedy(decoder, each, 20) for each in asked]
    assert machine.cache.num_held == 0
    machine.cache.check_integrity()


def test_memory_for_few_takes_it_from_the_least_urgent(decoder: Decoder) -> None:
    machine = Machine.of(decoder, num_blocks=12, max_sequences=8)
    agent, tab = Received(), Received()
    first, second = prompts(2, seed=3)
    machine.batcher.add(sequence_of(first[:12], agent, max_tokens=30))
    while not agent.token_ids:
        machine.step()
    machine.batcher.add(sequence_of(second[:8], tab, priority=Priority.TAB, max_tokens=30))
    machine.run()
    assert tab.chunks[-1].timings.num_preemptions == 0
    assert agent.chunks[-1].timings.num_preemptions == 1
    assert agent.token_ids == greedy(decoder, first[:12], 30)


def test_a_prompt_takes_memory_from_the_less_urgent(decoder: Decoder) -> None:
    machine = Machine.of(decoder, num_blocks=12)
    agent, tab = Received(), Received()
    long_prompt = [each % 64 for each in range(40)]
    machine.batcher.add(sequence_of(long_prompt, agent, ignore_eos=True))
    while not agent.token_ids:
        machine.step()
    machine.batcher.add(sequence_of([9] * 12, tab, priority=Priority.TAB, max_tokens=1))
    machine.step()
    assert tab.is_finished
    assert not agent.is_finished
    machine.run()
    assert agent.chunks[-1].timings.num_preemptions == 1
    assert len(agent.token_ids) == 8


def test_equals_do_not_rob_each_other_in_turns(decoder: Decoder) -> None:
    machine = Machine.of(decoder, num_blocks=15)
    received = [Received(), Received()]
    for number, each in enumerate(received):
        machine.batcher.add(sequence_of([number] * 20, each, max_tokens=30, ignore_eos=True))
    machine.run()
    assert [each.chunks[-1].timings.num_preemptions for each in received] == [0, 1]
    assert [len(each.token_ids) for each in received] == [30, 30]


def test_a_less_urgent_prompt_stands_still(decoder: Decoder) -> None:
    machine = Machine.of(decoder, max_tokens=8)
    agent, tab = Received(), Received()
    machine.batcher.add(sequence_of([5] * 80, agent))
    machine.step()
    machine.batcher.add(sequence_of([9, 8, 7], tab, priority=Priority.TAB, max_tokens=6))
    had = len(agent.chunks)
    while not tab.is_finished:
        machine.step()
    assert len(agent.chunks) == had
    machine.run()
    assert agent.is_finished


def test_a_step_has_its_limit(decoder: Decoder) -> None:
    machine = Machine.of(decoder, max_tokens=7, max_sequences=8)
    for prompt in prompts(6):
        machine.batcher.add(sequence_of(prompt, Received()))
    sizes: list[int] = []
    while machine.batcher.sequences:
        sizes.append(machine.step())
    assert max(sizes) == 7


def test_less_urgent_ones_stand_still_and_keep_their_cache(decoder: Decoder) -> None:
    machine = Machine.of(decoder)
    agent, tab = Received(), Received()
    machine.batcher.add(sequence_of([1, 2, 3, 4, 5], agent, max_tokens=40))
    machine.step()
    machine.step()
    had = list(agent.token_ids)
    machine.batcher.add(sequence_of([9, 8, 7], tab, priority=Priority.TAB, max_tokens=5))
    while not tab.is_finished:
        machine.step()
        assert agent.token_ids == had
    machine.run()
    assert agent.token_ids == greedy(decoder, [1, 2, 3, 4, 5], 40)
    assert agent.chunks[-1].timings.num_preemptions == 0
    assert agent.chunks[-1].timings.num_prefill_tokens == 5


def test_less_urgent_ones_decode_along_where_that_is_cheap(decoder: Decoder) -> None:
    machine = Machine.of(decoder, decodes_along=True)
    agent, tab = Received(), Received()
    machine.batcher.add(sequence_of([1, 2, 3, 4, 5], agent, max_tokens=40))
    machine.step()
    machine.batcher.add(sequence_of([9, 8, 7], tab, priority=Priority.TAB, max_tokens=5))
    had = len(agent.token_ids)
    machine.step()
    assert tab.token_ids
    assert len(agent.token_ids) == had + 1


def test_a_keystroke_overtakes_a_long_prompt_at_the_next_step(decoder: Decoder) -> None:
    machine = Machine.of(decoder, max_tokens=8)
    agent, tab = Received(), Received()
    machine.batcher.add(sequence_of([5] * 80, agent))
    machine.step()
    machine.batcher.add(sequence_of([9, 8, 7], tab, priority=Priority.TAB, max_tokens=1))
    machine.step()
    assert tab.is_finished
    assert not agent.token_ids


def test_a_prompt_that_another_is_computing_is_computed_once(decoder: Decoder) -> None:
    machine = Machine.of(decoder, max_tokens=8)
    shared = prompts(1)[0][:1] * 20
    first, second = Received(), Received()
    machine.batcher.add(sequence_of([*shared, 1], first))
    machine.batcher.add(sequence_of([*shared, 2], second))
    machine.run()
    assert first.chunks[-1].timings.num_cached_tokens == 0
    assert second.chunks[-1].timings.num_cached_tokens == 20
    assert second.token_ids == greedy(decoder, [*shared, 2], 8)


def test_a_prompt_alone_is_computed_and_kept(decoder: Decoder) -> None:
    machine = Machine.of(decoder)
    warming, later = Received(), Received()
    machine.batcher.add(sequence_of([3] * 13, warming, max_tokens=0))
    machine.run()
    assert warming.chunks[-1].finish_reason == "length"
    assert warming.token_ids == []
    machine.batcher.add(sequence_of([3] * 14, later))
    machine.run()
    assert later.chunks[-1].timings.num_cached_tokens == 12


@pytest.mark.parametrize("ignore_eos", [False, True])
def test_the_end_token_ends_a_text_unless_it_is_to_be_ignored(
    decoder: Decoder, ignore_eos: bool
) -> None:
    prompt = next(each for each in prompts(200, seed=9) if EOS in greedy(decoder, each, 30))
    received = Received()
    machine = Machine.of(decoder)
    machine.batcher.add(sequence_of(prompt, received, max_tokens=30, ignore_eos=ignore_eos))
    machine.run()
    assert received.chunks[-1].finish_reason == ("length" if ignore_eos else "stop")
    assert (received.token_ids[-1] == EOS) != ignore_eos or len(received.token_ids) == 30
    assert "<eos>" not in received.text
    assert received.chunks[-1].timings.num_decoded_tokens == len(received.token_ids)


def lifetimes(decoder: Decoder, number: int, seed: int) -> None:
    """Requests that come, are computed, cancelled or end, with memory for a few of them."""
    rng = random.Random(seed)
    machine = Machine.of(decoder, num_blocks=30, max_sequences=6, max_tokens=rng.choice([3, 16]))
    num_begun = 0
    while num_begun < number or machine.batcher.sequences:
        if num_begun < number and rng.random() < 0.5:
            prompt = rng.choice(prompts(20, seed % 7))[: rng.randint(1, 40)]
            machine.batcher.add(
                sequence_of(
                    prompt,
                    Received(),
                    priority=rng.choice(list(Priority)),
                    max_tokens=rng.randint(0, 20),
                )
            )
            num_begun += 1
        if machine.batcher.sequences and rng.random() < 0.2:
            machine.batcher.remove(rng.choice(machine.batcher.sequences))
        machine.step()
    assert machine.cache.num_held == 0
    assert machine.cache.num_free + machine.cache.num_cached == 30
    machine.cache.check_integrity()


@pytest.mark.parametrize("seed", range(3))
def test_no_block_is_lost(decoder: Decoder, seed: int) -> None:
    lifetimes(decoder, 100, seed)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(3, 13))
def test_no_block_is_lost_over_ten_thousand_lifetimes(decoder: Decoder, seed: int) -> None:
    lifetimes(decoder, 1000, seed)


def test_a_prompt_as_long_as_the_memory_is_only_read(decoder: Decoder) -> None:
    machine = Machine.of(decoder, num_blocks=4)
    received = Received()
    machine.batcher.add(sequence_of([9] * 16, received, max_tokens=0))
    machine.run()
    assert received.chunks[-1].finish_reason == "length"


@pytest.mark.parametrize("max_tokens", [15, 16, 17])
def test_reading_a_prompt_reads_it_to_its_end(decoder: Decoder, max_tokens: int) -> None:
    machine = Machine.of(decoder, max_tokens=max_tokens)
    received = Received()
    machine.batcher.add(sequence_of(list(range(17)), received, max_tokens=0))
    machine.run()
    assert received.chunks[-1].timings.num_prefill_tokens == 17
    assert received.token_ids == []


def test_tokens_that_are_computed_again_count_once(decoder: Decoder) -> None:
    machine = Machine.of(decoder, num_blocks=8, max_tokens=8)
    agent, tab = Received(), Received()
    machine.batcher.add(sequence_of(list(range(24)), agent))
    machine.step()
    machine.batcher.add(sequence_of(list(range(30, 58)), tab, priority=Priority.TAB, max_tokens=2))
    machine.run()
    timings = agent.chunks[-1].timings
    assert timings.num_preemptions == 1
    assert timings.num_cached_tokens + timings.num_prefill_tokens == 24


def test_who_waits_for_anothers_prompt_takes_nobodys_place(decoder: Decoder) -> None:
    machine = Machine.of(decoder, max_tokens=8, max_sequences=2)
    agent, first, second = Received(), Received(), Received()
    machine.batcher.add(sequence_of([9] * 12, agent, ignore_eos=True))
    while not agent.token_ids:
        machine.step()
    prompt = list(range(40))
    machine.batcher.add(sequence_of(prompt, first, priority=Priority.TAB))
    machine.step()
    machine.batcher.add(sequence_of(prompt, second, priority=Priority.TAB))
    for _ in range(3):
        machine.step()
    assert len(machine.batcher.running) == 2
    assert agent.chunks[-1].timings.num_preemptions == 0
    machine.run()
    assert agent.chunks[-1].timings.num_preemptions <= 1
    assert second.token_ids == first.token_ids == greedy(decoder, prompt, 8)

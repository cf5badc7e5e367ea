"""Drafts change how many steps a text takes, and never the text."""

import random
from collections.abc import Sequence

import pytest

from composer_inference.decoder.model import Decoder
from composer_inference.drafts.drafter import Drafts
from tests.composer_inference.batching.tiny import Machine, Received, greedy, sequence_of


class Oracle:
    """Drafts a text that it was given, of which any share may be wrong."""

    def __init__(self, text: Sequence[int], share_wrong: float, seed: int = 0) -> None:
        self._text = list(text)
        self._share_wrong = share_wrong
        self._rng = random.Random(seed)
        self._at = 0

    def propose(self, max_tokens: int) -> list[int]:
        draft = self._text[self._at : self._at + max_tokens]
        return [
            self._rng.randrange(64) if self._rng.random() < self._share_wrong else token
            for token in draft
        ]

    def observe(self, token_ids: Sequence[int]) -> None:
        self._at += len(token_ids)

    def release(self) -> None:
        pass


PROMPT = [7, 11, 13, 17, 19]


def decoded(decoder: Decoder, drafter: object, **sampling: float) -> tuple[Received, int]:
    received = Received()
    machine = Machine.of(decoder, max_tokens=64)
    machine.batcher.add(
        sequence_of(PROMPT, received, drafter=drafter, **{"max_tokens": 60, **sampling})  # pyright: ignore[reportArgumentType]
    )
    return received, machine.run()


@pytest.mark.parametrize("share_wrong", [0.0, 0.1, 0.5, 1.0])
@pytest.mark.parametrize("temperature", [0.0, 0.8])
def test_the_text_is_that_without_drafts(
    decoder: Decoder, share_wrong: float, temperature: float
) -> None:
    how = {"temperature": temperature, "seed": 5, "ignore_eos": True}
    plain, plain_steps = decoded(decoder, None, **how)
    drafted, steps = decoded(decoder, Oracle(plain.token_ids, share_wrong), **how)
    assert drafted.token_ids == plain.token_ids
    assert drafted.text == plain.text
    assert len(plain.token_ids) == 60
    assert steps <= plain_steps
    if share_wrong == 0.0:
        assert steps <= 3


def test_what_is_drafted_beyond_the_end_is_not_given_out(decoder: Decoder) -> None:
    plain, _ = decoded(decoder, None, ignore_eos=True)
    stop = plain.text[10:12]
    received = Received()
    machine = Machine.of(decoder, max_tokens=64)
    machine.batcher.add(
        sequence_of(
            PROMPT,
            received,
            drafter=Oracle(plain.token_ids, 0.0),
            stop=(stop,),
            max_tokens=60,
            ignore_eos=True,
        )
    )
    machine.run()
    assert received.text == plain.text[: plain.text.find(stop)]
    assert received.chunks[-1].finish_reason == "stop"
    assert len(received.token_ids) < 60
    assert received.chunks[-1].timings.num_decoded_tokens == len(received.token_ids)


def test_penalties_and_log_probabilities_are_those_without_drafts(decoder: Decoder) -> None:
    how = {"repeat_penalty": 1.3, "num_logprobs": 2, "ignore_eos": True}
    plain, _ = decoded(decoder, None, **how)
    drafted, _ = decoded(decoder, Oracle(plain.token_ids, 0.3), **how)
    first, second = (
        [each for chunk in received.chunks for each in chunk.logprobs]
        for received in (plain, drafted)
    )
    assert [each.token_id for each in first] == [each.token_id for each in second]
    assert [each.logprob for each in first] == pytest.approx([each.logprob for each in second])
    assert len(first) == 60


def test_a_prediction_that_is_right_saves_steps(decoder: Decoder) -> None:
    text = greedy(decoder, PROMPT, 60)
    received, steps = decoded(decoder, Drafts(PROMPT, text))
    assert received.token_ids == text
    assert steps <= len(text) // 4

"""Frequency and presence penalties, reckoned by hand."""

import pytest
import torch

from composer_inference.backends.base import SamplingParams
from composer_inference.sampling.sampler import TokenSampler

PROMPT = [0, 0, 0, 3]


def sampler(**params: float) -> TokenSampler:
    return TokenSampler(SamplingParams(**params), PROMPT, 5)  # pyright: ignore[reportArgumentType]


def drawn(sampler: TokenSampler, logits: list[float], num_tokens: int, start: int = 4) -> list[int]:
    row = torch.tensor(logits)
    return [sampler.sample(row, start + index).token_id for index in range(num_tokens)]


@pytest.mark.parametrize(
    ("params", "tokens"),
    [
        # Of 3, 2.5, 2, 1, 0: each time 0.7 less.
        pytest.param({"frequency_penalty": 0.7}, [0, 1, 0, 2, 1, 0, 2], id="frequency"),
        # Once 1.2 less: 1.8, 1.3, 0.8, and never again.
        pytest.param({"presence_penalty": 1.2}, [0, 1, 2, 0, 0, 0, 0], id="presence"),
        # 3 is 1.65 and 0.95 after one and two times, 2.5 is 1.15 and 0.45, 2 is 0.65.
        pytest.param(
            {"frequency_penalty": 0.7, "presence_penalty": 0.65}, [0, 1, 2, 0, 1, 3, 0], id="both"
        ),
        pytest.param({"presence_penalty": -2}, [0, 0, 0, 0, 0, 0, 0], id="negative"),
        pytest.param({"frequency_penalty": 0.0}, [0, 0, 0, 0, 0, 0, 0], id="none"),
    ],
)
def test_what_is_drawn(params: dict[str, float], tokens: list[int]) -> None:
    assert drawn(sampler(**params), [3.0, 2.5, 2.0, 1.0, 0.0], 7) == tokens


def test_a_bonus_keeps_what_was_said() -> None:
    bonus = sampler(frequency_penalty=-1.0)
    assert drawn(bonus, [3.0, 2.5, 0.0, 0.0, 0.0], 1) == [0]
    assert drawn(bonus, [2.0, 2.5, 0.0, 0.0, 0.0], 1, start=5) == [0]


def test_what_is_drawn_anew_is_forgotten() -> None:
    again = sampler(frequency_penalty=0.7)
    logits = [3.0, 2.5, 2.0, 1.0, 0.0]
    first = drawn(again, logits, 7)
    assert drawn(again, logits, 4, start=7) == first[3:]
    assert drawn(again, logits, 7) == first


def test_they_are_not_greedy_plainly_and_leave_log_probabilities_alone() -> None:
    assert not sampler(presence_penalty=1.0).is_plain_greedy
    assert sampler().is_plain_greedy
    reporting = sampler(presence_penalty=2.0, num_logprobs=1)
    row = torch.tensor([3.0, 2.5, 2.0, 1.0, 0.0])
    first = reporting.sample(row, 4)
    second = reporting.sample(row, 5)
    own = torch.log_softmax(row, dim=-1)
    assert (first.token_id, second.token_id) == (0, 1)
    assert second.logprob == pytest.approx(float(own[1]), abs=1e-6)
    assert second.top[0][0] == 0

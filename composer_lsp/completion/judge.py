"""Whether a suggestion is worth showing: how likely it is right, by what the model said of its own tokens.

A logistic regression. Its weights are fitted by `python -m bench.tab judge` on one half of HumanEval
infilling's programs and judged on the other (docs/benchmarks.md).
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields


@dataclass(frozen=True, kw_only=True, slots=True)
class Features:
    """Of one suggestion, none of which costs anything."""

    mean_logprob: float
    least_logprob: float
    num_more_lines: float
    """Beyond the first, square root."""
    is_cut: float
    """1 where the model had more to say, which is often what was wanted too."""


BIAS = 2.20
WEIGHTS = Features(mean_logprob=3.27, least_logprob=0.18, num_more_lines=-1.11, is_cut=-1.07)


def score(text: str, tokens: Iterable[tuple[str, float]], *, is_cut: bool) -> float | None:
    """From 0 to 1: how likely the suggestion is the wanted one. `tokens`: of the model's answer, of
    which `text` is what trimming left. `is_cut`: the model had not ended it. None where the engine said
    nothing of them."""
    features = features_of(text, tokens, is_cut=is_cut)
    return None if features is None else score_of(features)


def score_of(features: Features) -> float:
    logit = BIAS + sum(
        getattr(WEIGHTS, each.name) * getattr(features, each.name) for each in fields(Features)
    )
    return (1 + math.tanh(logit / 2)) / 2


def features_of(text: str, tokens: Iterable[tuple[str, float]], *, is_cut: bool) -> Features | None:
    logprobs = _of_text(text, tokens)
    if not logprobs:
        return None
    return Features(
        mean_logprob=sum(logprobs) / len(logprobs),
        least_logprob=min(logprobs),
        num_more_lines=math.sqrt(text.strip().count("\n")),
        is_cut=float(is_cut),
    )


def _of_text(text: str, tokens: Iterable[tuple[str, float]]) -> Sequence[float]:
    # Trimming changes white space at most, so what is not white is counted.
    num_left = len("".join(text.split()))
    logprobs: list[float] = []
    for token, logprob in tokens:
        if num_left <= 0:
            break
        num_left -= len("".join(token.split()))
        logprobs.append(logprob)
    return logprobs

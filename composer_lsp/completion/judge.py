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
    first_logprob: float
    log_num_tokens: float
    num_more_lines: float
    """Beyond the first, square root."""


_BIAS = 1.41
_WEIGHTS = Features(
    mean_logprob=1.29,
    least_logprob=0.55,
    first_logprob=1.30,
    log_num_tokens=-0.13,
    num_more_lines=-0.78,
)


def score(text: str, tokens: Iterable[tuple[str, float]]) -> float | None:
    """From 0 to 1: how likely the suggestion is the wanted one. `tokens`: of the model's answer, of
    which `text` is what trimming left. None where the engine said nothing of them."""
    features = features_of(text, tokens)
    return None if features is None else score_of(features)


def score_of(features: Features) -> float:
    logit = _BIAS + sum(
        getattr(_WEIGHTS, each.name) * getattr(features, each.name) for each in fields(Features)
    )
    return (1 + math.tanh(logit / 2)) / 2


def features_of(text: str, tokens: Iterable[tuple[str, float]]) -> Features | None:
    logprobs = _of_text(text, tokens)
    if not logprobs:
        return None
    return Features(
        mean_logprob=sum(logprobs) / len(logprobs),
        least_logprob=min(logprobs),
        first_logprob=logprobs[0],
        log_num_tokens=math.log(len(logprobs)),
        num_more_lines=math.sqrt(text.strip().count("\n")),
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

"""Whether a suggestion is worth showing: how likely it is right, by what the model said of its own tokens.

A logistic regression. Its weights are fitted by `python -m bench.tab judge` on one half of HumanEval
infilling's programs and judged on the other (docs/benchmarks.md).
"""

import math
from collections.abc import Sequence
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
    says_below: float
    """1 where what it said next is what stands below already: then nothing is missing between."""
    says_other: float
    """1 where it said something else next, although there is text below."""


BIAS = 2.55
WEIGHTS = Features(
    mean_logprob=2.94,
    least_logprob=0.67,
    num_more_lines=-1.00,
    is_cut=-0.87,
    says_below=0.61,
    says_other=-1.80,
)


def score(
    text: str, tokens: Sequence[tuple[str, float]], *, is_cut: bool, after: str
) -> float | None:
    """From 0 to 1: how likely the suggestion is the wanted one. `tokens`: of the model's answer, of
    which `text` is what trimming left. `is_cut`: the model had not ended it. `after`: the text behind the
    cursor. None where the engine said nothing of the tokens."""
    features = features_of(text, tokens, is_cut=is_cut, after=after)
    return None if features is None else score_of(features)


def score_of(features: Features) -> float:
    logit = BIAS + sum(
        getattr(WEIGHTS, each.name) * getattr(features, each.name) for each in fields(Features)
    )
    return (1 + math.tanh(logit / 2)) / 2


def features_of(
    text: str, tokens: Sequence[tuple[str, float]], *, is_cut: bool, after: str
) -> Features | None:
    num_tokens = _num_tokens_of(text, tokens)
    logprobs = [logprob for _, logprob in tokens[:num_tokens]]
    if not logprobs:
        return None
    said, below = _first_line("".join(each for each, _ in tokens[num_tokens:])), _first_line(after)
    is_known = bool(said and below)
    is_below = is_known and (said.startswith(below) or below.startswith(said))
    return Features(
        mean_logprob=sum(logprobs) / len(logprobs),
        least_logprob=min(logprobs),
        num_more_lines=math.sqrt(text.strip().count("\n")),
        is_cut=float(is_cut),
        says_below=float(is_below),
        says_other=float(is_known and not is_below),
    )


def _num_tokens_of(text: str, tokens: Sequence[tuple[str, float]]) -> int:
    # Trimming changes white space at most, so what is not white is counted.
    num_left = len("".join(text.split()))
    for index, (token, _) in enumerate(tokens):
        if num_left <= 0:
            return index
        num_left -= len("".join(token.split()))
    return len(tokens)


def _first_line(text: str) -> str:
    """That is not blank."""
    return text.lstrip().partition("\n")[0].rstrip()

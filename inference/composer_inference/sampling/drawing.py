"""One token out of a row of logits: which tokens may be drawn, and the draw.

In numpy on the host: its maxima and searches take a tenth of torch's time on a CPU (150,000 logits).
The filters have the meaning and the order of transformers' (`TemperatureLogitsWarper`, `TopK…`,
`TopP…`, `MinP…`): temperature, then top-k, then top-p over what is left, then min-p.

Dimensions: V the vocabulary, C candidates of it.
"""

import math

import numpy as np
from numpy.typing import NDArray

from composer_inference.backends.base import BackendError, SamplingParams

Floats = NDArray[np.float32]
Ids = NDArray[np.int64]

_BLOCK = 512
"""Weights that are summed before they are searched."""
_GROUP = 64
"""Values whose largest stands for them."""
_FLOORS = (1e-3, 1e-5, 0.0)
"""Weights above which the nucleus is looked for, in turn, so that few are sorted; the largest is 1."""


class NoTokenError(BackendError):
    """No token can be drawn: the logits are no numbers, or none is allowed."""


def draw(logits_V: Floats, params: SamplingParams, uniform: float) -> int:
    """The token at `uniform`, from 0 to below 1, of the filtered distribution. The temperature is
    above 0.

    Raises: NoTokenError.
    """
    ids_C, weights_C = candidates(logits_V, params)
    index = _at(weights_C, uniform)
    return index if ids_C is None else int(ids_C[index])


def candidates(logits_V: Floats, params: SamplingParams) -> tuple[Ids | None, Floats]:
    """The tokens that may be drawn, None for all, and their weights, which sum to nothing in
    particular; some may be 0.

    Raises: NoTokenError.
    """
    largest = checked_max(logits_V)
    ids_C: Ids | None = None
    if 0 < params.top_k < len(logits_V):
        ids_C = np.flatnonzero(logits_V >= kth_largest(logits_V, params.top_k))
        logits_V = logits_V[ids_C]
    weights_C = logits_V - largest
    weights_C /= np.float32(params.temperature)
    np.exp(weights_C, out=weights_C)
    if params.top_p < 1:
        ids_C, weights_C = _taken(ids_C, weights_C, _nucleus(weights_C, params.top_p))
    if params.min_p > 0:
        kept_C = np.flatnonzero(weights_C >= np.float32(params.min_p))
        ids_C, weights_C = _taken(ids_C, weights_C, kept_C)
    return ids_C, weights_C


def checked_max(logits_V: Floats) -> float:
    """Raises: NoTokenError if it is no number that can be reckoned with."""
    largest = float(logits_V.max())
    if math.isfinite(largest):
        return largest
    if largest == -math.inf:
        raise NoTokenError("no token is allowed here")
    raise NoTokenError(
        f"the model's logits hold {largest}; its weights are damaged, or overflow in this dtype"
    )


def kth_largest(values_V: Floats, k: int) -> float:
    """`k` from 1 to the number of values."""
    num_groups = len(values_V) // _GROUP
    if k <= num_groups:
        # At least k values are as large as the k-th largest of the groups' maxima.
        maxima = values_V[: num_groups * _GROUP].reshape(_GROUP, num_groups).max(axis=0)
        bound = np.partition(maxima, -k)[-k]
        values_V = values_V[np.flatnonzero(values_V >= bound)]
    return float(np.partition(values_V, -k)[-k])


def _taken(ids: Ids | None, weights: Floats, kept: Ids) -> tuple[Ids, Floats]:
    return kept if ids is None else ids[kept], weights[kept]


def _nucleus(weights_C: Floats, top_p: float) -> Ids:
    """The fewest, largest first, whose share is `top_p`; at least one. The lower id is the larger of
    two equal ones."""
    wanted = top_p * float(weights_C.sum(dtype=np.float64))
    largest: Floats = weights_C
    for floor in _FLOORS:
        largest = weights_C[np.flatnonzero(weights_C > floor)]
        if largest.sum(dtype=np.float64) >= wanted:
            break
    largest = np.sort(largest)[::-1]
    cumulative = np.cumsum(largest, dtype=np.float64)
    num_kept = min(int(np.searchsorted(cumulative, wanted)) + 1, len(largest))
    least = largest[num_kept - 1]
    kept = np.flatnonzero(weights_C >= least)
    equal = np.flatnonzero(weights_C[kept] == least)
    return np.delete(kept, equal[len(equal) - (len(kept) - num_kept) :])


def _at(weights: Floats, uniform: float) -> int:
    """The index at this share of the weights' sum; never one whose weight is 0."""
    starts = np.arange(0, len(weights), _BLOCK)
    ends = np.cumsum(np.add.reduceat(weights, starts, dtype=np.float64))
    target = uniform * float(ends[-1])
    block = _place(ends, target)
    start = block * _BLOCK
    before = float(ends[block - 1]) if block > 0 else 0.0
    within = np.cumsum(weights[start : start + _BLOCK], dtype=np.float64)
    return start + _place(within, target - before)


def _place(ends: NDArray[np.float64], target: float) -> int:
    """The part, of those that end there, that the target lies in."""
    index = int(np.searchsorted(ends, target, side="right"))
    # Rounded up, the target may be the end itself; the parts behind the last are empty.
    return min(index, int(np.searchsorted(ends, float(ends[-1]))))

"""Reads what model servers answer. What is not as it has to be raises ModelServerError; `who` begins
its message."""

import math
import reprlib
from collections.abc import Mapping, Sequence
from operator import itemgetter
from types import NoneType
from typing import Any, cast

import numpy as np

from composer_index.embedding.embedder import Vectors
from composer_index.embedding.server import ModelServerError

MIN_DIM = 2
"""A single number tells no texts apart: it is no embedding model."""
MAX_DIM = 8192
_MIN_NORM = 1e-12
"""Of a vector with a direction; what is shorter is zero."""
_MAX_NORM = 1e12

Items = Sequence[Mapping[str, Any]]


def one_for_each(
    who: str, answer: Mapping[str, Any], key: str, what: str, number: int, *, is_ordered: bool
) -> Items:
    """The objects in the list at `key`, `what` they are in words, one for each of `number` texts and
    in their order. `is_ordered`: they are in it already if none has an `index`."""
    items: object = answer.get(key)
    if not isinstance(items, list) or not all(
        isinstance(item, dict) for item in cast("list[object]", items)
    ):
        raise ModelServerError(f"{who} answered without a list of {key}")
    found = cast("list[Mapping[str, Any]]", items)
    if len(found) != number:
        raise ModelServerError(f"{who} gave {len(found)} {what} for {number} texts")
    places = [item.get("index") for item in found]
    if is_ordered and all(place is None for place in places):
        return found
    # A boolean is an `int`, and 1.0 equals 1.
    if not all(type(place) is int for place in places) or set(places) != set(range(number)):
        raise ModelServerError(f"{who} gave {what} without telling which text each is for")
    return sorted(found, key=itemgetter("index"))


def scores_of(who: str, items: Items) -> Sequence[float]:
    """The finite `relevance_score` of each."""
    return [_finite(who, item.get("relevance_score")) for item in items]


def vectors_of(who: str, items: Items) -> Vectors:
    """The `embedding` of each, made to be of length one; a row of zeros where it has no direction."""
    found: list[object] = [item.get("embedding") for item in items]
    rows = [cast("list[Any]", row) for row in found if isinstance(row, list)]
    types: set[type] = {kind for row in rows for kind in set(map(type, row))}
    is_rectangle = len(rows) == len(found) and len(set(map(len, rows))) == 1
    # JSON has no NaN: some servers write null for it.
    if not is_rectangle or not types or not types <= {int, float, NoneType}:
        raise ModelServerError(f"{who} gave something other than one vector a text")
    if not MIN_DIM <= len(rows[0]) <= MAX_DIM:
        raise ModelServerError(
            f"{who} gave vectors of {len(rows[0]):,} numbers, which is not between {MIN_DIM} and "
            f"{MAX_DIM:,}. Is it an embedding model?"
        )
    try:
        vectors = np.array(rows, np.float64)  # null becomes NaN
    except OverflowError:
        vectors = np.full((1, 1), math.inf)
    if not np.isfinite(vectors).all():
        raise ModelServerError(f"{who} gave vectors with numbers that are not finite")
    with np.errstate(over="ignore"):
        norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    if norms.max() > _MAX_NORM:
        raise ModelServerError(f"{who} gave a vector of length {norms.max():.0e}: it is damaged")
    vectors[norms[:, 0] < _MIN_NORM] = 0.0
    return (vectors / np.maximum(norms, _MIN_NORM)).astype(np.float32)


def _finite(who: str, value: object) -> float:
    if isinstance(value, int | float) and not isinstance(value, bool):
        try:
            if math.isfinite(value):
                return float(value)
        except OverflowError:
            pass
    raise ModelServerError(f"{who} gave a score that is no number: {reprlib.repr(value)}")

"""How much each word tells, over the stores of several roots."""

import math
from collections.abc import Collection, Sequence
from typing import Protocol

from composer_index.search.shadow import Weights

_SOME = 0.25
"""Chunks, at least, that have a word which is there at all: their number is an estimate."""


class CountedWeights(Weights, Protocol):
    """Weights that know how many chunks they are of."""

    def num_chunks(self) -> int:
        """Returns the number of chunks."""
        ...


class Together:
    """The weights that one store of all would have."""

    def __init__(self, each: Sequence[CountedWeights]) -> None:
        self._each = each
        self._numbers = [one.num_chunks() for one in each]
        self._found: dict[str, float] = {}

    def weight(self, word: str) -> float:
        """Returns the inverse document frequency of a word."""
        if word not in self._found:
            number, having = sum(self._numbers), self._num_having(word)
            self._found[word] = math.log(1 + (number - having + 0.5) / (having + 0.5))
        return self._found[word]

    def average_length(self) -> float:
        """Returns the words of an average chunk."""
        lengths = (
            one.average_length() * count
            for one, count in zip(self._each, self._numbers, strict=True)
        )
        return max(1.0, sum(lengths) / max(1, sum(self._numbers)))

    def share(self, words: Collection[str], unknown: Collection[str]) -> float:
        """Returns how much of the weight of `words` is not of the `unknown` ones, of 0 to 1. Those
        that no chunk has count nothing: nobody can find them."""
        if not unknown:
            return 1.0
        found = {word: self.weight(word) for word in words if self._num_having(word) > _SOME}
        whole = sum(found.values())
        missing = sum(weight for word, weight in found.items() if word in unknown)
        return 1 - missing / whole if whole else 1.0

    def _num_having(self, word: str) -> float:
        return sum(
            _num_having(one.weight(word), count)
            for one, count in zip(self._each, self._numbers, strict=True)
        )


def _num_having(weight: float, number: int) -> float:
    """The chunks that have a word, of `number`, by its inverse document frequency."""
    return min(float(number), max(0.0, (number + 1) / math.exp(weight) - 0.5))

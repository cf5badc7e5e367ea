"""Drafts of a text that is known beforehand, such as the file that an edit rewrites."""

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from functools import cached_property

from composer_inference.drafts.ngrams import NgramIndex, common_suffix

_RUN_SIZES = (6, 2)
_NUM_CANDIDATES = 4
"""Occurrences compared on each side of the last certain place."""
_CERTAIN = 4
"""So many tokens in agreement are no chance."""
_TAIL = 16
"""Tokens of the output that an alignment is judged by."""


class PredictionDrafter:
    """Follows the output through the prediction, and finds where it goes on after a difference."""

    def __init__(self, prediction: Sequence[int]) -> None:
        """The output is expected to begin as the prediction does."""
        self._prediction = prediction
        self._tail: list[int] = []
        self._place = 0
        self._anchor = 0
        """Where the output was last seen for certain."""
        self._num_agreed = _CERTAIN

    @property
    def num_agreed(self) -> int:
        """The output's last tokens that are those before the draft too; 0 if there is no draft."""
        return self._num_agreed if self._place < len(self._prediction) else 0

    def propose(self, max_tokens: int) -> list[int]:
        if not self._num_agreed:
            return []
        return list(self._prediction[self._place : self._place + max_tokens])

    def observe(self, token_ids: Sequence[int]) -> None:
        for token_id in token_ids:
            agrees = self.num_agreed and self._prediction[self._place] == token_id
            self._move(self._place + 1, self._num_agreed + 1 if agrees else 0)
            self._tail = [*self._tail[1 - _TAIL :], token_id]
            if self._num_agreed < _CERTAIN:
                self._align()

    def _move(self, place: int, num_agreed: int) -> None:
        self._place, self._num_agreed = place, num_agreed
        if num_agreed >= _CERTAIN:
            self._anchor = place

    def _align(self) -> None:
        """Where the most tokens agree; of equal ones the nearest after the last certain place."""
        for index in self._indices:
            for end in self._nearest(index.ends(self._tail[-index.size :])):
                length = common_suffix(self._prediction, end, self._tail, _TAIL)
                if length > self._num_agreed:
                    self._place, self._num_agreed = end, length
        self._move(self._place, self._num_agreed)

    def _nearest(self, ends: Sequence[int]) -> Iterator[int]:
        middle = bisect_left(ends, self._anchor)
        yield from ends[middle : middle + _NUM_CANDIDATES]
        yield from reversed(ends[max(middle - _NUM_CANDIDATES, 0) : middle])

    @cached_property
    def _indices(self) -> tuple[NgramIndex, ...]:
        return tuple(NgramIndex(size, self._prediction) for size in _RUN_SIZES)

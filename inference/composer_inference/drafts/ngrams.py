"""Where runs of tokens occur in a text that may grow."""

from collections.abc import Iterable, Sequence


class NgramIndex:
    """Of the runs of `size` tokens. Each token is indexed once."""

    def __init__(self, size: int, token_ids: Iterable[int] = ()) -> None:
        self.size = size
        self._ends: dict[tuple[int, ...], list[int]] = {}
        self._last: tuple[int, ...] = ()
        self._num_tokens = 0
        self.extend(token_ids)

    def extend(self, token_ids: Iterable[int]) -> None:
        size, last, ends = self.size, self._last, self._ends
        for end, token_id in enumerate(token_ids, self._num_tokens + 1):
            last = (*last[end > size :], token_id)
            if end >= size:
                ends.setdefault(last, []).append(end)
            self._num_tokens = end
        self._last = last

    def ends(self, run: Iterable[int]) -> Sequence[int]:
        """The places behind each occurrence, ascending; valid until the next `extend`."""
        return self._ends.get(tuple(run), ())


def common_suffix(one: Sequence[int], end: int, other: Sequence[int], limit: int) -> int:
    """How many tokens before `end` are the last ones of `other`, up to `limit`."""
    limit = min(limit, end, len(other))
    for length in range(limit):
        if one[end - 1 - length] != other[-1 - length]:
            return length
    return limit

"""Where two sequences of lines differ, in a time that does not grow with the square of their length.

difflib aligns lines as people do, and takes minutes for long texts with many changes or of lines that
are all alike. Where it would, the lines that stand once in both texts are matched first (as in Bram
Cohen's patience diff), and what lies between them by the fewest edits (E. Myers, "An O(ND) Difference
Algorithm and Its Variations", 1986) if these are few.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence
from difflib import Match, SequenceMatcher
from itertools import accumulate

Gap = tuple[int, int, int, int]
"""The lines of the old text that no line of the new one matches, from and to (exclusive), and those of
the new text that stand in their place; one side may be empty."""

_MAX_STEPS = 500_000
"""Of difflib, each some 0.1 µs."""
_MAX_EDITS = 100
"""Lines left out or put in between two lines that match for certain; where there are more, all that
is between them is one gap."""


def gaps(old: Sequence[str], new: Sequence[str]) -> list[Gap]:
    """In order; between two of them stands a line that matches."""
    # What both begin and end with SequenceMatcher may cut in two.
    i1, i2, j1, j2 = _trimmed(old, new, (0, len(old), 0, len(new)))
    middle = old[i1:i2], new[j1:j2]
    try:
        found = list(_Matcher(*middle).gaps())
    except _TooManyStepsError:
        found = list(_gaps_between_anchors(*middle))
    return [(a1 + i1, a2 + i1, b1 + j1, b2 + j1) for a1, a2, b1, b2 in found]


class _TooManyStepsError(Exception):
    pass


class _Matcher(SequenceMatcher[str]):
    """Raises _TooManyStepsError where it would take too long."""

    def __init__(self, old: Sequence[str], new: Sequence[str]) -> None:
        # autojunk would take every frequent line of a long file for noise.
        super().__init__(None, old, new, autojunk=False)
        num_places = Counter(new)
        self._steps = list(accumulate((1 + num_places[line] for line in old), initial=0))
        self._num_left = _MAX_STEPS

    def gaps(self) -> Iterator[Gap]:
        for tag, i1, i2, j1, j2 in self.get_opcodes():
            if tag != "equal":
                yield i1, i2, j1, j2

    def find_longest_match(
        self, alo: int = 0, ahi: int | None = None, blo: int = 0, bhi: int | None = None
    ) -> Match:
        self._num_left -= self._steps[-1 if ahi is None else ahi] - self._steps[alo]
        if self._num_left < 0:
            raise _TooManyStepsError
        return super().find_longest_match(alo, ahi, blo, bhi)


def _gaps_between_anchors(old: Sequence[str], new: Sequence[str]) -> Iterator[Gap]:
    i, j = 0, 0
    for at, place in [*_anchors(old, new), (len(old), len(new))]:
        yield from _fewest_gaps(old, new, _trimmed(old, new, (i, at, j, place)))
        i, j = at + 1, place + 1


def _anchors(old: Sequence[str], new: Sequence[str]) -> list[tuple[int, int]]:
    """As many lines as can be of those that stand once in both texts, in the order of both."""
    num_old, num_new = Counter(old), Counter(new)
    places = {line: place for place, line in enumerate(new) if num_new[line] == 1}
    pairs = [
        (at, places[line]) for at, line in enumerate(old) if num_old[line] == 1 and line in places
    ]
    # The longest increasing subsequence: the smallest last place of each length, and what leads there.
    lasts: list[int] = []
    ends: list[int] = []
    befores: list[int | None] = []
    for number, (_, place) in enumerate(pairs):
        length = bisect_left(lasts, place)
        lasts[length : length + 1] = [place]
        ends[length : length + 1] = [number]
        befores.append(ends[length - 1] if length else None)
    chosen: list[tuple[int, int]] = []
    at = ends[-1] if ends else None
    while at is not None:
        chosen.append(pairs[at])
        at = befores[at]
    return chosen[::-1]


def _trimmed(old: Sequence[str], new: Sequence[str], gap: Gap) -> Gap:
    """Without what both sides begin and end with."""
    i1, i2, j1, j2 = gap
    while i1 < i2 and j1 < j2 and old[i1] == new[j1]:
        i1, j1 = i1 + 1, j1 + 1
    while i1 < i2 and j1 < j2 and old[i2 - 1] == new[j2 - 1]:
        i2, j2 = i2 - 1, j2 - 1
    return i1, i2, j1, j2


def _fewest_gaps(old: Sequence[str], new: Sequence[str], gap: Gap) -> list[Gap]:
    """What is left of a gap when as many lines as can be are matched in it."""
    i1, i2, j1, j2 = gap
    if i1 == i2 or j1 == j2:
        return [gap] if (i1, j1) != (i2, j2) else []
    edits = _fewest_edits(old[i1:i2], new[j1:j2])
    if edits is None:
        return [gap]
    found: list[Gap] = []
    for x, y, is_new in edits:
        edit = (x + i1, x + i1 + (not is_new), y + j1, y + j1 + is_new)
        if found and (found[-1][1], found[-1][3]) == (edit[0], edit[2]):
            edit = (found[-1][0], edit[1], found[-1][2], edit[3])
            found.pop()
        found.append(edit)
    return found


def _fewest_edits(old: Sequence[str], new: Sequence[str]) -> list[tuple[int, int, bool]] | None:
    """The edits, in order: where in both texts, and whether a line is put in there or left out. None
    if they are too many."""
    reach = {1: 0}
    """By diagonal (line of the old text less that of the new one), the last line of the old text."""
    trace: list[dict[int, int]] = []
    for num in range(_MAX_EDITS + 1):
        trace.append(dict(reach))
        for diagonal in range(-num, num + 1, 2):
            x = _next(reach, diagonal, num)[0]
            y = x - diagonal
            while x < len(old) and y < len(new) and old[x] == new[y]:
                x, y = x + 1, y + 1
            reach[diagonal] = x
            if x >= len(old) and y >= len(new):
                return _walked_back(trace, len(old) - len(new))
    return None


def _next(reach: dict[int, int], diagonal: int, num: int) -> tuple[int, bool]:
    """How far edit number `num` comes on the diagonal, and whether it puts a line in."""
    if diagonal == -num or (diagonal != num and reach[diagonal - 1] < reach[diagonal + 1]):
        return reach[diagonal + 1], True
    return reach[diagonal - 1] + 1, False


def _walked_back(trace: Sequence[dict[int, int]], diagonal: int) -> list[tuple[int, int, bool]]:
    steps: list[tuple[int, int, bool]] = []
    for num in range(len(trace) - 1, 0, -1):
        x, is_new = _next(trace[num], diagonal, num)
        y = x - diagonal
        steps.append((x, y - 1, True) if is_new else (x - 1, y, False))
        diagonal += 1 if is_new else -1
    return steps[::-1]

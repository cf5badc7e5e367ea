"""Runs of lines, for text that has no tree."""

from bisect import bisect_right
from collections.abc import Iterator

from composer_index.parsing.text import Lines


def windows(lines: Lines, start: int, end: int, budget: int) -> Iterator[tuple[int, int]]:
    """Cuts the rows `start` to `end` (exclusive) into runs of at most `budget` non-white characters.

    A run ends at a blank line where its second half has one. A single row may exceed the budget.
    """
    while start < end:
        full = lines.weights[start] + budget
        stop = bisect_right(lines.weights, full, start, end + 1) - 1
        stop = max(stop, start + 1)
        if stop < end:
            half = bisect_right(lines.weights, full - budget // 2, start, stop + 1)
            stop = next((row for row in range(stop, half, -1) if _is_blank(lines, row)), stop)
        yield start, stop
        start = stop


def _is_blank(lines: Lines, row: int) -> bool:
    return lines.weights[row] == lines.weights[row + 1]

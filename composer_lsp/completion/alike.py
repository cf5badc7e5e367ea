"""The piece of an open document that has most in common with the place where the user writes."""

import re
from collections import deque
from dataclasses import dataclass

WINDOW_LINES = 24
_NEAR_CHARS = 1200
"""Text before the place whose names count."""
_MAX_LINES = 3000
"""Of a document, that are looked at: some 5 ms."""
_MAX_LINE_CHARS = 400
"""Of a line, that are looked at: more is data, or minified."""
_MIN_SHARED = 3
_NAME = re.compile(r"[^\W\d]\w{2,}")


@dataclass(frozen=True, kw_only=True, slots=True)
class Alike:
    first_line: int
    """1-based."""
    text: str
    share: float
    """Of the place's names that it has."""


def names_near(text: str, offset: int) -> frozenset[str]:
    """The names in front of a place, and on its line."""
    end = text.find("\n", offset)
    near = text[max(0, offset - _NEAR_CHARS) : end if end >= 0 else len(text)]
    return frozenset(_NAME.findall(near))


def most_alike(text: str, names: frozenset[str]) -> Alike | None:
    """The window of lines with most of the names; None where no window has more than a few."""
    lines = text.splitlines()[:_MAX_LINES]
    counts: dict[str, int] = {}
    inside: deque[frozenset[str]] = deque()
    best, best_start = 0, 0
    for index, line in enumerate(lines):
        shared = names.intersection(_NAME.findall(line[:_MAX_LINE_CHARS]))
        inside.append(shared)
        for name in shared:
            counts[name] = counts.get(name, 0) + 1
        if len(inside) > WINDOW_LINES:
            for name in inside.popleft():
                counts[name] -= 1
                if not counts[name]:
                    del counts[name]
        if len(counts) > best:
            best, best_start = len(counts), max(0, index + 1 - WINDOW_LINES)
    if best < _MIN_SHARED:
        return None
    window = lines[best_start : best_start + WINDOW_LINES]
    return Alike(first_line=best_start + 1, text="\n".join(window), share=best / max(1, len(names)))

"""Exact search and replace: a passage must stand in the text once, unless all places are meant, and
nothing else changes.

Passages are compared with every line end as \\n, since a model writes no other; what is put in
takes the line ends of its surroundings, and lines that stay keep their own.
"""

import re
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher, get_close_matches
from itertools import accumulate, pairwise

from composer_lsp.agent.edits.hunks import find_hunks
from composer_lsp.agent.edits.lines import line_end, split_lines, usual_end, with_line_feeds

_MAX_CANDIDATES = 3
_MAX_SHOWN_LINES = 12
"""Of a candidate, in an error."""
_CLOSE = 0.6
"""How alike a candidate is at least, as `SequenceMatcher.ratio` says."""
_MAX_COMPARED = 2000
"""Places that are compared in full when a passage is looked for that is not there."""
_PLACE = re.compile(r"\S+:\d+(?:-\d+)?")
_NUMBERED = re.compile(r"^ *\d+\t", re.MULTILINE)
"""How files are shown to the model."""


class ReplaceError(Exception):
    """A replacement cannot be made; the text says why, and what stands there instead. Nothing was
    changed."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Replacement:
    old: str
    """What stands in the text, whole lines or not."""
    new: str
    everywhere: bool = False
    """At all places where `old` stands, of which there may be more than one."""


def replace(text: str, replacements: Sequence[Replacement]) -> str:
    """Make all replacements at once: each is looked for in `text`, not in what others have made.

    Raises: ReplaceError if one is not found, found more than once, changes nothing, or two of them
    overlap.
    """
    source = _Source(text)
    spans = sorted(
        span for each in replacements for span in _spans(source, each, len(replacements))
    )
    for (_, end, _), (start, _, new) in pairwise(spans):
        if start < end:
            raise ReplaceError(f"two replacements overlap at line {source.line_at(start)}: {new!r}")
    flat = source.flat
    for start, end, new in reversed(spans):
        flat = flat[:start] + new + flat[end:]
    return with_ends_of(text, flat)


def with_ends_of(text: str, flat: str) -> str:
    """`flat`, a changed `text` whose own line ends do not count, with line ends as `text` has them:
    lines that stay keep theirs, as do lines that are replaced by as many; other new ones take the one
    of the lines that they replace or follow."""
    flat = with_line_feeds(flat)
    if "\r" not in text:
        return flat
    lines = split_lines(text)
    usual = usual_end(lines)
    for hunk in reversed(find_hunks(with_line_feeds(text), flat)):
        replaced = lines[hunk.start : hunk.end]
        around = [*replaced, *lines[max(0, hunk.start - 1) : hunk.start]]
        end = next((end for line in around if (end := line_end(line))), usual)
        ends = [end] * len(hunk.new)
        if len(replaced) == len(hunk.new):
            ends = [line_end(line) or end for line in replaced]
        lines[hunk.start : hunk.end] = map(_ended, hunk.new, ends)
    return "".join(lines)


def _ended(line: str, end: str) -> str:
    return line[:-1] + end if line.endswith("\n") else line


class _Source:
    def __init__(self, text: str) -> None:
        self.flat = with_line_feeds(text)
        self.lines = split_lines(self.flat)
        self._starts = list(accumulate(map(len, self.lines), initial=0))

    def line_at(self, offset: int) -> int:
        """1-based."""
        return max(1, bisect_right(self._starts, offset, 0, len(self.lines)))

    def places(self, passage: str) -> list[int]:
        found: list[int] = []
        start = self.flat.find(passage)
        while start >= 0:
            found.append(start)
            start = self.flat.find(passage, start + 1)
        return found


def _spans(source: _Source, replacement: Replacement, num: int) -> list[tuple[int, int, str]]:
    old, new = with_line_feeds(replacement.old), with_line_feeds(replacement.new)
    if not old:
        if source.flat or num > 1:
            raise ReplaceError("the text to replace is empty; give the lines that stand there now")
        return [(0, 0, new)]
    places = source.places(old)
    if not places:
        raise ReplaceError(_not_found(source, old))
    if old == new:
        raise ReplaceError(
            "the text to replace and its replacement are the same; `new` is what the lines become"
        )
    if replacement.everywhere:
        found = re.finditer(re.escape(old), source.flat)
        return [(match.start(), match.end(), new) for match in found]
    if len(places) > 1:
        lines = ", ".join(str(source.line_at(place)) for place in places[:10])
        more = ", …" if len(places) > 10 else ""
        raise ReplaceError(
            f"the text to replace stands {len(places)} times, at the lines {lines}{more}; "
            "give more of the lines around the one that you mean, or set everywhere"
        )
    return [(places[0], places[0] + len(old), new)]


def _not_found(source: _Source, old: str) -> str:
    if _NUMBERED.match(old) and source.places(_NUMBERED.sub("", old)):
        return "the text to replace has line numbers in it; leave them out"
    if _PLACE.fullmatch(old.strip()):
        return "the text to replace is a place, not text; give the lines that stand there"
    wanted = split_lines(old)
    candidates = _candidates(source.lines, wanted)
    if not candidates:
        return "the text to replace is not in the file, nor anything like it; read the file again"
    shown = "\n".join(_shown(source.lines, start, len(wanted)) for start in candidates)
    return f"the text to replace is not in the file. What is nearest to it:\n{shown}"


def _candidates(lines: Sequence[str], wanted: Sequence[str]) -> list[int]:
    """First lines (0-based) of the places that are most like the wanted lines, best first."""
    passage = "".join(wanted)
    starts = _likely_starts(lines, wanted)
    matcher = SequenceMatcher(None, b=passage, autojunk=False)
    scored: list[tuple[float, int]] = []
    for start in starts:
        matcher.set_seq1("".join(lines[start : start + len(wanted)]))
        if matcher.real_quick_ratio() >= _CLOSE and matcher.quick_ratio() >= _CLOSE:
            scored.append((matcher.ratio(), start))
    scored.sort(key=lambda each: (-each[0], each[1]))
    chosen: list[int] = []
    for ratio, start in scored:
        if ratio >= _CLOSE and all(abs(start - other) >= len(wanted) for other in chosen):
            chosen.append(start)
    return chosen[:_MAX_CANDIDATES]


def _likely_starts(lines: Sequence[str], wanted: Sequence[str]) -> list[int]:
    """Where one of the wanted lines, or one much like it, stands at its place."""
    stripped = [line.strip() for line in lines]
    places: dict[str, list[int]] = {}
    for number, line in enumerate(stripped):
        places.setdefault(line, []).append(number)
    starts: dict[int, None] = {}
    for offset, line in enumerate(wanted):
        if len(line.strip()) < 3:
            continue
        alike = [line.strip()] if line.strip() in places else []
        alike = alike or get_close_matches(line.strip(), places, _MAX_CANDIDATES, _CLOSE)
        for each in alike:
            starts.update(dict.fromkeys(place - offset for place in places[each]))
        if len(starts) > _MAX_COMPARED:
            break
    last = len(lines) - 1
    return [start for start in starts if 0 <= start <= last][:_MAX_COMPARED]


def _shown(lines: Sequence[str], start: int, num: int) -> str:
    num_shown = min(num, _MAX_SHOWN_LINES)
    numbered = [
        f"{number}\t{line.rstrip(chr(10))}"
        for number, line in enumerate(lines[start : start + num_shown], start + 1)
    ]
    return "\n".join(numbered + (["…"] if num > num_shown else []))

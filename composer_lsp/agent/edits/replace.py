"""Exact search and replace: a passage must stand in the text once, unless all places are meant, and
nothing else changes.

Passages are compared with every line end as \\n, since a model writes no other; what is put in
takes the line ends of its surroundings, and lines that stay keep their own.
"""

import re
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import accumulate, islice, pairwise, product

from composer_lsp.agent.edits.hunks import find_hunks
from composer_lsp.agent.edits.lines import line_end, split_lines, usual_end, with_line_feeds

_MAX_PLACES = 1000
"""Of a passage that should stand once, so many are counted."""
_MAX_CANDIDATES = 3
_MAX_SHOWN_LINES = 12
"""Of a candidate, in an error."""
_CLOSE = 0.6
"""How alike a candidate is at least, as `SequenceMatcher.ratio` says."""
_MAX_COMPARED = 20
"""Places that are compared in full when a passage is looked for that is not there."""
_MAX_EXACT_CHARS = 1000
"""Of a passage that is compared character by character; a longer one is compared by its words."""
_MAX_VOTES = 200_000
"""Of runs of characters, for places where a passage may begin."""
_RUN_CHARS = 3
_WORD = re.compile(r"\w+|[^\w\s]")
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
    pieces: list[str] = []
    at = 0
    for start, end, new in spans:
        pieces += source.flat[at:start], new
        at = end
    return with_ends_of(text, "".join(pieces) + source.flat[at:])


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
        """Where it stands; `_MAX_PLACES` at most."""
        found: list[int] = []
        start = self.flat.find(passage)
        while start >= 0 and len(found) < _MAX_PLACES:
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
        least = "at least " if len(places) == _MAX_PLACES else ""
        raise ReplaceError(
            f"the text to replace stands {least}{len(places)} times, at the lines {lines}{more}; "
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
    starts = _likely_starts(lines, wanted)[:_MAX_COMPARED]
    likeness = _likeness_to("".join(wanted))
    scored = [(likeness("".join(lines[start : start + len(wanted)])), start) for start in starts]
    scored.sort(key=lambda each: -each[0])
    chosen: list[int] = []
    for ratio, start in scored:
        if ratio >= _CLOSE and all(abs(start - other) >= len(wanted) for other in chosen):
            chosen.append(start)
    return chosen[:_MAX_CANDIDATES]


def _likeness_to(passage: str) -> Callable[[str], float]:
    """Gives how alike a place is to it, from 0 to 1."""
    if len(passage) > _MAX_EXACT_CHARS:
        # Character by character takes the square of the length: seconds for 100 lines.
        words = SequenceMatcher(None, b=_WORD.findall(passage), autojunk=False)

        def by_words(place: str) -> float:
            words.set_seq1(_WORD.findall(place))
            return words.quick_ratio()

        return by_words
    characters = SequenceMatcher(None, b=passage, autojunk=False)

    def by_characters(place: str) -> float:
        characters.set_seq1(place)
        if characters.real_quick_ratio() < _CLOSE or characters.quick_ratio() < _CLOSE:
            return 0
        return characters.ratio()

    return by_characters


def _likely_starts(lines: Sequence[str], wanted: Sequence[str]) -> list[int]:
    """Where the passage may begin, the likeliest first, by the runs of characters that its lines
    share with the text's: each of them speaks for the places where it stands, the more the rarer
    it is. The most frequent ones are not asked."""
    offsets: dict[str, list[int]] = {}
    for offset, line in enumerate(wanted):
        for run in _runs(line):
            offsets.setdefault(run, []).append(offset)
    places: dict[str, list[int]] = {run: [] for run in offsets}
    for number, line in enumerate(lines):
        for run in _runs(line) & offsets.keys():
            places[run].append(number)
    votes: dict[int, float] = {}
    num_left = _MAX_VOTES
    for run in sorted(offsets, key=lambda run: len(places[run]) * len(offsets[run])):
        pairs = islice(product(places[run], offsets[run]), num_left)
        for place, offset in pairs:
            votes[place - offset] = votes.get(place - offset, 0) + 1 / len(places[run])
            num_left -= 1
    likely = [start for start in votes if 0 <= start < len(lines)]
    return sorted(likely, key=lambda start: (-votes[start], start))


def _runs(line: str) -> set[str]:
    line = line.strip()
    return {line[at : at + _RUN_CHARS] for at in range(len(line) - _RUN_CHARS + 1)}


def _shown(lines: Sequence[str], start: int, num: int) -> str:
    num_shown = min(num, _MAX_SHOWN_LINES)
    numbered = [
        f"{number}\t{line.rstrip(chr(10))}"
        for number, line in enumerate(lines[start : start + num_shown], start + 1)
    ]
    return "\n".join(numbered + (["…"] if num > num_shown else []))

"""Questions with known answers, out of any source tree.

The first sentence that documents a function is the question; the function, without its prose, is
the answer. Prose is taken out of every documented definition of the tree, not only of those asked
for, so that no question finds itself.
"""

import random
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from composer_index.evaluate.documented import (
    Documented,
    find_documented,
    first_sentence,
    is_telling,
)
from composer_index.files import listing
from composer_index.ignores.rules import Rules

_MAX_ANSWERS = 4
"""A sentence that documents more functions than this asks for nothing in particular."""

_MAX_BYTES = 1_000_000
"""Larger files are copied as they are: no index holds them."""

_NOT_ASKED = {
    *("test", "tests", "testing", "testdata", "__tests__", "testRunner", "spec", "fixtures"),
    *("deps", "vendor", "third_party", "extern", "external", "node_modules", "_vendor"),
}
"""Folders whose functions are no answers; their files are searched like all others."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Place:
    """Lines of a file of the stripped tree: 1-based, inclusive."""

    path: str
    """POSIX, relative to the tree."""
    start_line: int
    end_line: int

    def overlaps(self, other: "Place") -> bool:
        return (
            self.path == other.path
            and self.start_line <= other.end_line
            and other.start_line <= self.end_line
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class Question:
    text: str
    answers: tuple[Place, ...]
    """Any of them is right."""


@dataclass(frozen=True, kw_only=True, slots=True)
class _Stripped:
    source: bytes
    answers: tuple[tuple[str, int, int], ...]
    """Sentence, first and last line."""


def strip_tree(tree: Path, target: Path) -> list[Question]:
    """Copies `tree` to `target` without its prose; returns all questions, in order of their text.

    Links and special files are left out..

    Raises:
        OSError: a file cannot be read or written.
    """
    answers: defaultdict[str, list[Place]] = defaultdict(list)
    for path in list_files(tree):
        stripped = _strip(path, (tree / path).read_bytes())
        copy = target / path
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(stripped.source)
        if not _NOT_ASKED.isdisjoint(PurePosixPath(path).parts):
            continue
        for sentence, start_line, end_line in stripped.answers:
            answers[sentence].append(Place(path=path, start_line=start_line, end_line=end_line))
    return [
        Question(text=text, answers=tuple(places))
        for text, places in sorted(answers.items())
        if len(places) <= _MAX_ANSWERS
    ]


def sample(questions: Iterable[Question], number: int, seed: int) -> list[Question]:
    """Returns `number` of the questions, or all if there are fewer, in an order fixed by `seed`."""
    shuffled = list(questions)
    random.Random(seed).shuffle(shuffled)
    return shuffled[:number]


def list_files(tree: Path) -> Iterator[str]:
    """Yields the files below `tree` that would be indexed, relative and POSIX, in order; links,
    which would answer a question twice, left out."""
    for path in sorted(file.path for file in listing.list_files(Rules(tree))):
        if not (tree / path).is_symlink():
            yield path


def _strip(path: str, source: bytes) -> _Stripped:
    if len(source) > _MAX_BYTES:
        return _Stripped(source=source, answers=())
    documented = find_documented(path, source)
    cuts = _Cuts(source, documented)
    return _Stripped(
        source=cuts.stripped,
        answers=tuple(
            (sentence, *cuts.lines(one))
            for one in documented
            if _is_asked(one, source) and is_telling(sentence := first_sentence(one.prose))
        ),
    )


def _is_asked(one: Documented, source: bytes) -> bool:
    """Whether it is a function of more than two lines, no test, with a body that says something."""
    start, end = max(one.start, one.prose_end if one.prose_start > one.start else 0), one.end
    return (
        one.is_function
        and not one.is_all
        and not one.name.lower().startswith("test")
        and source.count(b"\n", start, end) >= 2
    )


class _Cuts:
    """A source with its prose taken out, and where its bytes have gone."""

    def __init__(self, source: bytes, documented: Iterable[Documented]) -> None:
        kept: list[bytes] = []
        self._cuts: list[tuple[int, int, int]] = []  # start, end, bytes put in their place
        position = 0
        for one in documented:
            start, end, instead = _cut(source, one)
            if start < position:
                continue
            kept += (source[position:start], instead)
            self._cuts.append((start, end, len(instead)))
            position = end
        self.stripped = b"".join([*kept, source[position:]])

    def lines(self, one: Documented) -> tuple[int, int]:
        """The first and last line of the definition in `stripped`."""
        start, end = self._moved(one.start), self._moved(one.end)
        first = self.stripped.count(b"\n", 0, start) + 1
        return first, first + self.stripped.count(b"\n", start, end)

    def _moved(self, offset: int) -> int:
        moved = 0
        for start, end, num_instead in self._cuts:
            if end <= offset:
                moved += end - start - num_instead
            elif start < offset:
                return start - moved
        return offset - moved


def _cut(source: bytes, one: Documented) -> tuple[int, int, bytes]:
    """What to take out, whole lines where prose stands alone on them, and what to put there."""
    if one.is_all:
        return one.prose_start, one.prose_end, b"pass"
    start = source.rfind(b"\n", 0, one.prose_start) + 1
    end = source.find(b"\n", one.prose_end - 1)
    end = len(source) if end < 0 else end + 1
    stands_alone = not (
        source[start : one.prose_start].strip() or source[one.prose_end : end].strip()
    )
    if stands_alone:
        return start, end, b""
    is_docstring = one.prose_start >= one.start
    return one.prose_start, one.prose_end, b"0" if is_docstring else b""

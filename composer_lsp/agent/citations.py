"""The places in code that an answer cites, in the forms in which people and models write them:
`a.py:3`, `a.py:3:7`, `a.py#L3-L5`, `a.py(3)`, "`a.py`, lines 3 to 5", "line 3 of a.py"."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import PurePosixPath

from composer_index.languages import PLAINTEXT, language_of

_MAX_DIGITS = 9
_NAME = (
    r"(?<![\w/\\:.@-])(?P<path>(?:\.{1,2}[/\\]|/)*\.?[\w@+]"
    r"(?:[\w@+/\\-]|\.(?=[\w/\[])|\[[\w.]{1,40}\]){0,250})"
)
"""A dot at the end is the sentence's."""
_MARKS = r"[`*\"'”’]{0,3}"
_RANGE = r"L?\d+(?::\d+)?(?:(?:-|–|—|\.\.)L?\d+(?::\d+)?)?"
_LISTED = r"\d+(?:\s?(?:-|–|—|to|through|and|or|&|,)\s?\d+)*"
_IN_LINES = rf"(?:lines?|ll?\.|L)\s?(?P<{{}}>{_LISTED})(?![\w%])"
_COMPACT = re.compile(
    _NAME
    + rf"{_MARKS}(?::(?P<range>{_RANGE}(?:,{_RANGE})*)(?![\w%]|\.\d|:\d)"
    + r"|#(?P<anchor>L\d+(?:C\d+)?(?:-L?\d+(?:C\d+)?)?))"
)
_LOOSE = re.compile(
    _NAME
    + rf"{_MARKS}(?:\((?P<brackets>\d+)(?:[,:]\s?\d+)?\)"
    + r"|:[ \t](?P<spaced>\d+(?:[-–—]\d+)?)(?=[.;)\]]?(?:\s*\n|\s*\Z|\s+[A-Z]))"
    + rf"|[,:]?[ \t]+(?:(?:at|on|in|from)[ \t])?\(?{_IN_LINES.format('behind')})",
)
_BEFORE = re.compile(
    rf"\b(?i:{_IN_LINES.format('before')})[ \t](?:of|in|from)[ \t](?:the[ \t]file[ \t])?{_MARKS}{_NAME}"
)
_PART = re.compile(r"(\d+)(?::\d+|C\d+)?(?:\s?(?:-|–|—|\.\.|to|through)\s?L?(\d+))?")
_HOST = re.compile(r"(?:[\d.]+|localhost)")
_PRODUCT = re.compile(
    r"(?i)(?:node|next|nuxt|vue|react|express|nest|three|d3|ember|backbone|chart|angular|alpine)\.js"
)
_TEXTS = frozenset(
    ".txt .csv .tsv .log .lock .cfg .conf .ini .properties .tex .rst .adoc .diff .patch".split()  # noqa: SIM905
)
"""Files that are of no language."""
_METHODS = frozenset([".go", ".c", ".d", ".h", ".m", ".r", ".s", ".v"])
"""Behind a name and before brackets these are mostly a method's name."""


@dataclass(frozen=True, slots=True)
class Citation:
    written: str
    """As it stands in the text, without marks of Markdown."""
    path: str
    lines: tuple[tuple[int, int], ...]
    """First and last of each stretch, 1-based as they should be."""
    is_compact: bool
    """Written as `path:line` or `path#Lline`, which nothing else is where there is such a file."""


def citations(text: str) -> Iterator[Citation]:
    """A form that may be something else, such as "a.py: 3", counts for what is a file's name."""
    for pattern in (_COMPACT, _LOOSE, _BEFORE):
        for match in pattern.finditer(text):
            path = match["path"]
            is_compact = pattern is _COMPACT
            if _HOST.fullmatch(path) or not (is_compact or is_file_name(path)):
                continue
            groups = match.groupdict()
            if groups.get("brackets") and PurePosixPath(path).suffix in _METHODS:
                continue
            listed = next(value for key, value in groups.items() if key != "path" and value)
            written = re.sub(r"[`*]", "", match[0])
            yield Citation(written, path, tuple(_stretches(listed)), is_compact)


def is_file_name(path: str) -> bool:
    """Whether nothing but a file is called so."""
    name = path.replace("\\", "/").rpartition("/")[2]
    if _PRODUCT.fullmatch(path):
        return False
    return language_of(name, b"") != PLAINTEXT or PurePosixPath(name).suffix.lower() in _TEXTS


def is_path(path: str) -> bool:
    """Whether it has folders, and is no address, no image of a container and no fraction."""
    parts = path.replace("\\", "/").split("/")
    is_relative = parts[0] in (".", "..")
    return bool(
        (is_relative or len(parts) > 2)
        and parts[0].strip("@")
        and (is_relative or "." not in parts[0][1:])
        and not parts[0].startswith("@")
        and re.search(r"[A-Za-z]", path)
    )


def _stretches(listed: str) -> Iterator[tuple[int, int]]:
    for match in _PART.finditer(listed):
        yield _number(match[1]), _number(match[2] or match[1])


def _number(digits: str) -> int:
    return int(digits) if len(digits) <= _MAX_DIGITS else 10**_MAX_DIGITS

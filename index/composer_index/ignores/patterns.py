"""Git's pattern language for ignore files (gitignore(5)): one regular expression a line.

Not pathspec's: that takes 60 ms to import, and it answers for one list of patterns at a time,
where a folder hidden by one file must stay hidden whatever the files below it say. The tests hold
this module to `git ls-files`. Matching time is bounded, so that a cloned repository's patterns
cannot hang the editor: no gap but the last is ever tried twice.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

_TOKEN = re.compile(
    r"""(?P<stars>\*+)
    | (?P<one>\?)
    | (?P<set>\[[!^]?\]?(?:\\.|\[:\w*:\]|[^\]\\])*\])
    | (?P<unclosed>\[)
    | \\(?P<escaped>.)
    | (?P<dangling>\\)
    | (?P<char>.)""",
    re.VERBOSE | re.DOTALL,
)
_SET_ITEM = re.compile(r"\[:(?P<name>\w*):\]|\\?(?P<first>.)(?:-(?!\Z)\\?(?P<last>.))?", re.DOTALL)
_NAMED_SETS = {  # without the slash
    "alnum": "a-zA-Z0-9",
    "alpha": "a-zA-Z",
    "blank": r" \t",
    "cntrl": r"\x00-\x1f\x7f",
    "digit": "0-9",
    "graph": r"\x21-\x2e\x30-\x7e",
    "lower": "a-z",
    "print": r"\x20-\x2e\x30-\x7e",
    "punct": r"\x21-\x2e\x3a-\x40\x5b-\x60\x7b-\x7e",
    "space": r"\s",
    "upper": "A-Z",
    "xdigit": "0-9a-fA-F",
}
ANY_CHARS = "[^/]*"
ANY_FOLDERS = "(?:[^/]+/)*"


class PatternError(ValueError):
    """The line is no pattern; the message says what is wrong with it, as in `"[a" has …`."""


@dataclass(frozen=True, slots=True)
class Pattern:
    is_negated: bool
    """Brings back what an earlier pattern hides."""
    is_for_folders: bool
    regex: re.Pattern[str]

    def matches(self, path: str, *, is_folder: bool) -> bool:
        """`path` counts from the folder of the pattern's file, with `/` and without one at its
        ends. What lies in a matching folder does not match by itself."""
        if self.is_for_folders and not is_folder:
            return False
        return self.regex.fullmatch(path) is not None


def parse_pattern(line: str) -> Pattern | None:
    """The pattern of a line, None for an empty one or a comment. Raises: PatternError."""
    text = _without_trailing_spaces(line)
    if not text or text.startswith("#"):
        return None
    glob = text.removeprefix("!")
    is_for_folders = glob.endswith("/")
    glob = glob.removesuffix("/")
    is_anchored = "/" in glob
    glob = glob.removeprefix("/")
    if not glob:
        raise PatternError(f'"{text}" names nothing')
    try:
        regex = path_regex(glob, is_anchored=is_anchored)
    except PatternError as error:
        raise PatternError(f'"{text}" {error}') from None
    return Pattern(text.startswith("!"), is_for_folders, re.compile(regex, re.DOTALL))


def decision(patterns: Sequence[Pattern], path: str, *, is_folder: bool) -> bool | None:
    """Whether the patterns of one file hide a path; None if none of them speaks of it. The last
    that matches decides."""
    for pattern in reversed(patterns):
        if pattern.matches(path, is_folder=is_folder):
            return not pattern.is_negated
    return None


def hides(patterns: Sequence[Pattern], path: str) -> bool:
    """Whether the patterns hide a file or a folder that it lies in."""
    parts = path.split("/")
    return any(
        decision(patterns, "/".join(parts[:end]), is_folder=end < len(parts))
        for end in range(1, len(parts) + 1)
    )


def _without_trailing_spaces(line: str) -> str:
    end = at = 0
    while at < len(line):
        step = 2 if line[at] == "\\" else 1
        if line[at] != " ":
            end = at + step
        at += step
    return line[:end]


def path_regex(glob: str, *, is_anchored: bool) -> str:
    """Returns a regular expression for whole paths that `glob`, without a slash at its ends, matches;
    at any depth unless `is_anchored`. Without atomic groups it means the same, to engines that have
    none and take no longer for it.

    Raises: PatternError, whose message goes on after the pattern.
    """
    components = list(_components(glob))
    runs = [""] if is_anchored else ["", ""]
    for number, component in enumerate(components, start=1):
        is_last = number == len(components)
        if component is not None:
            runs[-1] += component + ("" if is_last else "/")
        elif is_last:
            runs[-1] += ".+" if is_anchored else "[^/]+"
        elif runs[-1] or len(runs) == 1:
            runs.append("")
    return _joined(runs, ANY_FOLDERS)


def _components(glob: str) -> Iterator[str | None]:
    """What stands between the slashes; None for `**`."""
    pieces = [""]
    num_stars = 0
    for token in _TOKEN.finditer(glob):
        text = token.group()
        if token["stars"]:
            pieces.append("")
            num_stars = len(text)
        elif text in ("/", "\\/"):
            yield _component(pieces, num_stars)
            pieces = [""]
        else:
            pieces[-1] += _one_char(token)
    yield _component(pieces, num_stars)


def _component(pieces: list[str], num_stars: int) -> str | None:
    if pieces == ["", ""] and num_stars > 1:
        return None
    return _joined(pieces, ANY_CHARS)


def _joined(texts: Sequence[str], gap: str) -> str:
    """The texts with gaps between. The first place that fits is as good as any other for all but
    the last of them, so an atomic group keeps the expression from trying others."""
    first, *rest = texts
    if not rest:
        return first
    *middle, last = rest
    return first + "".join(f"(?>{gap}?{text})" for text in middle) + gap + last


def _one_char(token: re.Match[str]) -> str:
    if token["one"]:
        return "[^/]"
    if token["set"]:
        return _set(token["set"])
    if token["unclosed"]:
        raise PatternError('has a "[" without its "]"')
    if token["dangling"]:
        raise PatternError("ends with a backslash that escapes nothing")
    return re.escape(token["escaped"] or token["char"])


def _set(text: str) -> str:
    inner = text[1:-1]
    is_negated = inner[:1] in ("!", "^")
    items = "".join(_set_item(item) for item in _SET_ITEM.finditer(inner[is_negated:]))
    if is_negated:
        return f"[^/{items}]"
    return f"[{items}]" if items else r"[^\s\S]"


def _set_item(item: re.Match[str]) -> str:
    """What it stands for, without the slash."""
    name, first, last = item["name"], item["first"], item["last"] or item["first"]
    if name is not None:
        if name not in _NAMED_SETS:
            raise PatternError(f"names a set [:{name}:] that does not exist")
        return _NAMED_SETS[name]
    if first > last:
        raise PatternError(f"has a range {first}-{last} that runs backwards")
    if first <= "/" <= last:
        return _range(first, ".") + _range("0", last)
    return _range(first, last)


def _range(first: str, last: str) -> str:
    if first >= last:
        return re.escape(first) if first == last else ""
    return f"{re.escape(first)}-{re.escape(last)}"

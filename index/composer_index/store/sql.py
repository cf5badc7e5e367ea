"""Filters as Lance wants them (DataFusion's SQL), and paths as Arrow can hold them."""

import re
from collections.abc import Iterable
from functools import lru_cache

from composer_index.ignores.patterns import PatternError, path_regex
from composer_index.store.records import Filter

_UNDECODABLE = re.compile("[\udc80-\udcff]")
_ESCAPED = re.compile("\0([0-9a-f]{2})")
_SPECIAL = re.compile(r"[\\.+*?()|\[\]{}^$&~#-]")


class GlobError(Exception):
    """A glob that means nothing."""


def encode_path(path: str) -> str:
    """Returns `path` as valid Unicode: bytes that did not decode become NUL and two hex digits (no
    path holds a NUL)."""
    if path.isascii():
        return path
    return _UNDECODABLE.sub(lambda found: f"\0{ord(found[0]) - 0xDC00:02x}", path)


def decode_path(path: str) -> str:
    """The inverse of `encode_path`."""
    if "\0" not in path:
        return path
    return _ESCAPED.sub(lambda found: chr(0xDC00 + int(found[1], 16)), path)


def valid(text: str) -> str:
    """Returns `text` without halves of surrogate pairs, which Lance takes for no text: question
    marks stand for them."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def quote(text: str) -> str:
    """Returns a string literal."""
    return "'" + valid(text).replace("'", "''") + "'"


def is_in(column: str, values: Iterable[str]) -> str:
    """Returns the condition that `column` is one of `values`."""
    return f"{column} IN ({', '.join(map(quote, values))})"


def paths_in(paths: Iterable[str]) -> str:
    """Returns the condition that the row is of one of `paths`."""
    return is_in("path", map(encode_path, paths))


def ends_with(endings: Iterable[str]) -> str:
    """Returns the condition that the path's last components are one of `endings`; one with `/` at
    the end is any file of that folder."""
    literals = [
        _literal(encode_path(end)) + ("[^/]*" if end.endswith("/") else "") for end in endings
    ]
    pattern = f"(^|/)({'|'.join(literals)})$"
    return f"regexp_like(path, {quote(pattern)})"


def condition(chosen: Filter) -> str:
    """Returns `chosen` as a condition; empty if it lets everything through."""
    parts: list[str] = []
    if chosen.language:
        parts.append(f"language = {quote(chosen.language)}")
    if chosen.path_glob:
        parts += _glob_conditions(chosen.path_glob)
    if chosen.without:
        parts.append(f"NOT ({paths_in(sorted(chosen.without))})")
    return " AND ".join(parts)


def _glob_conditions(glob: str) -> list[str]:
    """The folder that the glob begins with as a range, which the index on paths answers, and the
    rest as a pattern, which is matched row by row."""
    pattern = glob_pattern(glob)
    folder = _FOLDER.match(encode_path(glob))
    prefix = folder[1] if folder else ""
    # "0" is the character after "/".
    within = [f"path >= {quote(prefix)} AND path < {quote(prefix[:-1] + '0')}"] if prefix else []
    if folder and prefix and encode_path(glob)[folder.end() :] == "**":
        return within
    return [*within, f"regexp_like(path, {quote(pattern)})"]


_FOLDER = re.compile(r"(?:\./|/)?+((?:[^*?\\\[\]{}/]+/)+)(?!\Z)")
"""Of an anchored glob, as far as it is literal."""


def matches(chosen: Filter, path: str, language: str) -> bool:
    """Returns whether a file, or a chunk of its own language, is among the chosen ones, as
    `condition` has it."""
    if path in chosen.without or chosen.language not in ("", language):
        return False
    return not chosen.path_glob or bool(_compiled(chosen.path_glob).fullmatch(encode_path(path)))


def glob_within(glob: str, root: str) -> str:
    """Returns `glob` relative to `root`, if it is that folder's whole path or goes on from there."""
    rest = glob.removeprefix(root.rstrip("/")) if root else glob
    return (rest or "/") if rest != glob and rest[:1] in ("", "/") else glob


@lru_cache(maxsize=64)
def glob_pattern(glob: str) -> str:
    """Returns an anchored regular expression for encoded paths, valid in Rust.

    Gitignore's meaning, of files: without a slash, the name at any depth; `/` at the end, everything
    below. Beside that `{a,b}` is either, `./` the root, and `.` everything.
    Raises: GlobError.
    """
    return f"^(?s:{_regex(glob).replace('(?>', '(?:')})$"


@lru_cache(maxsize=64)
def _compiled(glob: str) -> re.Pattern[str]:
    return re.compile(_regex(glob), re.DOTALL)


def _regex(glob: str) -> str:
    if len(glob) > MAX_GLOB:
        raise GlobError(f"{glob[:20]!a}… is no glob: it has more than {MAX_GLOB:,} characters")
    try:
        return "|".join(map(_plain_regex, _alternatives(encode_path(glob))))
    except PatternError as error:
        raise GlobError(f"{glob!a} is no glob: it {error}") from error


def _plain_regex(glob: str) -> str:
    if glob in (".", "./", "/"):
        return ".+"
    glob = re.sub(r"^\./", "/", glob)
    name = glob.removesuffix("/")
    regex = path_regex(name.removeprefix("/"), is_anchored="/" in name)
    return f"{regex}/.+" if glob.endswith("/") else regex


def _alternatives(glob: str) -> list[str]:
    """What the braces of a glob stand for."""
    opened: list[tuple[list[str], list[str]]] = []
    """Of each open brace: what stands before it, and the choices so far."""
    current = [""]
    for token in _BRACE_TOKEN.findall(glob):
        if token == "{":
            opened.append((current, []))
            current = [""]
        elif opened and token in ",}":
            before, choices = opened[-1]
            choices += current
            current = [""]
            if token == "}":
                opened.pop()
                current = [start + choice for start in before for choice in choices]
        else:
            current = [start + token for start in current]
        if sum(map(len, current)) > _MAX_EXPANDED:
            raise PatternError(f"stands for more than {_MAX_EXPANDED:,} characters by its braces")
    if opened:
        raise PatternError('has a "{" without its "}"')
    return current


MAX_GLOB = 1000
"""Characters."""
_MAX_EXPANDED = 4000
"""Characters of all that a glob stands for: Rust refuses expressions that get too large."""
_BRACE_TOKEN = re.compile(
    r"\\.|\[[!^]?\]?(?:\\.|\[:\w*:\]|[^\]\\])*\]|[{},]|[^\\\[{},]+|.", re.DOTALL
)


def _literal(text: str) -> str:
    return _SPECIAL.sub(r"\\\g<0>", text)

"""Filters as Lance wants them (DataFusion's SQL), and paths as Arrow can hold them."""

import re
from collections.abc import Iterable

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
    folder = re.match(r"(?:[^*?\[\]{}/]+/)*", encode_path(glob.removeprefix("./").lstrip("/")))
    prefix = folder[0] if folder else ""
    # "0" is the character after "/".
    within = [f"path >= {quote(prefix)} AND path < {quote(prefix[:-1] + '0')}"] if prefix else []
    if prefix and glob.removeprefix("./").lstrip("/")[len(prefix) :] in ("", "**"):
        return within
    return [*within, f"regexp_like(path, {quote(glob_pattern(glob))})"]


def matches(chosen: Filter, path: str, language: str) -> bool:
    """Returns whether a file, or a chunk of its own language, is among the chosen ones, as
    `condition` has it."""
    if path in chosen.without or chosen.language not in ("", language):
        return False
    pattern = glob_pattern(chosen.path_glob) if chosen.path_glob else ""
    return re.search(pattern, encode_path(path), re.DOTALL) is not None


def glob_pattern(glob: str) -> str:
    """Returns an anchored regular expression for encoded paths, valid in Rust and in Python.

    Gitignore's meaning: without a slash, the name at any depth; `/` at the end, everything below.
    Raises: GlobError.
    """
    glob = encode_path(glob).removeprefix("./")
    anchored = glob.startswith("/") or "/" in glob.rstrip("/")
    glob = glob.lstrip("/")
    if glob.endswith("/"):
        glob += "**"
    body = "".join(map(_translate, _TOKEN.findall(glob)))
    pattern = f"^{'' if anchored else '(?:.*/)?'}{body}$"
    try:
        re.compile(pattern)
    except re.error as error:
        raise GlobError(f"{glob!a} is no glob: {error.msg}") from error
    return pattern


_TOKEN = re.compile(r"\*\*/|/\*\*$|\*\*|\*|\?|\[!?\]?[^\]]*\]|\{[^{}]*\}|.", re.DOTALL)


def _translate(token: str) -> str:
    if token in _WILDCARDS:
        return _WILDCARDS[token]
    if len(token) > 2 and token[0] == "[":
        negated = token[1] == "!"
        inside = re.sub(r"([\\\[\]&~^])", r"\\\1", token[2 if negated else 1 : -1])
        return f"[{'^' if negated else ''}{inside}]"
    if len(token) > 1 and token[0] == "{":
        choices = token[1:-1].split(",")
        return "(?:" + "|".join("".join(map(_translate, _TOKEN.findall(c))) for c in choices) + ")"
    return _literal(token)


_WILDCARDS = {"**/": "(?:.*/)?", "/**": "/.*", "**": ".*", "*": "[^/]*", "?": "[^/]"}


def _literal(text: str) -> str:
    return _SPECIAL.sub(r"\\\g<0>", text)

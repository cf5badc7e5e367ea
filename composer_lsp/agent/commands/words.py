"""One word of a shell command line, and what of it is known before the line runs."""

import re
from collections.abc import Generator, Iterator
from dataclasses import dataclass

_EXPANSION = re.compile(r"\$[A-Za-z0-9_@*#?$!({\[\-]")
_GLOB = "*?["
_ENDS_WORD = frozenset(" \t\n|&;<>()")


@dataclass(frozen=True, slots=True)
class Word:
    source: str
    """As it was written, quotes included."""
    text: str | None
    """Without its quotes; globs and a leading `~` as they were written. None where variables,
    substitutions or braces decide."""
    prefix: str
    """What the program's argument surely begins with: all of it, or what stands before the first
    expansion."""
    is_literal: bool
    """The program gets exactly `text`, as one argument."""

    @property
    def may_be_option(self) -> bool:
        """Whether it begins with a dash, or may once expanded."""
        return self.prefix.startswith("-") or (not self.is_literal and not self.prefix)


def literal(text: str) -> Word:
    """A word that needs no reading, such as one inside of a program's argument."""
    return Word(text, text, text, True)


UNKNOWN = Word("…", None, "", False)
"""Any number of arguments that come when the line runs, such as those that xargs adds."""


def read_word(source: str) -> Word:
    """Read a whole word by bash's rules of quoting. Expansions are not looked into: the caller has
    found the commands in them."""
    if source.startswith(("<(", ">(")):
        return Word(source, None, "/dev/fd/", False)
    known: list[str] = []
    prefix: str | None = None
    is_known = True
    for piece, kind in _pieces(source):
        if kind != "text" and prefix is None:
            prefix = "".join(known)
        known.append(piece)
        is_known = is_known and kind != "expansion"
    text = "".join(known)
    is_literal = prefix is None and not source.startswith("~")
    if prefix is None:
        prefix = "" if source.startswith("~") else text
    return Word(source, text if is_known else None, prefix, is_literal)


def _pieces(source: str) -> Iterator[tuple[str, str]]:
    """Each character without its quoting, and its kind: text, glob or expansion."""
    at = 0
    while at < len(source):
        char = source[at]
        if char == "'":
            end = source.find("'", at + 1)
            if end < 0:
                yield "", "expansion"
                return
            yield source[at + 1 : end], "text"
            at = end + 1
        elif char == '"':
            at = yield from _double_quoted(source, at + 1)
        elif char == "\\":
            yield source[at + 1 : at + 2], "text" if source[at + 1 : at + 2] else "expansion"
            at += 2
        else:
            yield char, _kind(source, at)
            at += 1


def _double_quoted(source: str, at: int) -> Generator[tuple[str, str], None, int]:
    """Up to the closing quote; returns where the rest begins."""
    while at < len(source):
        char = source[at]
        if char == '"':
            yield "", "text"
            return at + 1
        if char == "\\" and source[at + 1 : at + 2] in ("$", "`", '"', "\\", "\n"):
            yield source[at + 1].strip("\n"), "text"
            at += 2
            continue
        yield char, "expansion" if char == "`" or _EXPANSION.match(source, at) else "text"
        at += 1
    yield "", "expansion"
    return at


def _kind(source: str, at: int) -> str:
    char = source[at]
    if char in _ENDS_WORD or char == "`" or _EXPANSION.match(source, at):
        return "expansion"
    if char == "$" and source[at + 1 : at + 2] in ("'", '"'):
        return "expansion"
    if char == "~" and source[at - 1 : at] in ("=", ":"):
        return "expansion"
    if char == "{" and not (source[at + 1 : at + 2] == "}" and source.count("{") == 1):
        return "expansion"
    return "glob" if char in _GLOB and source not in ("[", "[[") else "text"

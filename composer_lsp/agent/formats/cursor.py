"""A place in a text of which more may come, and what a format's reader says of what stands there.

A reader's verdict holds whatever comes behind: where more text could change it, it raises `More`. So
a stream gives the same calls however it is cut into pieces.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

Offered = Mapping[str, Mapping[str, Any]]
"""The tools that a request offers: their JSON schemas by name."""

_SPACE = re.compile(r"\s*")
_JSON_PART = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"|[{}\[\]"]', re.DOTALL)


@dataclass(frozen=True, slots=True)
class WrittenCall:
    name: str
    arguments: str
    """JSON as far as the model wrote JSON."""


@dataclass(frozen=True, slots=True)
class Hidden:
    """A part of the text that is neither shown nor a call: thoughts, marks between messages."""


class More(Exception):  # noqa: N818 - not an error
    """It is not certain yet what stands here."""


class NoCall(Exception):  # noqa: N818 - not an error
    """What stands here is text. `unknown`: it would be a call, of a tool that is not offered."""

    def __init__(self, unknown: str = "") -> None:
        self.unknown = unknown
        super().__init__(unknown)


class Cursor:
    def __init__(self, text: str, at: int, *, is_whole: bool) -> None:
        self.text = text
        self.at = at
        self.is_whole = is_whole
        """Nothing comes behind the text."""
        self.begun: tuple[str, int] | None = None
        """The name of the offered tool whose call has begun for certain, and where its arguments do."""
        self.num_searched = 0
        """Characters that were gone through for the end of something, however far away it may be."""

    def begin(self, name: str) -> None:
        self.begun = (name, self.at)

    @property
    def is_at_end(self) -> bool:
        return self.is_whole and self.at == len(self.text)

    def skip_space(self) -> None:
        match = _SPACE.match(self.text, self.at)
        assert match is not None
        self.at = match.end()

    def has(self, literal: str) -> bool:
        """Goes behind the literal if it stands here."""
        if self.text.startswith(literal, self.at):
            self.at += len(literal)
            return True
        rest = self.text[self.at : self.at + len(literal)]
        if not self.is_whole and literal.startswith(rest):
            raise More
        return False

    def take(self, literal: str) -> None:
        if not self.has(literal):
            raise NoCall

    def take_match(self, pattern: "re.Pattern[str]", stops: str, max_chars: int = 100) -> str:
        """Goes behind what the pattern matches, which a character of `stops` has to follow."""
        end = self.at
        limit = min(len(self.text), self.at + max_chars)
        while end < limit and self.text[end] not in stops:
            end += 1
        found = self.text[self.at : end]
        if end == len(self.text) and not self.is_whole and len(found) < max_chars:
            raise More
        if end == limit or pattern.fullmatch(found) is None:
            raise NoCall
        self.at = end
        return found

    def until(self, literal: str) -> str:
        """Goes behind the literal, and gives what stands before it."""
        end = self.text.find(literal, self.at)
        self.num_searched += (len(self.text) if end < 0 else end) - self.at
        if end < 0:
            raise More
        found = self.text[self.at : end]
        self.at = end + len(literal)
        return found

    def json(self) -> str:
        """Goes behind the object or list that stands here, and gives it. Its brackets and strings
        are looked at alone."""
        start, depth = self.at, 0
        if self.text[start : start + 1] not in ("{", "["):
            raise NoCall if start < len(self.text) or self.is_whole else More
        for match in _JSON_PART.finditer(self.text, start):
            part = match[0]
            if part == '"':
                break  # a string that has not ended
            if len(part) == 1:
                depth += 1 if part in "{[" else -1
            if depth == 0:
                self.at = match.end()
                self.num_searched += self.at - start
                return self.text[start : self.at]
        self.num_searched += len(self.text) - start
        raise More

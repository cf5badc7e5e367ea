"""Reads JSON as models write it, where what they meant is certain.

Taken beside JSON: single quotes, line ends and tabs in strings, commas before a closing bracket,
Python's `True`, `False` and `None`, and a Markdown fence around it all. Nothing is guessed: text that
is cut, a quote within a string, or a name given twice is an error, since a repair could lose a part
of a file that is to be written. (json-repair closes what was cut, also in its strict mode.)
"""

import json
import re
from typing import Any

_FENCED = re.compile(r"\s*```\w*[ \t]*\n(.*)\n[ \t]*```\s*", re.DOTALL)
_SPACE = re.compile(r"\s*")
_STRING = re.compile(r'"([^"\\]*(?:\\.[^"\\]*)*)"|' r"'([^'\\]*(?:\\.[^'\\]*)*)'", re.DOTALL)
_ESCAPE = re.compile(r"""\\(?:u[0-9a-fA-F]{4}|["'\\/bfnrt])""")
_WORD = re.compile(r"[A-Za-z]+|-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?")
_WORDS = {"true": True, "True": True, "false": False, "False": False, "null": None, "None": None}
_MAX_DEPTH = 100
_SURROGATE = re.compile("[\ud800-\udfff]")
_SURROGATE_ESCAPE = re.compile(r"\\u[dD][89a-fA-F]")


def read_json(text: str) -> Any:
    """The value. Lone surrogates, which are no text, come as U+FFFD. Raises: ValueError, with the
    error of strict JSON."""
    try:
        value = json.loads(text)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error
    except ValueError as error:
        value = _repaired(text, error)
    if _SURROGATE_ESCAPE.search(text) or _SURROGATE.search(text):
        return _without_surrogates(value)
    return value


def _repaired(text: str, strict: ValueError) -> Any:
    fenced = _FENCED.fullmatch(text)
    reader = _Reader(fenced[1] if fenced else text)
    try:
        return reader.whole()
    except _DoubtError:
        raise strict from None


class _DoubtError(Exception):
    """What was meant is not certain."""


class _Reader:
    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0

    def whole(self) -> Any:
        value = self._value(0)
        if self._next():
            raise _DoubtError
        return value

    def _value(self, depth: int) -> Any:
        if depth > _MAX_DEPTH:
            raise _DoubtError
        match self._next():
            case "{":
                return self._object(depth)
            case "[":
                return self._list(depth)
            case '"' | "'":
                return self._string()
            case _:
                return self._word()

    def _object(self, depth: int) -> dict[str, Any]:
        self._at += 1
        found: dict[str, Any] = {}
        while self._next() != "}":
            if self._next() not in ('"', "'"):
                raise _DoubtError
            name = self._string()
            self._take(":")
            if name in found:
                raise _DoubtError
            found[name] = self._value(depth + 1)
            if self._next() != "}":
                self._take(",")
        self._at += 1
        return found

    def _list(self, depth: int) -> list[Any]:
        self._at += 1
        found: list[Any] = []
        while self._next() != "]":
            found.append(self._value(depth + 1))
            if self._next() != "]":
                self._take(",")
        self._at += 1
        return found

    def _string(self) -> str:
        match = _STRING.match(self._text, self._at)
        if match is None:
            raise _DoubtError
        self._at = match.end()
        body = match[1] if match[1] is not None else match[2]
        if "\\" in _ESCAPE.sub("", body):
            raise _DoubtError  # `\d` may stand for itself, or for an escape that is misspelt
        pieces = (_escaped(piece) for piece in re.split(r"(\\u[0-9a-fA-F]{4}|\\.)", body))
        return json.loads(f'"{"".join(pieces)}"')

    def _word(self) -> Any:
        match = _WORD.match(self._text, self._at)
        if match is None:
            raise _DoubtError
        self._at = match.end()
        if match[0] in _WORDS:
            return _WORDS[match[0]]
        try:
            return json.loads(match[0])
        except ValueError as error:
            raise _DoubtError from error

    def _next(self) -> str:
        """The next character that is no space, which it goes to; empty at the end."""
        match = _SPACE.match(self._text, self._at)
        assert match is not None
        self._at = match.end()
        return self._text[self._at : self._at + 1]

    def _take(self, character: str) -> None:
        if self._next() != character:
            raise _DoubtError
        self._at += 1


def _escaped(piece: str) -> str:
    """A piece of a string's body, as JSON writes it."""
    if piece == "\\'":
        return "'"
    return piece if piece.startswith("\\") else json.dumps(piece)[1:-1]


def _without_surrogates(value: Any) -> Any:
    match value:
        case str():
            return _SURROGATE.sub("\ufffd", value)
        case dict():
            pairs: Any = value.items()  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
            return {_without_surrogates(name): _without_surrogates(each) for name, each in pairs}
        case list():
            return [_without_surrogates(each) for each in value]  # pyright: ignore[reportUnknownVariableType]
        case _:
            return value

"""Reads one tool call, `{"name": …, "arguments": {…}}`, out of JSON that arrives in pieces."""

import json
import re
from dataclasses import dataclass

_HEAD = re.compile(r'\s*\{\s*"name"\s*:\s*("(?:[^"\\]|\\.)*")\s*,\s*"arguments"\s*:\s*(?=\{)')


@dataclass(frozen=True, kw_only=True, slots=True)
class CallDelta:
    """A piece of a call. The first one has the name."""

    index: int
    """Which of the answer's calls."""
    name: str | None = None
    arguments: str = ""
    """The next characters of the arguments' JSON text."""


class CallReader:
    def __init__(self, index: int) -> None:
        self._index = index
        self._head: str | None = ""
        """What came before the arguments; None once they have begun."""
        self._depth = 0
        self._in_string = False
        self._escaped = False
        self.complete = False
        """Whether the arguments have ended."""

    def feed(self, text: str) -> list[CallDelta]:
        """The deltas that the text completes; none while the name is still unknown."""
        deltas: list[CallDelta] = []
        if self._head is not None:
            self._head += text
            match = _HEAD.match(self._head)
            if match is None:
                return []
            deltas.append(CallDelta(index=self._index, name=json.loads(match[1])))
            text, self._head = self._head[match.end() :], None
        arguments = self._arguments(text)
        if arguments:
            deltas.append(CallDelta(index=self._index, arguments=arguments))
        return deltas

    def _arguments(self, text: str) -> str:
        """The text up to the end of the arguments; what follows is the call's own brace."""
        if self.complete:
            return ""
        for at, character in enumerate(text):
            if self._in_string:
                self._in_string = self._escaped or character != '"'
                self._escaped = character == "\\" and not self._escaped
            elif character == '"':
                self._in_string = True
            elif character in "{[":
                self._depth += 1
            elif character in "}]":
                self._depth -= 1
                if self._depth == 0:
                    self.complete = True
                    return text[: at + 1]
        return text

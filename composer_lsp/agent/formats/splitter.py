"""Takes calls out of a text that arrives in pieces.

What is quoted as code, in a fence or between backticks, stays text, and so does a call of a tool that
is not offered. Once a call was found only another call counts: text behind it would be a guess of
what the tool is going to answer.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

from composer_lsp.agent.formats import (
    fenced,
    glm,
    harmony,
    hermes,
    mistral,
    tagged,
    thinking,
)
from composer_lsp.agent.formats.cursor import Cursor, Hidden, More, NoCall, Offered, WrittenCall

Reader = Callable[[Cursor, Offered], Sequence[WrittenCall] | Hidden]

_READERS: Mapping[str, Sequence[Reader]] = MappingProxyType(
    {
        "<": (hermes.read, tagged.read, glm.read, harmony.read, mistral.read),
        "[": (mistral.read,),
        "`": (fenced.read,),
        "{": (fenced.read_line,),
    }
)
"""By the character that a call begins with."""
_AT_START: Mapping[str, Sequence[Reader]] = MappingProxyType(
    {"<": (thinking.read, *_READERS["<"]), "t": (harmony.read,)}
)
"""What else an answer may begin with."""
_ONLY_AT_LINE_START = "`{"
_SIGN = re.compile(r"[<\[`{\n]")
_CODE_SIGN = re.compile(r"[`\n]")
_FENCE = re.compile(r"[ \t]*(`{3,}[^`]*|~{3,}.*)")
_MAX_LINE_CHARS = 200
"""As much of a line is looked at to see whether it is a fence."""
_PATIENCE = 64
"""An unfinished call is read again when it has grown by one part in so many."""


class Splitter:
    def __init__(self, offered: Offered) -> None:
        self._offered = offered
        self._held = ""
        self._coming: list[str] = []
        """Behind what is held, and not looked at yet."""
        self._num_wanted = 0
        """Characters that have to come before an unfinished call is read again."""
        self._resume_at = 0
        self._line = ""
        """What the answer's last line holds so far."""
        self._is_start = True
        """Nothing but spaces came yet."""
        self._fence = ""
        """The marks that opened the code block which the text is in."""
        self._num_ticks = 0
        """Of the backticks that opened the code which the text is in."""
        self._has_calls = False
        self._unread: WrittenCall | None = None
        """A call that went wrong; all that follows is part of it."""
        self.is_over = False
        """What follows does not matter."""
        self.unknown: list[str] = []
        """Tools that are not offered, whose calls were left as text."""

    def feed(self, text: str) -> list[str | WrittenCall]:
        """What is certain by now: text to show, and calls."""
        if self.is_over:
            return []
        self._coming.append(text)
        self._num_wanted -= len(text)
        if self._unread is not None or self._num_wanted > 0:
            return []
        return self._pieces(is_whole=False)

    def flush(self) -> list[str | WrittenCall]:
        """What is left when nothing follows. An unfinished call of an offered tool comes as a call
        whose arguments are not JSON."""
        pieces: list[str | WrittenCall] = []
        if not self.is_over and self._unread is None:
            pieces = self._pieces(is_whole=True)
        if self._unread is not None:
            rest = "".join(self._coming)
            pieces.append(WrittenCall(self._unread.name, self._unread.arguments + rest))
        self.is_over = True
        return pieces

    def _pieces(self, *, is_whole: bool) -> list[str | WrittenCall]:
        pieces: list[str | WrittenCall] = []
        self._held += "".join(self._coming)
        self._coming.clear()
        at = 0
        try:
            while at < len(self._held) and self._unread is None and not self.is_over:
                sign = self._next_sign(at)
                pieces += self._released(at, sign)
                at = sign
                if at < len(self._held) and not self.is_over:
                    at = self._at_sign(at, pieces, is_whole=is_whole)
            self._num_wanted = 0
        except More:
            at = self._resume_at
            self._num_wanted = (len(self._held) - at) // _PATIENCE
        self._held = self._held[at:]
        return pieces

    def _next_sign(self, at: int) -> int:
        if self._is_start and (match := re.compile(r"\s*(?=t)").match(self._held, at)):
            return match.end()
        match = (_CODE_SIGN if self._in_code else _SIGN).search(self._held, at)
        return len(self._held) if match is None else match.start()

    @property
    def _in_code(self) -> bool:
        return bool(self._fence or self._num_ticks)

    def _at_sign(self, at: int, pieces: list[str | WrittenCall], *, is_whole: bool) -> int:
        """Where to go on. Raises: More."""
        self._resume_at = at
        if not self._in_code and (end := self._call(at, pieces, is_whole=is_whole)) is not None:
            return end
        sign = self._held[at]
        end = at + 1
        if sign == "`" and not self._fence:
            end = self._behind_ticks(at, is_whole=is_whole)
        pieces += self._released(at, end)
        return end

    def _behind_ticks(self, at: int, *, is_whole: bool) -> int:
        match = re.compile("`+").match(self._held, at)
        assert match is not None
        if match.end() == len(self._held) and not is_whole:
            raise More
        num = len(match[0])
        if not self._num_ticks:
            self._num_ticks = num
        elif self._num_ticks == num:
            self._num_ticks = 0
        return match.end()

    def _call(self, at: int, pieces: list[str | WrittenCall], *, is_whole: bool) -> int | None:
        """Reads a call, and gives where it ends. Raises: More."""
        sign = self._held[at]
        if sign in _ONLY_AT_LINE_START and self._line.strip():
            return None
        readers = (_AT_START if self._is_start else _READERS).get(sign) or _READERS.get(sign, ())
        for reader in readers:
            cursor = Cursor(self._held, at, is_whole=is_whole)
            try:
                found = reader(cursor, self._offered)
            except (NoCall, More) as verdict:
                if isinstance(verdict, More) and not is_whole:
                    raise
                if cursor.begun is not None:
                    name, start = cursor.begun
                    self._unread = WrittenCall(name, self._held[start:])
                    self._has_calls = True
                    return len(self._held)
                if isinstance(verdict, NoCall) and verdict.unknown:
                    self.unknown.append(verdict.unknown)
                continue
            if not isinstance(found, Hidden):
                pieces += found
                self._has_calls = True
            return cursor.at
        return None

    def _released(self, start: int, end: int) -> list[str | WrittenCall]:
        text = self._held[start:end]
        if not text:
            return []
        if self._has_calls:
            self.is_over = bool(text.strip())
        self._is_start = self._is_start and not text.strip()
        self._look_at_lines(text)
        return [] if self._has_calls else [text]

    def _look_at_lines(self, text: str) -> None:
        before, newline, last = text.rpartition("\n")
        if newline:
            # A text that is released holds one line end at most, which is its last character.
            self._end_line(self._line + before)
            self._line = ""
        self._line = (self._line + last)[:_MAX_LINE_CHARS]

    def _end_line(self, line: str) -> None:
        self._num_ticks = 0
        match = _FENCE.fullmatch(line.rstrip("\r"))
        if match is None:
            return
        marks = re.match(r"`+|~+", match[1])
        assert marks is not None
        if not self._fence:
            self._fence = marks[0]
        elif match[1].strip() == marks[0] and marks[0].startswith(self._fence):
            self._fence = ""

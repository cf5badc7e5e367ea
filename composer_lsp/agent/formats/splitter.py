"""Takes calls out of a text that arrives in pieces.

What stands in code or in a quotation (`markdown.py`) stays text, and so does a call of a tool that is
not offered. Once a call was found only another call counts: text behind it would be a guess of what
the tool is going to answer.

The marks that models were trained on (`<tool_call>`, `[TOOL_CALLS]` and their like) mean a call. JSON
in a fence or on a line of its own may as well be an example. Where such calls only read, they are
taken. Where one of them may do more, they are taken only if the whole answer holds nothing but calls,
behind one short line at most that ends with a colon ("I will write the file:") and does not speak of
an example; whether that is so is certain when the answer has ended. `doubtful` names the others.
"""

import re
from collections.abc import Callable, Collection, Mapping, Sequence
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
from composer_lsp.agent.formats.markdown import Markdown

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
_HIDING = (thinking.read, harmony.read)
_WITHOUT_MARK = "`{"
"""Begin calls that may be examples, and begin them at a line's start only."""
_SIGN = re.compile(r"[<\[`{\n]")
_CODE_SIGN = re.compile(r"[`\n]")
_SPACE = re.compile(r"\s*")
_PATIENCE = 64
"""An unfinished call is read again when it has grown by one part in so many."""
_MAX_SEARCHED_IN_VAIN = 4_000_000
"""Characters that were gone through for the ends of what was no call after all: several times the
longest answer. Behind that all is text."""


class Splitter:
    def __init__(self, offered: Offered, only_reading: Collection[str] = ()) -> None:
        """`only_reading`: those of the tools that change nothing."""
        self._offered = offered
        self._only_reading = only_reading
        self._held = ""
        self._coming: list[str] = []
        """Behind what is held, and not looked at yet."""
        self._num_wanted = 0
        """Characters that have to come before an unfinished call is read again."""
        self._resume_at = 0
        self._num_searched = 0
        """Characters, in vain."""
        self._markdown = Markdown()
        """Of the text that was released."""
        self._is_start = True
        """Nothing but spaces came yet."""
        self._has_calls = False
        self._is_all_calls = False
        """Whatever is left is calls."""
        self._unread: WrittenCall | None = None
        """A call that went wrong; all that follows is part of it."""
        self.is_over = False
        """What follows does not matter."""
        self.unknown: list[str] = []
        """Tools that are not offered, whose calls were left as text."""
        self.doubtful: list[str] = []
        """Tools whose calls were left as text because of the text around them."""

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
        return _joined(pieces)

    def _next_sign(self, at: int) -> int:
        if self._is_start and (match := re.compile(r"\s*(?=t)").match(self._held, at)):
            return match.end()
        match = (_CODE_SIGN if self._markdown.in_code else _SIGN).search(self._held, at)
        return len(self._held) if match is None else match.start()

    def _at_sign(self, at: int, pieces: list[str | WrittenCall], *, is_whole: bool) -> int:
        """Where to go on. Raises: More."""
        self._resume_at = at
        in_code = self._markdown.in_code
        if not in_code and (end := self._call(at, pieces, is_whole=is_whole)) is not None:
            return end
        sign = self._held[at]
        end = at + 1
        if sign == "`" and not self._markdown.in_fence:
            end = self._behind_ticks(at, is_whole=is_whole)
        elif sign == "<" and not in_code:
            self._markdown.add_tag(self._held, at, is_whole=is_whole)
        pieces += self._released(at, end)
        return end

    def _behind_ticks(self, at: int, *, is_whole: bool) -> int:
        match = re.compile("`+").match(self._held, at)
        assert match is not None
        if match.end() == len(self._held) and not is_whole:
            raise More
        self._markdown.add_ticks(len(match[0]))
        return match.end()

    def _call(self, at: int, pieces: list[str | WrittenCall], *, is_whole: bool) -> int | None:
        """Reads a call, and gives where it ends. Raises: More."""
        for reader in self._readers(self._held[at]):
            if self._num_searched > _MAX_SEARCHED_IN_VAIN:
                return None
            cursor = Cursor(self._held, at, is_whole=is_whole)
            try:
                found = reader(cursor, self._offered)
            except (NoCall, More) as verdict:
                if isinstance(verdict, More) and not is_whole:
                    raise
                self._num_searched += cursor.num_searched
                if cursor.begun is not None:
                    name, start = cursor.begun
                    if not self._is_meant(at, [name], len(self._held), is_whole=is_whole):
                        continue
                    self._unread = WrittenCall(name, self._held[start:])
                    self._has_calls = True
                    return len(self._held)
                if isinstance(verdict, NoCall) and verdict.unknown:
                    self.unknown.append(verdict.unknown)
                continue
            if not isinstance(found, Hidden):
                names = [call.name for call in found]
                if not self._is_meant(at, names, cursor.at, is_whole=is_whole):
                    self._num_searched += cursor.num_searched
                    continue
                pieces += found
                self._has_calls = True
            return cursor.at
        return None

    def _readers(self, sign: str) -> Sequence[Reader]:
        """Of what may begin here with that character."""
        if sign in _WITHOUT_MARK and not self._markdown.at_line_start:
            return ()
        readers = (_AT_START if self._is_start else _READERS).get(sign) or _READERS.get(sign, ())
        return [reader for reader in readers if reader in _HIDING or not self._is_quoted]

    @property
    def _is_quoted(self) -> bool:
        return self._markdown.is_quoted and not self._has_calls

    def _is_meant(self, at: int, names: Sequence[str], end: int, *, is_whole: bool) -> bool:
        """Whether what looks like calls of these tools, and ends at `end`, is to be carried out.
        Raises: More."""
        if self._is_quoted:
            return False
        if self._held[at] not in _WITHOUT_MARK or all(name in self._only_reading for name in names):
            return True
        if not self._is_all_calls:
            self._is_all_calls = self._markdown.introduces and self._only_calls_follow(
                end, is_whole=is_whole
            )
        if not self._is_all_calls:
            self.doubtful += names
        return self._is_all_calls

    def _only_calls_follow(self, at: int, *, is_whole: bool) -> bool:
        """Raises: More."""
        while True:
            at = _SPACE.match(self._held, at).end()  # pyright: ignore[reportOptionalMemberAccess]
            if at == len(self._held):
                if is_whole:
                    return True
                raise More
            end = self._behind_call(at, is_whole=is_whole)
            if end is None:
                return False
            at = end

    def _behind_call(self, at: int, *, is_whole: bool) -> int | None:
        """Where the call ends that begins here, which may be cut by the answer's end. Raises: More."""
        for reader in _READERS.get(self._held[at], ()):
            cursor = Cursor(self._held, at, is_whole=is_whole)
            try:
                reader(cursor, self._offered)
            except More:
                if not is_whole:
                    raise
                if cursor.begun is not None:
                    return len(self._held)
            except NoCall:
                continue
            else:
                return cursor.at
        return None

    def _released(self, start: int, end: int) -> list[str | WrittenCall]:
        text = self._held[start:end]
        if not text:
            return []
        if self._has_calls:
            self.is_over = bool(text.strip())
        self._is_start = self._is_start and not text.strip()
        self._markdown.add(text)
        return [] if self._has_calls else [text]


def _joined(pieces: Sequence[str | WrittenCall]) -> list[str | WrittenCall]:
    """With text that follows text in one piece."""
    joined: list[str | WrittenCall] = []
    texts: list[str] = []
    for piece in pieces:
        if isinstance(piece, str):
            texts.append(piece)
            continue
        joined += ["".join(texts), piece] if texts else [piece]
        texts.clear()
    return [*joined, "".join(texts)] if texts else joined

"""A command's output in bounded memory: how it began, and how it ended."""

import codecs
import re

_NUM_HEAD_PARTS, _NUM_PARTS = 1, 3
"""A third is kept of the beginning; errors stand at the end."""
_ESCAPES = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]|[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)?|[ -/]*[0-~])|\x9b[0-?]*[ -/]*[@-~]"
)
_UNFINISHED = re.compile(r"\x1b(?:\[[0-?]*[ -/]*|[\]PX^_][^\x07\x1b]{0,4000}\x1b?|[ -/]*)?\Z")
_CONTROLS = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")
_OVERWRITTEN = re.compile(r"[^\n]*\r(?=[^\n])")


class Output:
    """Keeps a head and a tail of what is written to it."""

    def __init__(self, max_bytes: int) -> None:
        self.num_bytes = 0
        """Of all that was written."""
        self._head = bytearray()
        self._tail = bytearray()
        self._max_head = max_bytes * _NUM_HEAD_PARTS // _NUM_PARTS
        self._max_tail = max_bytes - self._max_head

    @property
    def is_cut(self) -> bool:
        return self.num_bytes > len(self._head) + len(self._tail)

    def write(self, data: bytes) -> None:
        self.num_bytes += len(data)
        room = self._max_head - len(self._head)
        if room > 0:
            self._head += data[:room]
            data = data[room:]
        self._tail += data[-self._max_tail :]
        if len(self._tail) > 2 * self._max_tail:
            self._trim()

    def _trim(self) -> None:
        del self._tail[: -self._max_tail]

    def text(self) -> str:
        """What is kept, as text fit for a terminal; a cut middle is replaced by a line that says
        how much is missing."""
        if len(self._tail) > self._max_tail:
            self._trim()
        if not self.is_cut:
            return readable(bytes(self._head + self._tail).decode("utf-8", "replace"))
        head = bytes(self._head[: self._head.rfind(b"\n") + 1] or self._head)
        tail = bytes(self._tail[self._tail.find(b"\n") + 1 :] or self._tail)
        missing = self.num_bytes - len(head) - len(tail)
        note = f"[… {missing:,} of {self.num_bytes:,} bytes left out here …]\n"
        start = readable(head.decode("utf-8", "replace"))
        start = start if start.endswith("\n") else start + "\n"
        return start + note + readable(tail.decode("utf-8", "replace"))


class Stream:
    """Text as it comes, for someone who watches: at most `max_bytes` of it, then a note."""

    def __init__(self, max_bytes: int) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._left = max_bytes
        self._waiting = ""

    def feed(self, data: bytes) -> str:
        """The text of it that may be shown. What may be half of an escape waits for the rest."""
        if self._left <= 0:
            return ""
        shown, self._left = data[: self._left], self._left - len(data)
        text = self._waiting + self._decoder.decode(shown)
        unfinished = _UNFINISHED.search(text)
        self._waiting = text[unfinished.start() :] if unfinished else ""
        text = text[: len(text) - len(self._waiting)]
        note = "\n[… the rest is not shown …]\n" if self._left <= 0 else ""
        return _CONTROLS.sub("", _ESCAPES.sub("", text)) + note


def readable(text: str) -> str:
    """Without colours and other escapes, which a terminal would obey, and without what a progress
    bar has written over."""
    text = _ESCAPES.sub("", text).replace("\r\n", "\n")
    return _CONTROLS.sub("", _OVERWRITTEN.sub("", text)).replace("\r", "")

"""From a file's bytes to lines: the encoding, the line ends, the weight of each line."""

import re
from bisect import bisect_right
from dataclasses import dataclass
from itertools import accumulate

_BOMS = (
    (b"\xef\xbb\xbf", "utf-8"),
    (b"\xff\xfe", "utf-16-le"),
    (b"\xfe\xff", "utf-16-be"),
)
_LONE_CR = re.compile(rb"\r(?!\n)")
_UNWEIGHED = b" \t\r\f\v" + bytes(range(0x80, 0xC0))
"""White space, and the bytes of UTF-8 that continue a character."""


@dataclass(frozen=True, slots=True)
class Lines:
    """A source in UTF-8, and where its lines begin. Rows count from 0."""

    source: bytes
    starts: list[int]
    """Each row's first byte, and the end of the source after the last."""
    weights: list[int]
    """Non-white characters before each row, and in all after the last."""

    @property
    def num_rows(self) -> int:
        return len(self.starts) - 1

    def row_of(self, byte: int) -> int:
        """The row that holds a byte."""
        return bisect_right(self.starts, byte, 0, len(self.starts) - 1) - 1

    def weight(self, start: int, end: int) -> int:
        """Non-white characters of the rows `start` to `end`, exclusive."""
        return self.weights[end] - self.weights[start]

    def text(self, start: int, end: int) -> bytes:
        """The rows' bytes, without the last one's line end."""
        piece = self.source[self.starts[start] : self.starts[end]]
        if piece.endswith(b"\r\n"):
            return piece[:-2]
        return piece[:-1] if piece.endswith((b"\n", b"\r")) else piece


def to_utf8(data: bytes) -> bytes | None:
    """The text of a file as UTF-8 without a byte order mark, or None where it is no text.

    UTF-8; UTF-16 with a mark, and without one where every other byte is NUL; Latin-1 for the rest.
    """
    for mark, encoding in _BOMS:
        if data.startswith(mark):
            text = data[len(mark) :].decode(encoding, "replace")
            return None if "\0" in text else text.encode()
    if b"\0" in data:
        return _unmarked_utf16(data)
    try:
        data.decode()
    except UnicodeDecodeError:
        return data.decode("latin-1").encode()
    return data


def _unmarked_utf16(data: bytes) -> bytes | None:
    head = data[:4096]
    even, odd = head[::2].count(0), head[1::2].count(0)
    if len(data) % 2 or max(even, odd) < 0.4 * len(head) / 2 or min(even, odd):
        return None
    try:
        text = data.decode("utf-16-le" if odd else "utf-16-be")
    except UnicodeDecodeError:
        return None
    return None if "\0" in text else text.encode()


def with_newlines(source: bytes) -> bytes:
    """The same bytes with every lone CR as LF, so that rows are what `Lines` and grammars count."""
    return _LONE_CR.sub(b"\n", source) if b"\r" in source else source


def lines_of(source: bytes, newlines: bytes) -> Lines:
    """The lines of a source. `newlines` is `with_newlines(source)`."""
    rows = newlines.split(b"\n")
    if not rows[-1]:
        del rows[-1]
    starts = list(accumulate((len(row) + 1 for row in rows), initial=0))
    starts[-1] = len(source)
    squeezed = newlines.translate(None, _UNWEIGHED).split(b"\n")
    weights = list(accumulate(map(len, squeezed[: len(rows)]), initial=0))
    return Lines(source, starts, weights)

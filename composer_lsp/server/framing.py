"""The base protocol: header lines, an empty line, a body of `Content-Length` bytes.

Source: LSP 3.18, "Base Protocol". Pure: bytes in, bodies out.
"""

import re
from collections.abc import Iterator

MAX_HEADER_BYTES = 16 * 1024
MAX_BODY_BYTES = 1 << 30

_CONTENT_LENGTH = re.compile(rb"content-length[ \t]*:[ \t]*(.*?)[ \t]*$", re.IGNORECASE)


class FramingError(Exception):
    """The header of a message cannot be understood; reading goes on at the next header."""


class FrameReader:
    """Cuts a stream of bytes into message bodies."""

    def __init__(self) -> None:
        self._pending = bytearray()
        self._content_length: int | None = None
        self._body_bytes: int | None = None
        """Length of the body that is being collected; None while in a header."""
        self._errors: list[str] = []

    def feed(self, data: bytes) -> Iterator[bytes | FramingError]:
        """The bodies that `data` completes, and an error for each header that it completes and
        that names no length."""
        self._pending += data
        while True:
            item = self._next_line() if self._body_bytes is None else self._next_body()
            if item is None:
                return
            if item:
                yield item

    def _next_body(self) -> bytes | None:
        assert self._body_bytes is not None
        if len(self._pending) < self._body_bytes:
            return None
        body = bytes(self._pending[: self._body_bytes])
        del self._pending[: self._body_bytes]
        self._body_bytes = None
        return body

    def _next_line(self) -> FramingError | bytes | None:
        """None: more bytes are needed. b"": a header line was taken."""
        end = self._pending.find(b"\n")
        if end < 0:
            if len(self._pending) <= MAX_HEADER_BYTES:
                return None
            self._pending.clear()
            self._errors.append(f"a header line of more than {MAX_HEADER_BYTES} bytes")
            return b""
        line = bytes(self._pending[:end]).rstrip(b"\r")
        del self._pending[: end + 1]
        if line:
            self._take_header(line)
            return b""
        return self._end_header()

    def _take_header(self, line: bytes) -> None:
        # Searched for, not matched: after a header that could not be understood its body stands
        # glued to the next header, and reading must find its feet again.
        if match := _CONTENT_LENGTH.search(line):
            self._take_content_length(match[1])
        elif b":" not in line:
            self._errors.append("a line that is no header")

    def _take_content_length(self, value: bytes) -> None:
        # int() would take signs, underscores and other scripts' digits.
        if not (value.isdigit() and len(value) <= 12 and int(value) <= MAX_BODY_BYTES):
            self._errors.append("a Content-Length that is no number of bytes")
        else:
            self._content_length = int(value)

    def _end_header(self) -> FramingError | bytes:
        length, self._content_length = self._content_length, None
        errors, self._errors = self._errors, []
        if length is not None:
            # An empty body is no message; the zero is taken as if nothing had come.
            self._body_bytes = length or None
            return b""
        if not errors:
            return b""  # Empty lines between messages mean nothing.
        return FramingError(f"no Content-Length before the body: {errors[0]}")

"""A file's text and the bytes it came from, so that an edit keeps what it does not touch."""

import codecs
import re
from dataclasses import dataclass
from typing import Self

_BOMS = (
    (codecs.BOM_UTF8, "utf-8"),
    # Before UTF-16: the mark of UTF-32 LE begins with that of UTF-16 LE.
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_DECLARED = re.compile(
    rb"""(?:coding[:=]|charset=["']?|<\?xml[^>]*encoding=["'])[ \t]*["']?([-\w.]+)"""
)
_CONTROL = re.compile(r"[\x00-\x08\x0e-\x1a\x1c-\x1f]")
"""Characters of no text."""
_HEAD_BYTES = 1024
"""Where a declaration of the encoding is looked for."""


class TextError(Exception):
    """The bytes are no text, or the text cannot be written in the file's encoding."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TextFile:
    """A text with its own line ends, without the byte order mark. `encode(text)` gives back the
    very bytes that it was decoded from."""

    text: str
    encoding: str = "utf-8"
    bom: bytes = b""

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """By the byte order mark; as UTF-8; as UTF-16 without a mark; by what the file declares;
        else by what looks likeliest.

        Bytes that are wrong in UTF-8 with a mark, or in a file that is else UTF-8, become lone
        surrogates, and themselves again when encoded.
        Raises: TextError for what is no text.
        """
        for bom, encoding in _BOMS:
            if data.startswith(bom):
                found = cls._exact(data[len(bom) :], encoding, bom)
                break
        else:
            found = cls._without_mark(data)
        if found is None or "\0" in found.text:
            raise TextError("it is no text: an encoding that gives back its bytes is not known")
        return found

    @classmethod
    def decode_as(cls, data: bytes, encoding: str, bom: bytes) -> Self:
        """What `encode` wrote for a file of this encoding and byte order mark. Raises: TextError."""
        found = cls._exact(data[len(bom) :], encoding, bom) if data.startswith(bom) else None
        if found is None:
            raise TextError(f"it is no text in {encoding}")
        return found

    def encode(self, text: str) -> bytes:
        """Raises: TextError for a character that the encoding lacks."""
        try:
            return self.bom + text.encode(self.encoding, _errors(self.encoding))
        except UnicodeEncodeError as error:
            character = text[error.start]
            raise TextError(
                f"its encoding, {self.encoding}, lacks the character {character!r} "
                f"(U+{ord(character):04X})"
            ) from error

    @property
    def shown(self) -> str:
        """For a model or a person: lone surrogates, which nobody could read, as U+FFFD."""
        return re.sub("[\ud800-\udfff]", "\ufffd", self.text)

    @classmethod
    def _without_mark(cls, data: bytes) -> Self | None:
        if b"\0" in data:
            found = cls._exact(data, _utf16_order(data), b"")
            return None if found is None or _CONTROL.search(found.text) else found
        try:
            return cls(text=data.decode())
        except UnicodeDecodeError:
            pass
        if (match := _DECLARED.search(data[:_HEAD_BYTES])) is not None:
            found = cls._exact(data, match[1].decode("ascii"), b"")
            if found is not None:
                return found
        return cls._likeliest(data)

    @classmethod
    def _likeliest(cls, data: bytes) -> Self | None:
        from charset_normalizer import from_bytes  # 40 ms, and hardly ever needed

        best = from_bytes(data).best()
        found = None if best is None else cls._exact(data, best.encoding, b"")
        return found or cls._exact(data, "utf-8", b"")

    @classmethod
    def _exact(cls, data: bytes, encoding: str, bom: bytes) -> Self | None:
        """None if the encoding is none, or does not give back these bytes."""
        try:
            encoding = codecs.lookup(encoding).name
            text = data.decode(encoding, _errors(encoding))
            if text.encode(encoding, _errors(encoding)) != data:
                return None
        except (LookupError, ValueError):
            return None
        return cls(text=text, encoding=encoding, bom=bom)


def _errors(encoding: str) -> str:
    return "surrogateescape" if encoding == "utf-8" else "strict"


def _utf16_order(data: bytes) -> str:
    even, odd = data[:4096:2].count(0), data[1:4096:2].count(0)
    return "utf-16-be" if even > odd else "utf-16-le"

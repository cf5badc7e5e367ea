"""Offsets within one line, in code points, to and from an LSP position's `character`.

A character beyond the end of the line means its end, and one inside a character (half of a
surrogate pair, the middle of a UTF-8 sequence) means that character's start. A lone surrogate, which
JSON can carry, counts as it does in the encoding: one UTF-16 unit, three bytes, one code point.
Source: LSP 3.18, "Position" and "PositionEncodingKind".
"""

import re
from enum import Enum

_ASTRAL = re.compile("[\U00010000-\U0010ffff]")
_UTF8_CONTINUATION = bytes(range(0x80, 0xC0))


class PositionEncoding(Enum):
    """What `character` counts."""

    UTF8 = "utf-8"
    UTF16 = "utf-16"
    UTF32 = "utf-32"

    def to_index(self, content: str, character: int) -> int:
        """The index into `content`, a line without its terminator, of an LSP `character`."""
        if self is PositionEncoding.UTF32 or content.isascii():
            return min(character, len(content))
        if self is PositionEncoding.UTF16:
            return _utf16_to_index(content, character)
        return _utf8_to_index(content, character)

    def to_character(self, content: str, index: int) -> int:
        """The LSP `character` of an index into a line."""
        if self is PositionEncoding.UTF32 or content.isascii():
            return index
        if self is PositionEncoding.UTF16:
            return index + len(_ASTRAL.findall(content, 0, index))
        return len(content[:index].encode("utf-8", "surrogatepass"))


def _utf16_to_index(content: str, character: int) -> int:
    num_pairs = 0
    # Each code point takes at least one unit, so the answer is at most `character`.
    for match in _ASTRAL.finditer(content, 0, character):
        unit = match.start() + num_pairs
        if unit + 1 == character:
            return match.start()
        if unit >= character:
            break
        num_pairs += 1
    return min(character - num_pairs, len(content))


def _utf8_to_index(content: str, character: int) -> int:
    encoded = content[:character].encode("utf-8", "surrogatepass")
    index = len(encoded[:character].translate(None, _UTF8_CONTINUATION))
    inside = encoded[character : character + 1].translate(None, _UTF8_CONTINUATION)
    is_inside = len(encoded) > character and not inside
    return index - 1 if is_inside else index

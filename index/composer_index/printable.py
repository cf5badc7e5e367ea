"""Text from outside, made safe to show on a terminal."""

import unicodedata

_LINE_ENDS = frozenset({"Zl", "Zp"})


def printable(text: str) -> str:
    r"""`text` in one line: what a terminal would obey, or cannot show, becomes an escape such as
    `\x1b`. Tabs stay."""
    return text if text.isprintable() else "".join(map(_shown, text))


def _shown(char: str) -> str:
    category = unicodedata.category(char)
    if char == "\t" or not (category[0] == "C" or category in _LINE_ENDS):
        return char
    return char.encode("unicode_escape").decode("ascii")

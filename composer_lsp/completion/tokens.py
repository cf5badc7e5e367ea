"""How many tokens a text has, about: counting exactly would cost a round trip to the engine for each
keystroke."""

import re

CHARS_PER_TOKEN = 3
"""Of source text. Files of nine languages have medians of 3.6 to 4.3 characters a token of
Qwen2.5-Coder's tokenizer, minified code 2.4."""

_LONG_RUN = re.compile(r"[A-Za-z0-9+/]{40,}=*")
"""Data in base64 or hexadecimal (1.1 to 1.9 characters a token)."""
_DENSE = re.compile(r"[\d\x00-\x08\x0e-\x1f\u0900-\U0010ffff]")
"""Digits, controls, and scripts with about a character a token (Amharic .8, Hindi 1.0, Chinese 1.7;
symbols that hardly any text has, such as Braille, .4)."""
_WIDE = re.compile(r"[\x80-\u08ff]")
"""Greek (1.2) to Cyrillic (3.0), counted as 1.5."""

_STEP_CHARS = 60


def estimated_tokens(text: str) -> int:
    """About as many tokens as the text has for a model, rather more than fewer: counting exactly
    would cost a round trip to the engine for each keystroke."""
    others = _LONG_RUN.sub("", text)
    num_dense = len(text) - len(others) + len(_DENSE.findall(others))
    num_wide = 0 if others.isascii() else len(_WIDE.findall(others))
    num_thirds = len(text) + 2 * num_dense + num_wide
    return -(-num_thirds // CHARS_PER_TOKEN)


def num_fitting(text: str, max_tokens: int) -> int:
    """How many characters from the start of the text have no more than `max_tokens`."""
    if estimated_tokens(text) <= max_tokens:
        return len(text)
    num_tokens = 0
    for start in range(0, len(text), _STEP_CHARS):
        num_tokens += estimated_tokens(text[start : start + _STEP_CHARS])
        if num_tokens > max_tokens:
            return start
    return len(text)

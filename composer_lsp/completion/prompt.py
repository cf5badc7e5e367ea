"""The part of a document that goes into a prompt, kept stable while its user types.

A prompt cache computes only what follows the first changed token. So the window does not slide with
the cursor: its start stays at one line until the budget is spent, and the text after the cursor is
frozen for the typing session, closing brackets that the editor inserts included.
"""

import re
from collections.abc import Iterator
from dataclasses import replace

from composer_lsp.completion.repository import NO_CONTEXT
from composer_lsp.completion.templates import FimPrompt

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

_NEW_FILE_TOKENS = 32
"""Text up to this long gets its path into the prompt. Qwen2.5-Coder-0.5B begins every empty file
with Angular's import; told the path, it gave each of ten the right language."""
_NUM_PATH_PARTS = 2

_SLACK = 0.25
"""Part of the prefix budget that is left free when the window is placed, for typing into."""
_STEP_CHARS = 60
_ANCHOR_CHARS = 200
_MAX_INSERTED_CHARS = 200

_AUTO_INSERTED = re.compile(r"(?:[\s)\]}>'\"`;,]|</[\w.:-]*>|\bend\b)*")
"""What editors insert after the cursor by themselves."""


class PromptWindow:
    """The window of one document. It holds copies of at most a window's text."""

    def __init__(self) -> None:
        self._start = 0
        self._anchor = ""
        self._suffix: str | None = None
        self._suffix_is_rest = False
        self._num_before = 0
        self._num_inserted = 0

    def prompt(self, text: str, offset: int, *, context_tokens: int, path: str = "") -> FimPrompt:
        """The prompt for the cursor at `offset`; the budget covers both parts. The end of `path`
        goes into it while the text is too short to show its language."""
        before, after = text[:offset], text[offset:]
        max_prefix_tokens = context_tokens * 2 // 3
        suffix = self._frozen_suffix(len(before), after)
        if suffix is None:
            suffix = self._freeze_suffix(after, context_tokens - max_prefix_tokens)
        self._num_before = len(before)
        if not self._keeps_start(before, max_prefix_tokens):
            self._start = _window_start(before, int(max_prefix_tokens * (1 - _SLACK)))
        prefix = before[self._start :]
        self._anchor = prefix[:_ANCHOR_CHARS]
        return FimPrompt(
            prefix=with_newlines(prefix),
            suffix=with_newlines(suffix),
            path=path_end(path) if _is_new(prefix + suffix) else "",
        )

    def _keeps_start(self, before: str, max_tokens: int) -> bool:
        if not before.startswith(self._anchor, self._start):
            # An edit above moved the window's text; the last place is the one before the cursor.
            moved = before.rfind(self._anchor)
            if moved < 0:
                return False
            self._start = moved
        if len(before) - self._start > max_tokens * CHARS_PER_TOKEN:
            return False
        num_tokens = estimated_tokens(before[self._start :])
        is_filled = self._start == 0 or num_tokens >= max_tokens // 2
        return is_filled and num_tokens <= max_tokens

    def _frozen_suffix(self, num_before: int, after: str) -> str | None:
        """The frozen text if it still follows the cursor, at once or behind what the editor
        inserted; None when the typing session is over."""
        if self._suffix is None:
            return None
        inserted = _AUTO_INSERTED.match(after, 0, _MAX_INSERTED_CHARS)
        max_inserted = inserted.end() if inserted else 0
        for num_inserted in range(max_inserted + 1):
            if self._is_suffix_at(after, num_inserted, self._suffix):
                # More closing text after the cursor and less before it: the cursor moved back.
                moved = num_inserted > self._num_inserted and num_before <= self._num_before
                self._num_inserted = num_inserted
                return None if moved else self._suffix
        return None

    def _is_suffix_at(self, after: str, start: int, suffix: str) -> bool:
        if self._suffix_is_rest:
            return len(after) - start == len(suffix) and after.endswith(suffix)
        return after.startswith(suffix, start)

    def _freeze_suffix(self, after: str, max_tokens: int) -> str:
        self._num_inserted = 0
        num_chars = _num_fitting(after[: max_tokens * CHARS_PER_TOKEN], max_tokens)
        self._suffix_is_rest = num_chars == len(after)
        self._suffix = after if self._suffix_is_rest else _whole_lines(after[:num_chars])
        return self._suffix


def estimated_tokens(text: str) -> int:
    """About as many tokens as the text has for a model, rather more than fewer: counting exactly
    would cost a round trip to the engine for each keystroke."""
    others = _LONG_RUN.sub("", text)
    num_dense = len(text) - len(others) + len(_DENSE.findall(others))
    num_wide = 0 if others.isascii() else len(_WIDE.findall(others))
    num_thirds = len(text) + 2 * num_dense + num_wide
    return -(-num_thirds // CHARS_PER_TOKEN)


def narrowed(prompt: FimPrompt) -> Iterator[FimPrompt]:
    """The prompt, then less of it, for texts that have more tokens than was estimated: without the
    other files' text, then with the nearer half of each part."""
    yield prompt
    if prompt.context.snippets:
        yield replace(prompt, context=NO_CONTEXT)
    yield _halved(prompt)


def _halved(prompt: FimPrompt) -> FimPrompt:
    return FimPrompt(
        prefix=prompt.prefix[len(prompt.prefix) // 2 :],
        suffix=prompt.suffix[: len(prompt.suffix) // 2],
        path=prompt.path,
    )


def _is_new(text: str) -> bool:
    is_short = len(text) <= _NEW_FILE_TOKENS * CHARS_PER_TOKEN
    return is_short and estimated_tokens(text) <= _NEW_FILE_TOKENS


def path_end(path: str) -> str:
    """What a prompt tells of a path."""
    return "/".join(path.strip("/").split("/")[-_NUM_PATH_PARTS:])


def with_newlines(text: str) -> str:
    """`text` with `\\n` line endings only, as the models saw them in training."""
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _window_start(before: str, max_tokens: int) -> int:
    nearest = before[max(0, len(before) - max_tokens * CHARS_PER_TOKEN) :]
    cut = len(before) - _num_fitting(nearest[::-1], max_tokens)
    if cut == 0:
        return 0
    line = before.find("\n", cut - 1) + 1
    return line if 0 < line < len(before) else cut


def _num_fitting(text: str, max_tokens: int) -> int:
    """How many characters from the start of the text have no more than `max_tokens`."""
    if estimated_tokens(text) <= max_tokens:
        return len(text)
    num_tokens = 0
    for start in range(0, len(text), _STEP_CHARS):
        num_tokens += estimated_tokens(text[start : start + _STEP_CHARS])
        if num_tokens > max_tokens:
            return start
    return len(text)


def _whole_lines(text: str) -> str:
    end = text.rfind("\n") + 1
    return text[:end] if end else text

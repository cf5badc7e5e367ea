"""The part of a document that goes into a prompt, kept stable while its user types.

A prompt cache computes only what follows the first changed token. So the window does not slide with
the cursor: its start stays at one line until the budget is spent, and the text after the cursor is
frozen for the typing session, closing brackets that the editor inserts included.
"""

import re

from composer_lsp.completion.templates import FimPrompt

CHARS_PER_TOKEN = 3
"""Estimate that turns the token budget into characters. Files of nine languages have medians of 3.6
to 4.3 characters a token of Qwen2.5-Coder's tokenizer (minified code 2.7), so that a window rarely
exceeds its budget; counting exactly would cost a round trip to the engine for each keystroke."""

_SLACK = 0.25
"""Part of the prefix budget that is left free when the window is placed, for typing into."""
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

    def prompt(self, text: str, offset: int, *, context_tokens: int) -> FimPrompt:
        """The prompt for the cursor at `offset`; the budget covers both parts."""
        budget_chars = context_tokens * CHARS_PER_TOKEN
        before, after = text[:offset], text[offset:]
        max_prefix_chars = budget_chars * 2 // 3
        suffix = self._frozen_suffix(len(before), after)
        if suffix is None:
            suffix = self._freeze_suffix(after, budget_chars - max_prefix_chars)
        self._num_before = len(before)
        if not self._keeps_start(before, max_prefix_chars):
            self._start = _window_start(before, int(max_prefix_chars * (1 - _SLACK)))
        prefix = before[self._start :]
        self._anchor = prefix[:_ANCHOR_CHARS]
        return FimPrompt(prefix=with_newlines(prefix), suffix=with_newlines(suffix))

    def _keeps_start(self, before: str, max_chars: int) -> bool:
        if not before.startswith(self._anchor, self._start):
            # An edit above moved the window's text; the last place is the one before the cursor.
            moved = before.rfind(self._anchor)
            if moved < 0:
                return False
            self._start = moved
        num_chars = len(before) - self._start
        is_filled = self._start == 0 or num_chars >= max_chars // 2
        return is_filled and num_chars <= max_chars

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

    def _freeze_suffix(self, after: str, max_chars: int) -> str:
        self._num_inserted = 0
        self._suffix_is_rest = len(after) <= max_chars
        self._suffix = after if self._suffix_is_rest else _whole_lines(after[:max_chars])
        return self._suffix


def with_newlines(text: str) -> str:
    """`text` with `\\n` line endings only, as the models saw them in training."""
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _window_start(before: str, max_chars: int) -> int:
    if len(before) <= max_chars:
        return 0
    cut = len(before) - max_chars
    line = before.find("\n", cut - 1) + 1
    return line if 0 < line < len(before) else cut


def _whole_lines(text: str) -> str:
    end = text.rfind("\n") + 1
    return text[:end] if end else text

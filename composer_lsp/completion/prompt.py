"""The part of a document that goes into a prompt, kept stable while its user types.

A prompt cache computes only what follows the first changed token. So the window does not slide with
the cursor: its start stays at one line until the budget is spent, and the text after the cursor is
frozen for the typing session, closing brackets that the editor inserts included.
"""

import re
from collections.abc import Iterator
from dataclasses import replace

from composer_lsp.completion.filters import prompt_path
from composer_lsp.completion.heads import heads_above
from composer_lsp.completion.repository import NO_CONTEXT
from composer_lsp.completion.request import CompletionRequest
from composer_lsp.completion.templates import FimPrompt
from composer_lsp.completion.tokens import CHARS_PER_TOKEN, estimated_tokens, num_fitting

_NEW_FILE_TOKENS = 32
"""Text up to this long gets its path into the prompt. Qwen2.5-Coder-0.5B begins every empty file
with Angular's import; told the path, it gave each of ten the right language."""
_NUM_PATH_PARTS = 2

_SLACK = 0.25
"""Part of the prefix budget that is left free when the window is placed, for typing into."""
_HEADS = 0.2
"""Part of the prefix budget for imports and the heads of enclosing blocks, where the file begins above
the window."""
_ANCHOR_CHARS = 200
_MAX_INSERTED_CHARS = 200

_AUTO_INSERTED = re.compile(r"(?:[\s)\]}>'\"`;,]|</[\w.:-]*>|\bend\b)*")
"""What editors insert after the cursor by themselves."""


class PromptWindow:
    """The window of one document. It holds copies of at most a window's text."""

    def __init__(self) -> None:
        self._start = 0
        self._anchor = ""
        self._heads = ""
        self._suffix: str | None = None
        self._suffix_is_rest = False
        self._num_before = 0
        self._num_inserted = 0

    def at(self, request: CompletionRequest, *, context_tokens: int) -> FimPrompt:
        """The prompt for a request."""
        return self.prompt(
            request.document.text,
            request.offset,
            context_tokens=context_tokens,
            path=prompt_path(request.document.uri),
            language_id=request.document.language_id,
        )

    def prompt(
        self, text: str, offset: int, *, context_tokens: int, path: str = "", language_id: str = ""
    ) -> FimPrompt:
        """The prompt for the cursor at `offset`; the budget covers both parts. The end of `path`
        goes into it while the text is too short to show its language. By `language_id`, a prompt that
        begins inside the file keeps its imports and the heads of what it begins inside of."""
        before, after = text[:offset], text[offset:]
        max_prefix_tokens = context_tokens * 2 // 3
        suffix = self._frozen_suffix(len(before), after)
        if suffix is None:
            suffix = self._freeze_suffix(after, context_tokens - max_prefix_tokens)
        self._num_before = len(before)
        max_own_tokens = max_prefix_tokens - estimated_tokens(self._heads)
        if not self._keeps_start(before, max_own_tokens):
            self._place(text, before, max_prefix_tokens, language_id)
        prefix = before[self._start :]
        self._anchor = prefix[:_ANCHOR_CHARS]
        prefix = self._heads + prefix
        return FimPrompt(
            prefix=with_newlines(prefix),
            suffix=with_newlines(suffix),
            path=path_end(path) if _is_new(prefix + suffix) else "",
        )

    def _place(self, text: str, before: str, max_tokens: int, language_id: str) -> None:
        self._start = _window_start(before, int(max_tokens * (1 - _SLACK)))
        max_heads = int(max_tokens * _HEADS)
        self._heads = heads_above(text, self._start, language_id, max_tokens=max_heads)
        if self._heads:  # They take their room from the window.
            max_own = max_tokens - estimated_tokens(self._heads)
            self._start = _window_start(before, int(max_own * (1 - _SLACK)))
            self._heads = heads_above(text, self._start, language_id, max_tokens=max_heads)

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
        num_chars = num_fitting(after[: max_tokens * CHARS_PER_TOKEN], max_tokens)
        self._suffix_is_rest = num_chars == len(after)
        self._suffix = after if self._suffix_is_rest else _whole_lines(after[:num_chars])
        return self._suffix


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
    cut = len(before) - num_fitting(nearest[::-1], max_tokens)
    if cut == 0:
        return 0
    line = before.find("\n", cut - 1) + 1
    return line if 0 < line < len(before) else cut


def _whole_lines(text: str) -> str:
    end = text.rfind("\n") + 1
    return text[:end] if end else text

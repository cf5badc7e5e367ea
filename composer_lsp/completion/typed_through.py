"""Suggestions kept in memory while the user types, or accepts, their text piece by piece."""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

from composer_lsp.completion.brackets import unmatched_brackets

_NUM_KEPT = 16
_ANCHOR_CHARS = 240
_MAX_INSERTED_CHARS = 16
_CLOSING = frozenset(")]}>'\"`")


@dataclass(frozen=True, slots=True)
class _Shown:
    before: str
    """The text before the cursor when it was shown, as far as needed to find the place again."""
    after: str
    after_is_rest: bool
    text: str


class TypedThrough:
    """The latest suggestions of one document.

    A suggestion is found again by the text around its place, so edits elsewhere in the document
    do not end it; several are kept, so that deleting what was typed leads back to an older one.
    """

    def __init__(self) -> None:
        self._shown: deque[_Shown] = deque(maxlen=_NUM_KEPT)

    def remember(self, text: str, offset: int, suggestion: str) -> None:
        """`suggestion` is shown at `offset` of the document `text`."""
        after = text[offset : offset + _ANCHOR_CHARS]
        shown = _Shown(
            text[max(0, offset - _ANCHOR_CHARS) : offset],
            after,
            offset + len(after) == len(text),
            suggestion,
        )
        if shown in self._shown:
            self._shown.remove(shown)
        self._shown.appendleft(shown)

    def forget(self) -> None:
        """Drop all, for settings or models that have changed."""
        self._shown.clear()

    def rests(self, text: str, offset: int) -> Iterator[str]:
        """What remains of each suggestion that goes on at `offset`, the latest first."""
        seen: set[str] = set()
        for shown in self._shown:
            num_typed = _num_typed(shown, text, offset)
            if num_typed is None:
                continue
            inserted = _inserted_after_cursor(shown, text, offset)
            if inserted is None:
                continue
            rest = _up_to_inserted(shown.text[num_typed:], inserted)
            if rest.strip() and rest not in seen:
                seen.add(rest)
                yield rest


def _num_typed(shown: _Shown, text: str, offset: int) -> int | None:
    """How much of the suggestion stands before the cursor already."""
    is_all_before = len(shown.before) < _ANCHOR_CHARS
    for num_typed in range(len(shown.text), -1, -1):
        anchored = shown.before + shown.text[:num_typed]
        start = offset - len(anchored)
        if start < 0 or (is_all_before and start > 0):
            continue
        if text.startswith(anchored, start):
            return num_typed
    return None


def _inserted_after_cursor(shown: _Shown, text: str, offset: int) -> str | None:
    """What the editor closed by itself since the suggestion was shown; None when the text after
    the cursor is a different one."""
    for length in range(_MAX_INSERTED_CHARS + 1):
        inserted = text[offset : offset + length]
        if not (set(inserted) <= _CLOSING or inserted.startswith("</")):
            continue
        start = offset + length
        if shown.after_is_rest and len(text) - start != len(shown.after):
            continue
        if text.startswith(shown.after, start):
            return inserted
    return None


def _up_to_inserted(rest: str, inserted: str) -> str:
    """The rest without the closing text that stands after the cursor now, and what follows it:
    that is offered once the cursor has passed the closing text."""
    if not inserted:
        return rest
    if inserted[0] in ")]}":
        closers = unmatched_brackets(rest).closers
        return rest[: closers[0].offset] if closers else rest
    end = rest.find(inserted if inserted.startswith("</") else inserted[0])
    return rest[:end] if end >= 0 else rest

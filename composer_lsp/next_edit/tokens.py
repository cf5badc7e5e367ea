"""What changed within the lines of an edit, word by word."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

from composer_lsp.completion.edit_history import Edit
from composer_lsp.next_edit.proposal import split_lines

_TOKEN = re.compile(r"[^\W\d]\w*|\d[\w.]*|\s+|.", re.DOTALL)
_IDENTIFIER = re.compile(r"[^\W\d]\w*")
MAX_TOKENS = 2000


@dataclass(frozen=True, slots=True)
class Replaced:
    """One word took another's place; offsets are in the documents before and after."""

    old: str
    new: str
    old_start: int
    new_start: int


@dataclass(frozen=True, slots=True)
class Operation:
    """Of `SequenceMatcher`: tokens `start` to `end` of the old ones became `new`."""

    start: int
    end: int
    new: tuple[str, ...]


def tokens_of(text: str) -> list[str]:
    return _TOKEN.findall(text)


def is_identifier(text: str) -> bool:
    return _IDENTIFIER.fullmatch(text) is not None


def operations(old: Sequence[str], new: Sequence[str]) -> tuple[Operation, ...]:
    matcher = SequenceMatcher(None, old, new, autojunk=False)
    return tuple(
        Operation(start, end, tuple(new[new_start:new_end]))
        for tag, start, end, new_start, new_end in matcher.get_opcodes()
        if tag != "equal"
    )


def replaced_words(edit: Edit, before: str, after: str) -> Iterator[Replaced]:
    """Identifiers of an edit that others took the place of. `before` and `after`: the document without
    the edit and with it."""
    old_start, old = _lines(before, edit.first_line, len(edit.old_lines))
    new_start, new = _lines(after, edit.first_line, len(edit.new_lines))
    old_tokens, new_tokens = tokens_of(old), tokens_of(new)
    if max(len(old_tokens), len(new_tokens)) > MAX_TOKENS:
        return
    matcher = SequenceMatcher(None, old_tokens, new_tokens, autojunk=False)
    for tag, i1, i2, j1, j2 in matcher.get_opcodes():
        if tag != "replace" or i2 - i1 != j2 - j1:
            continue
        for i, j in zip(range(i1, i2), range(j1, j2), strict=True):
            one, other = old_tokens[i], new_tokens[j]
            if one != other and is_identifier(one) and is_identifier(other):
                yield Replaced(
                    one,
                    other,
                    old_start + sum(map(len, old_tokens[:i])),
                    new_start + sum(map(len, new_tokens[:j])),
                )


def _lines(text: str, first: int, number: int) -> tuple[int, str]:
    lines = split_lines(text)
    return sum(map(len, lines[:first])), "".join(lines[first : first + number])

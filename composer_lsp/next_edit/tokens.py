"""What changed within the lines of an edit, word by word."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

from composer_lsp.completion.edit_history import Edit, num_common
from composer_lsp.completion.lines import split_lines

_TOKEN = re.compile(r"[^\W\d]\w*|\d[\w.]*|\s+|.", re.DOTALL)
_IDENTIFIER = re.compile(r"[^\W\d]\w*")
MAX_TOKENS = 2000
_MAX_DIFFERENT = 1000
"""Tokens that are compared one by one."""


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
    return tuple(
        Operation(start, end, tuple(new[new_start:new_end]))
        for _, start, end, new_start, new_end in _differences(old, new)
    )


def replaced_words(edit: Edit, before: str, after: str) -> Iterator[Replaced]:
    """Identifiers of an edit that others took the place of. `before` and `after`: the document without
    the edit and with it."""
    old_start, old = _lines(before, edit.first_line, len(edit.old_lines))
    new_start, new = _lines(after, edit.first_line, len(edit.new_lines))
    old_tokens, new_tokens = tokens_of(old), tokens_of(new)
    if max(len(old_tokens), len(new_tokens)) > MAX_TOKENS:
        return
    for tag, i1, i2, j1, j2 in _differences(old_tokens, new_tokens):
        if tag != "replace" or i2 - i1 != j2 - j1 or i2 - i1 > _MAX_DIFFERENT:
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


def _differences(
    old: Sequence[str], new: Sequence[str]
) -> Iterator[tuple[str, int, int, int, int]]:
    """As `SequenceMatcher.get_opcodes` has them. Only what lies between the first and the last difference
    is compared: many equal tokens cost it the square of their number. Too much of it is one difference.
    """
    head = num_common(old, new)
    tail = num_common(old[head:][::-1], new[head:][::-1])
    old_end, new_end = len(old) - tail, len(new) - tail
    if max(old_end, new_end) - head > _MAX_DIFFERENT:
        yield "replace", head, old_end, head, new_end
        return
    matcher = SequenceMatcher(None, old[head:old_end], new[head:new_end], autojunk=False)
    for tag, i1, i2, j1, j2 in matcher.get_opcodes():
        if tag != "equal":
            yield tag, head + i1, head + i2, head + j1, head + j2


def _lines(text: str, first: int, number: int) -> tuple[int, str]:
    lines = split_lines(text)
    return sum(map(len, lines[:first])), "".join(lines[first : first + number])

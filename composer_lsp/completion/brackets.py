"""Brackets and quotes around the cursor: which of them still wait for their partner."""

import re
from dataclasses import dataclass

from composer_lsp.completion.surroundings import Surroundings

_PARTNER = {")": "(", "]": "[", "}": "{"}
_OPENERS = frozenset(_PARTNER.values())
_QUOTES = "\"'`"

_STRING = re.compile(r"\"(?:[^\"\\\n]|\\.)*\"|'(?:[^'\\\n]|\\.)*'|`(?:[^`\\\n]|\\.)*`")
"""A string that ends on its line; a lone quote is an apostrophe, a lifetime or an open string."""


@dataclass(frozen=True, slots=True)
class Bracket:
    char: str
    offset: int


@dataclass(frozen=True, slots=True)
class Unmatched:
    openers: tuple[Bracket, ...]
    """In text order: the innermost is the last."""
    closers: tuple[Bracket, ...]


def unmatched_brackets(text: str) -> Unmatched:
    """Brackets outside strings whose partners are not in `text`."""
    openers: list[Bracket] = []
    closers: list[Bracket] = []
    for offset, char in enumerate(_without_strings(text)):
        if char in _OPENERS:
            openers.append(Bracket(char, offset))
        elif char in _PARTNER:
            if openers and openers[-1].char == _PARTNER[char]:
                openers.pop()
            elif not openers:
                closers.append(Bracket(char, offset))
    return Unmatched(tuple(openers), tuple(closers))


def open_at_cursor(around: Surroundings) -> tuple[str, ...]:
    """Brackets open at the cursor that the text after it does not close, outermost first."""
    openers = list(unmatched_brackets(around.before).openers)
    for closer in unmatched_brackets(around.after).closers:
        partner = _partner_of(closer, openers, around)
        if partner is not None:
            openers.remove(partner)
    return tuple(opener.char for opener in openers)


def surplus_closer(
    answer: str, open_at_cursor: tuple[str, ...], *, is_complete: bool
) -> int | None:
    """Where the answer first closes a bracket that is closed after the cursor already.

    While an answer streams in, a bracket behind a lone quote may turn out to stand in a string.
    """
    if not is_complete:
        answer = _without_open_string(answer)
    waiting = list(open_at_cursor)
    for closer in unmatched_brackets(answer).closers:
        if _PARTNER[closer.char] not in waiting:
            return closer.offset
        waiting.remove(_PARTNER[closer.char])
    return None


def surplus_quote(answer: str, around: Surroundings) -> int | None:
    """Where the answer ends the string around the cursor, whose closing quote stands after it."""
    for quote in _QUOTES:
        head, tail = _count(around.head, quote), _count(around.tail, quote)
        if head % 2 == 1 and tail % 2 == 1:
            width = 3 if around.tail.startswith(quote * 3) else 1
            match = re.search(rf"(?<!\\){quote * width}", answer)
            if match:
                return match.start()
    return None


def is_balanced(text: str) -> bool:
    """Whether no bracket or quote that `text` opens waits to be closed."""
    return not unmatched_brackets(text).openers and all(
        _count(text, quote) % 2 == 0 for quote in _QUOTES
    )


def _partner_of(closer: Bracket, openers: list[Bracket], around: Surroundings) -> Bracket | None:
    same_kind = [opener for opener in openers if opener.char == _PARTNER[closer.char]]
    line = _line_at(around.after, closer.offset)
    if "\n" in around.after[: closer.offset] and line.lstrip()[:1] == closer.char:
        # A closer on a line of its own shows by its indentation which opener it belongs to.
        column = around.indent.columns(line)
        aligned = [
            opener
            for opener in same_kind
            if around.indent.columns(_line_at(around.before, opener.offset)) == column
        ]
        return aligned[-1] if aligned else None
    return same_kind[-1] if same_kind else None


def _line_at(text: str, offset: int) -> str:
    end = text.find("\n", offset)
    return text[text.rfind("\n", 0, offset) + 1 : end if end >= 0 else len(text)]


def _without_strings(text: str) -> str:
    return _STRING.sub(lambda match: " " * len(match.group()), text)


def _without_open_string(text: str) -> str:
    line_start = text.rfind("\n") + 1
    match = re.search(rf"[{_QUOTES}]", _without_strings(text)[line_start:])
    return text[: line_start + match.start()] if match else text


def _count(text: str, quote: str) -> int:
    return len(re.findall(rf"(?<!\\){quote}", text))

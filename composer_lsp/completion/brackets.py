"""Brackets and quotes around the cursor: which of them still wait for their partner."""

import re
from dataclasses import dataclass

from composer_lsp.completion.literals import QUOTES, blanked, count_quotes
from composer_lsp.completion.surroundings import Surroundings

_PARTNER = {")": "(", "]": "[", "}": "{"}
_BRACKET = re.compile(r"[()\[\]{}]")
_EMPHASIS = re.compile(r"\*+|_+|~+")
_MAX_CLOSED = 32
"""More brackets than this no answer closes."""


@dataclass(frozen=True, slots=True)
class Bracket:
    char: str
    offset: int
    statement: int
    """Where the line begins that its statement is indented by: of `f(\\n    a) {` the first."""


@dataclass(frozen=True, slots=True)
class Unmatched:
    openers: tuple[Bracket, ...]
    """In text order: the innermost is the last."""
    closers: tuple[Bracket, ...]


@dataclass(frozen=True, slots=True)
class Closable:
    """What an answer at the cursor may close."""

    openers: str
    """The brackets before the cursor, innermost first."""
    counts: frozenset[int]
    """How many of them, so that what closes after the cursor keeps its partners; 0 is one."""


def unmatched_brackets(text: str, language_id: str = "") -> Unmatched:
    """Brackets outside strings and comments whose partners are not in `text`."""
    code = blanked(text, language_id)
    openers: list[Bracket] = []
    closers: list[Bracket] = []
    line = statement = 0
    for match in _BRACKET.finditer(code):
        char, offset = match.group(), match.start()
        start = code.rfind("\n", line, offset) + 1
        if start > line:
            line = statement = start
        if char not in _PARTNER:
            openers.append(Bracket(char, offset, statement))
        elif openers and openers[-1].char == _PARTNER[char]:
            statement = min(statement, openers.pop().statement)
        elif not openers:
            closers.append(Bracket(char, offset, statement))
    return Unmatched(tuple(openers), tuple(closers))


def closable_at_cursor(around: Surroundings) -> Closable:
    """The brackets that are open at the cursor, and how many of them await an answer."""
    openers = unmatched_brackets(around.before, around.language_at_cursor).openers
    closers = unmatched_brackets(around.after, around.language_at_cursor).closers
    if not openers:
        return Closable("", frozenset({0}))
    num_closed = [
        _num_closed(openers[: len(openers) - count], closers, around)
        for count in range(min(len(openers), _MAX_CLOSED) + 1)
    ]
    counts = {0, *(n for n, closed in enumerate(num_closed) if closed == max(num_closed))}
    return Closable("".join(opener.char for opener in reversed(openers)), frozenset(counts))


def surplus_closer(
    answer: str, closable: Closable, language_id: str, *, is_complete: bool
) -> int | None:
    """Where the answer closes a bracket that is not the innermost open one, or that is closed
    after the cursor already.

    While an answer streams in, a bracket behind a lone quote may turn out to stand in a string.
    """
    if not is_complete:
        answer = _without_open_string(answer, language_id)
    closers = unmatched_brackets(answer, language_id).closers
    num_matched = 0
    for closer, opener in zip(closers, closable.openers, strict=False):
        if num_matched == max(closable.counts) or _PARTNER[closer.char] != opener:
            break
        num_matched += 1
    if num_matched == len(closers) and not is_complete:
        return None
    kept = max(count for count in closable.counts if count <= num_matched)
    return closers[kept].offset if kept < len(closers) else None


def surplus_quote(answer: str, around: Surroundings) -> int | None:
    """Where the answer ends the string around the cursor, or a document's emphasis, whose closing
    quote or mark stands after it."""
    if around.language_id == "markdown" and (mark := _EMPHASIS.match(around.tail)):
        found = answer.find(mark.group())
        if found >= 0 and around.head.endswith(mark.group()):
            return found
    for quote in QUOTES:
        head = count_quotes(around.head, quote, around.language_at_cursor)
        tail = count_quotes(around.tail, quote, around.language_at_cursor)
        if head % 2 == 1 and tail % 2 == 1:
            width = 3 if around.tail.startswith(quote * 3) else 1
            match = re.search(rf"(?<!\\){quote * width}", answer)
            if match:
                return match.start()
    return None


def is_balanced(text: str, language_id: str) -> bool:
    """Whether no bracket or quote that `text` opens waits to be closed."""
    return not unmatched_brackets(text, language_id).openers and all(
        count_quotes(text, quote, language_id) % 2 == 0 for quote in QUOTES
    )


def num_unmatched(line: str, language_id: str) -> int:
    """How many brackets and quotes of the line have no partner on it."""
    brackets = unmatched_brackets(line, language_id)
    num_quotes = sum(count_quotes(line, quote, language_id) % 2 for quote in QUOTES)
    return len(brackets.openers) + len(brackets.closers) + num_quotes


def _num_closed(
    openers: tuple[Bracket, ...], closers: tuple[Bracket, ...], around: Surroundings
) -> int:
    """How many of the closers after the cursor find a partner."""
    waiting = list(openers)
    num_closed = 0
    for closer in closers:
        line = _line_at(around.after, closer.offset)
        if "\n" in around.after[: closer.offset] and line.lstrip()[:1] == closer.char:
            # A closer on a line of its own shows by its indentation which opener it belongs to.
            index = _aligned(waiting, closer, around.indent.columns(line), around)
        else:
            index = len(waiting) - 1
        if index >= 0 and waiting[index].char == _PARTNER[closer.char]:
            del waiting[index:]
            num_closed += 1
    return num_closed


def _aligned(waiting: list[Bracket], closer: Bracket, column: int, around: Surroundings) -> int:
    """The innermost opener of the closer's kind whose statement begins in the column, or -1."""
    for index in range(len(waiting) - 1, -1, -1):
        opener = waiting[index]
        if opener.char == _PARTNER[closer.char]:
            line = _line_at(around.before, opener.statement)
            if around.indent.columns(line) == column:
                return index
    return -1


def _line_at(text: str, offset: int) -> str:
    end = text.find("\n", offset)
    return text[text.rfind("\n", 0, offset) + 1 : end if end >= 0 else len(text)]


def _without_open_string(text: str, language_id: str) -> str:
    line_start = text.rfind("\n") + 1
    match = re.search(rf"[{QUOTES}]", blanked(text, language_id)[line_start:])
    return text[: line_start + match.start()] if match else text

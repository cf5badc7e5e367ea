"""Trimming: what of a model's answer is worth inserting, decided while it streams in.

Every rule looks at the answer beside the text around the cursor and names the place where the
answer stops being useful; the earliest place wins.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from operator import itemgetter
from typing import Literal

from composer_lsp.completion.blocks import (
    block_end,
    end_above_body,
    is_above_body,
    lacks_beginning,
    may_follow,
)
from composer_lsp.completion.brackets import closable_at_cursor, surplus_closer, surplus_quote
from composer_lsp.completion.indentation import adopt_indent
from composer_lsp.completion.overlap import (
    ends_with_line_after,
    may_become_head,
    overlap_with_tail,
    partly_repeats_line_after,
    repeats_itself,
    repeats_lines_after,
    repeats_lines_before,
    repeats_tail,
    without_head,
    without_opening_quote,
)
from composer_lsp.completion.parsing import ParsedWith
from composer_lsp.completion.prompt import with_newlines
from composer_lsp.completion.surroundings import Surroundings
from composer_lsp.completion.templates import ALL_SENTINELS

FinishReason = Literal["stop", "length"]

_CLOSING_TEXT = re.compile(r"(?:[\s)\]}>'\"`;:,]|</[\w.:-]*>)*")
"""What may follow the cursor on its line and still leave room for several lines before it."""
_FENCE = re.compile(r"(?m)^[ \t]*(?:```|~~~)")
_LEADING_BLANK_LINES = re.compile(r"\A(?:[ \t]*\n)+")
_ANY_TAG = re.compile(r"</?[a-zA-Z]+>")
_HTML_TAG = re.compile(r"(?i)</?(?:pre|s)>")
_TAGS = dict.fromkeys(
    ("html", "markdown", "vue", "svelte", "javascriptreact", "typescriptreact", "php"), _HTML_TAG
) | {"xml": _ANY_TAG}
"""Sentinels that are an element's name as well, by language."""
_BY_DEPTH = frozenset({"python"})
"""Languages in which a line's depth says what it belongs to."""
_SAID_BELOW = "lines that stand below"
_PARTIAL_WORD = re.compile(r"\w+\Z")


@dataclass(frozen=True, slots=True)
class TrimStep:
    """One rule that changed an answer."""

    rule: str
    """Said of what went, as in "a sentinel"."""
    before: str
    after: str


class Trimmer:
    """One answer at one cursor."""

    def __init__(self, around: Surroundings, steps: list[TrimStep] | None = None) -> None:
        """`steps`: where `finish` appends what each rule did."""
        self._around = around
        self._steps = steps
        self._raw = ""
        self._sentinels = _sentinels_of(around)
        self._is_single_line = not _CLOSING_TEXT.fullmatch(around.tail)
        self._parsed = ParsedWith(around)
        self._closable = closable_at_cursor(around)
        self._may_fence = "```" not in around.before and "```" not in around.after

    @property
    def stop(self) -> tuple[str, ...]:
        """Texts at which the engine itself may stop."""
        return ("\n",) if self._is_single_line else ()

    @property
    def raw(self) -> str:
        """All that was fed."""
        return self._raw

    def feed(self, chunk: str) -> bool:
        """Take more of the answer; True when what follows would be cut anyway."""
        if not self._raw:
            # While the engine goes on: nothing of it is left to be done when it has ended.
            self._parsed.num_errors("")
        self._raw += chunk
        if may_become_head(self._raw, self._around):
            return False
        answer = self._prepared()
        return _first(self._ends(answer, is_complete=False)) is not None

    def finish(self, reason: FinishReason = "stop") -> str | None:
        """The text to insert, None when nothing worth it is left. `reason` says whether the model
        stopped by itself; a stream that `feed` ended counts as stopped."""
        around = self._around
        prepared = answer = self._prepared(steps=self._steps)
        cut = _first(self._ends(answer, is_complete=reason == "stop"))
        if cut is not None:
            end, rule = cut
            answer = self._stepped(rule, answer, answer[:end])
        elif reason == "length":
            answer = self._stepped("broken off by the limit", answer, _without_partial(answer))
        is_closed = prepared[len(answer) :][:1] == around.tail[:1]
        answer = self._without_overlap(answer)
        parsed = self._parsed.longest_as_good(answer)
        answer = self._stepped("parses worse than without it", answer, parsed)
        answer = self._stepped("white space", answer, self._stripped(answer, is_closed=is_closed))
        return answer.replace("\n", around.line_ending) if answer.strip() else None

    def _prepared(self, *, steps: list[TrimStep] | None = None) -> str:
        around = self._around
        answer = with_newlines(self._raw)
        if around.is_line_blank_before_cursor:
            # The cursor stands on the empty line that the answer begins with.
            with_blank, answer = answer, _LEADING_BLANK_LINES.sub("", answer)
            _note(steps, "blank lines first", with_blank, answer)
        with_head, answer = answer, without_head(answer, around.head)
        _note(steps, "the cursor's line said again", with_head, answer)
        quoted, answer = answer, without_opening_quote(answer, around)
        _note(steps, "the opening quote said again", quoted, answer)
        indented = adopt_indent(answer, around.head, around.lines_before, around.indent)
        _note(steps, "other indentation than the file's", answer, indented)
        return indented

    def _stepped(self, rule: str, before: str, after: str) -> str:
        _note(self._steps, rule, before, after)
        return after

    def _ends(self, answer: str, *, is_complete: bool) -> Iterator[tuple[int, str]]:
        """Offsets from which on the answer is of no use, and why. While it streams, a rule about lines
        sees only those that have ended."""
        yield from self._ends_by_text(answer, is_complete=is_complete)
        settled = answer if is_complete else answer[: answer.rfind("\n") + 1]
        yield from self._ends_by_lines(settled, is_complete=is_complete)

    def _ends_by_text(self, answer: str, *, is_complete: bool) -> Iterator[tuple[int, str]]:
        around = self._around
        for sentinel in self._sentinels:
            if (found := answer.find(sentinel)) >= 0:
                # One bracket is too many where a piece ended before the other.
                is_bracketed = answer[found - 1 : found] == "<" and sentinel[0] != "<"
                yield found - is_bracketed, "a model's mark"
        if self._may_fence and (fence := _FENCE.search(answer)):
            yield fence.start(), "a code fence"
        if self._is_single_line and "\n" in answer:
            yield answer.index("\n"), "more lines, in the middle of one"
        closer = surplus_closer(
            answer, self._closable, around.language_at_cursor, is_complete=is_complete
        )
        for end, rule in (
            (closer, "a bracket that is closed already"),
            (surplus_quote(answer, around), "a quote that is closed already"),
            (repeats_tail(answer, around), "the rest of the line said again"),
            (repeats_itself(answer), "a loop"),
        ):
            if end is not None:
                yield end, rule

    def _ends_by_lines(self, answer: str, *, is_complete: bool) -> Iterator[tuple[int, str]]:
        around = self._around
        lines = answer.removesuffix("\n").split("\n")
        if not answer:
            return
        if (end := ends_with_line_after(lines[0], around)) is not None:
            yield end, _SAID_BELOW
        completed = [around.head + lines[0], *lines[1:]]
        below = around.line_below
        above_body = end_above_body(completed, below, indent=around.indent) if below else None
        for num_lines, rule in (
            (above_body, "the body that stands below"),
            (repeats_lines_after(completed, around), _SAID_BELOW),
            (repeats_lines_before(completed, around), "lines that stand above"),
            (self._block_end(lines, completed, is_complete=is_complete), "behind the block's end"),
        ):
            if num_lines is not None:
                yield len("\n".join(lines[:num_lines])), rule

    def _block_end(
        self, lines: list[str], completed: list[str], *, is_complete: bool
    ) -> int | None:
        """How many lines make the block, and where the text below lacks its beginning as many more as
        bring that."""
        around = self._around
        num_lines = block_end(
            completed,
            num_head_chars=len(around.head),
            above=around.lines_before,
            below=around.lines_after[0] if around.lines_after else "",
            indent=around.indent,
        )
        if num_lines is None or not self._is_wanted_below:
            return num_lines
        for num_more in range(num_lines, len(lines) + 1):
            last = completed[num_more - 1]
            has_body = is_above_body(last, around.line_below, around.indent)
            if has_body and self._is_found_below("\n".join(lines[:num_more]), last):
                return num_more
        return num_lines if is_complete else None

    @cached_property
    def _is_wanted_below(self) -> bool:
        around = self._around
        above = around.lines_before[-1] if around.lines_before else ""
        return (
            bool(around.line_below)
            and lacks_beginning(around.line_below, above, around.indent)
            and (bool(self._parsed.num_errors("")) or self._is_astray_below)
        )

    @cached_property
    def _is_astray_below(self) -> bool:
        """Whether the line below is too deep where depth is syntax, of which the grammar knows nothing."""
        around = self._around
        above = around.lines_before[-1] if around.lines_before else ""
        is_syntax = around.language_at_cursor in _BY_DEPTH and not self._closable.openers
        return is_syntax and not may_follow(around.line_below, above, around.indent)

    def _is_found_below(self, answer: str, last: str) -> bool:
        """`last`: its last line, completed."""
        around = self._around
        if self._is_astray_below:
            return bool(last.strip()) and may_follow(around.line_below, last, around.indent)
        found, without = self._parsed.num_errors(answer), self._parsed.num_errors("")
        return found is None or without is None or found < without

    def _without_overlap(self, answer: str) -> str:
        end = overlap_with_tail(answer, self._around)
        if end is not None:
            answer = self._stepped("the line's rest begun again", answer, answer[:end])
        lines = answer.rstrip().split("\n")
        num_lines = partly_repeats_line_after(lines, self._around)
        if num_lines is None:
            return answer
        return self._stepped("a line below begun again", answer, "\n".join(lines[:num_lines]))

    def _stripped(self, answer: str, *, is_closed: bool) -> str:
        """The answer without the blanks at its end, but those before what follows the cursor.
        `is_closed`: the answer had that as well."""
        kept, tail = answer.rstrip(), self._around.tail
        if not kept or not tail.strip():
            return kept
        is_bracket = tail[0] in ")]}"
        closing_line = re.search(r"\n[ \t]*\Z", answer)
        is_own_line = is_closed or "\n" in kept
        if closing_line and is_own_line and (is_bracket or tail.startswith("</")):
            # What follows the cursor stood on a line of its own in the answer.
            return kept + closing_line.group()
        is_spaced = not is_bracket or answer[:1].isspace() or self._around.head[-1:].isspace()
        return kept + " " * (is_spaced and tail[0] != " " and answer[len(kept) :].startswith(" "))


def _sentinels_of(around: Surroundings) -> tuple[str, ...]:
    """Sentinels that are not simply part of this document's own text."""
    tag = _TAGS.get(around.language_id)
    return tuple(
        sentinel
        for sentinel in ALL_SENTINELS
        if sentinel not in around.before
        and sentinel not in around.after
        and not (tag and tag.fullmatch(sentinel))
    )


def _first(ends: Iterator[tuple[int, str]]) -> tuple[int, str] | None:
    return min(ends, key=itemgetter(0), default=None)


def _note(steps: list[TrimStep] | None, rule: str, before: str, after: str) -> None:
    if steps is not None and before != after:
        steps.append(TrimStep(rule, before, after))


def _without_partial(answer: str) -> str:
    """An answer cut by the token limit, without the line or word that it broke off in."""
    lines, newline, last = answer.rpartition("\n")
    if newline and lines.strip():
        return lines
    whole = _PARTIAL_WORD.sub("", last)
    return answer if not whole.strip() else lines + newline + whole

"""Trimming: what of a model's answer is worth inserting, decided while it streams in.

Every rule looks at the answer beside the text around the cursor and names the place where the
answer stops being useful; the earliest place wins.
"""

import re
from collections.abc import Iterator
from functools import cached_property
from typing import Literal

from composer_lsp.completion.blocks import block_end, end_above_body, is_above_body, lacks_beginning
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
_TAG = re.compile(r"</?[a-zA-Z]+>")
_TAG_LANGUAGES = frozenset(
    {"html", "xml", "markdown", "vue", "svelte", "javascriptreact", "typescriptreact", "php"}
)
_PARTIAL_WORD = re.compile(r"\w+\Z")


class Trimmer:
    """One answer at one cursor."""

    def __init__(self, around: Surroundings) -> None:
        self._around = around
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

    def feed(self, chunk: str) -> bool:
        """Take more of the answer; True when what follows would be cut anyway."""
        self._raw += chunk
        if may_become_head(self._raw, self._around.head):
            return False
        answer = self._prepared()
        return min(self._ends(answer, is_complete=False), default=None) is not None

    def finish(self, reason: FinishReason = "stop") -> str | None:
        """The text to insert, None when nothing worth it is left. `reason` says whether the model
        stopped by itself; a stream that `feed` ended counts as stopped."""
        answer = self._prepared()
        end = min(self._ends(answer, is_complete=reason == "stop"), default=None)
        if end is not None:
            answer = answer[:end]
        elif reason == "length":
            answer = _without_partial(answer)
        answer = self._without_overlap(answer)
        answer = self._stripped(self._parsed.longest_as_good(answer))
        if not answer.strip():
            return None
        return answer.replace("\n", self._around.line_ending)

    def _prepared(self) -> str:
        answer = with_newlines(self._raw)
        around = self._around
        if around.is_line_blank_before_cursor:
            # The cursor stands on the empty line that the answer begins with.
            answer = _LEADING_BLANK_LINES.sub("", answer)
        answer = without_head(answer, around.head)
        return adopt_indent(answer, around.head, around.lines_before, around.indent)

    def _ends(self, answer: str, *, is_complete: bool) -> Iterator[int]:
        """Offsets from which on the answer is of no use. While it streams, a rule about lines sees
        only those that have ended."""
        yield from self._ends_by_text(answer, is_complete=is_complete)
        settled = answer if is_complete else answer[: answer.rfind("\n") + 1]
        yield from self._ends_by_lines(settled, is_complete=is_complete)

    def _ends_by_text(self, answer: str, *, is_complete: bool) -> Iterator[int]:
        around = self._around
        for sentinel in self._sentinels:
            if (found := answer.find(sentinel)) >= 0:
                yield found
        if self._may_fence and (fence := _FENCE.search(answer)):
            yield fence.start()
        if self._is_single_line and "\n" in answer:
            yield answer.index("\n")
        for end in (
            surplus_closer(
                answer, self._closable, around.language_at_cursor, is_complete=is_complete
            ),
            surplus_quote(answer, around),
            repeats_tail(answer, around),
            repeats_itself(answer),
        ):
            if end is not None:
                yield end

    def _ends_by_lines(self, answer: str, *, is_complete: bool) -> Iterator[int]:
        around = self._around
        lines = answer.removesuffix("\n").split("\n")
        if not answer:
            return
        if (end := ends_with_line_after(lines[0], around)) is not None:
            yield end
        completed = [around.head + lines[0], *lines[1:]]
        below = around.line_below
        for num_lines in (
            end_above_body(completed, below, indent=around.indent) if below else None,
            repeats_lines_after(completed, around),
            repeats_lines_before(completed, around),
            self._block_end(lines, completed, is_complete=is_complete),
        ):
            if num_lines is not None:
                yield len("\n".join(lines[:num_lines]))

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
            has_body = is_above_body(completed[num_more - 1], around.line_below, around.indent)
            if has_body and self._is_found_below("\n".join(lines[:num_more])):
                return num_more
        return num_lines if is_complete else None

    @cached_property
    def _is_wanted_below(self) -> bool:
        around = self._around
        above = around.lines_before[-1] if around.lines_before else ""
        return (
            bool(around.line_below)
            and lacks_beginning(around.line_below, above, around.indent)
            and bool(self._parsed.num_errors(""))
        )

    def _is_found_below(self, answer: str) -> bool:
        found, without = self._parsed.num_errors(answer), self._parsed.num_errors("")
        return found is None or without is None or found < without

    def _without_overlap(self, answer: str) -> str:
        end = overlap_with_tail(answer, self._around)
        if end is not None:
            answer = answer[:end]
        lines = answer.rstrip().split("\n")
        num_lines = partly_repeats_line_after(lines, self._around)
        return answer if num_lines is None else "\n".join(lines[:num_lines])

    def _stripped(self, answer: str) -> str:
        kept = answer.rstrip()
        closing_line = re.search(r"\n[ \t]*\Z", answer)
        if closing_line and kept and self._around.tail[:1] in {")", "]", "}"}:
            # The bracket after the cursor stood on a line of its own in the answer.
            return kept + closing_line.group()
        tail = self._around.tail
        if tail.strip() and not tail.startswith(" ") and kept:
            return kept + (" " if answer[len(kept) :].startswith(" ") else "")
        return kept


def _sentinels_of(around: Surroundings) -> tuple[str, ...]:
    """Sentinels that are not simply part of this document's own text."""
    has_tags = around.language_id in _TAG_LANGUAGES
    return tuple(
        sentinel
        for sentinel in ALL_SENTINELS
        if sentinel not in around.before
        and sentinel not in around.after
        and not (has_tags and _TAG.fullmatch(sentinel))
    )


def _without_partial(answer: str) -> str:
    """An answer cut by the token limit, without the line or word that it broke off in."""
    lines, newline, last = answer.rpartition("\n")
    if newline and lines.strip():
        return lines
    whole = _PARTIAL_WORD.sub("", last)
    return answer if not whole.strip() else lines + newline + whole

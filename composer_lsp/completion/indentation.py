"""Indentation: the file's habit, and a model's answer brought into line with it."""

import re
from dataclasses import dataclass
from functools import reduce
from itertools import pairwise
from math import gcd

_DEFAULT_SPACES = 4
_TAB_LANGUAGES = frozenset({"go", "makefile"})
_OPENS_BLOCK = re.compile(
    r"""(?x)
    [:{(\[]\s*$
    | \b(?:then|do|else|begin|repeat)\s*$
    | \bfunction\b.*\)\s*$
    | (?:^|[\s>])<(?!(?:area|base|br|col|embed|hr|img|input|link|meta|source|track|wbr)\b)
      [a-zA-Z][\w:.-]*(?:\s[^<>]*)?(?<!/)>\s*$  # an element that may hold others
    """
)


@dataclass(frozen=True, slots=True)
class IndentStyle:
    uses_tabs: bool
    num_spaces: int
    """Spaces of one level; also a tab's width when indentation is compared."""

    def columns(self, line: str) -> int:
        """Width of the line's leading white space."""
        return sum(self.num_spaces if char == "\t" else 1 for char in leading(line))

    def levels(self, num_columns: int) -> str:
        """White space of that width in this style; what is no whole level stays spaces."""
        if not self.uses_tabs:
            return " " * num_columns
        tabs, spaces = divmod(num_columns, self.num_spaces)
        return "\t" * tabs + " " * spaces


def leading(line: str) -> str:
    """The line's leading blanks and tabs."""
    return line[: len(line) - len(line.lstrip(" \t"))]


def opens_block(line: str) -> bool:
    """Whether the next line is expected one level deeper."""
    return _OPENS_BLOCK.search(line) is not None


def detect_indent(text: str, language_id: str, num_indent_spaces: int | None) -> IndentStyle:
    """The style of the text; the editor's width, when it sends one, goes before the guess."""
    lines = text.splitlines()
    indents = [leading(line) for line in lines if line.strip()]
    if not any(indents):  # Of a new file, the cursor's own blank line tells.
        indents = [leading(line) for line in lines]
    num_tabs = sum(indent.startswith("\t") for indent in indents)
    num_spaces = sum(indent.startswith("  ") for indent in indents)
    uses_tabs = num_tabs > num_spaces or (
        num_tabs == num_spaces == 0 and language_id in _TAB_LANGUAGES
    )
    return IndentStyle(uses_tabs, num_indent_spaces or _guess_width(indents))


def _guess_width(indents: list[str]) -> int:
    widths = [len(indent) for indent in indents if "\t" not in indent]
    steps = [after - before for before, after in pairwise(widths) if 2 <= after - before <= 8]
    return min(set(steps), key=lambda step: (-steps.count(step), step), default=_DEFAULT_SPACES)


def adopt_indent(text: str, head: str, lines_before: tuple[str, ...], style: IndentStyle) -> str:
    """A model's answer with the file's indentation. `head` is the cursor's line before it.

    The answer's first line continues `head`; each other line keeps its depth.
    """
    lines = text.split("\n")
    is_line_start = not head.strip()
    lines = _in_style(lines, style, from_line=0 if is_line_start else 1)
    if is_line_start and lines[0].strip():
        lines[0] = _continue_indent(lines[0], head, lines_before, style)
        lines = _shift_zero_based(lines, head, style)
    return "\n".join(lines)


def _in_style(lines: list[str], style: IndentStyle, *, from_line: int) -> list[str]:
    unit = _answer_unit(lines[from_line:], style)

    def convert(line: str) -> str:
        blanks = leading(line)
        if style.uses_tabs == ("\t" in blanks) and not (style.uses_tabs and " " in blanks):
            return line
        tabs, spaces = blanks.count("\t"), blanks.count(" ")
        if style.uses_tabs:
            return "\t" * (tabs + spaces // unit) + " " * (spaces % unit) + line[len(blanks) :]
        return " " * (tabs * style.num_spaces + spaces) + line[len(blanks) :]

    return [*lines[:from_line], *(convert(line) for line in lines[from_line:])]


def _answer_unit(lines: list[str], style: IndentStyle) -> int:
    widths = [leading(line).count(" ") for line in lines if line.strip()]
    common = reduce(gcd, widths, 0)
    if common in (2, 3, 4):
        return common
    return style.num_spaces if common % style.num_spaces == 0 else _DEFAULT_SPACES


def _continue_indent(
    line: str, head: str, lines_before: tuple[str, ...], style: IndentStyle
) -> str:
    """The first line without the indentation that stands before the cursor already."""
    if not head:
        return line
    expected = _expected_columns(lines_before, style)
    missing = max(0, expected - style.columns(head))
    return style.levels(min(missing, style.columns(line))) + line.lstrip(" \t")


def _expected_columns(lines_before: tuple[str, ...], style: IndentStyle) -> int:
    if not lines_before:
        return 0
    above = lines_before[-1]
    return style.columns(above) + (style.num_spaces if opens_block(above) else 0)


def _shift_zero_based(lines: list[str], head: str, style: IndentStyle) -> list[str]:
    """Lines counted from column zero, though the block starts at the cursor's column, are moved."""
    base = style.columns(head) + style.columns(lines[0])
    deeper = next((line for line in lines[1:] if line.strip()), None)
    if base == 0 or deeper is None or not opens_block(lines[0]):
        return lines
    if not 0 < style.columns(deeper) <= base:
        return lines
    return [
        lines[0],
        *(style.levels(base) + line if line.strip() else line for line in lines[1:]),
    ]

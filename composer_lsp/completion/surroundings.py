"""What stands around the cursor, as trimming looks at it: lines with `\\n` endings."""

from dataclasses import dataclass
from functools import cached_property

from composer_lsp.completion.indentation import IndentStyle, detect_indent
from composer_lsp.completion.literals import language_at
from composer_lsp.completion.prompt import with_newlines

NEAR_CHARS = 4000
"""Text on each side that trimming compares with; a longer look changes nothing and costs time."""


@dataclass(frozen=True)
class Surroundings:
    before: str
    """Up to 4,000 characters before the cursor."""
    after: str
    """Up to 4,000 characters after it."""
    language_id: str
    indent: IndentStyle
    line_ending: str

    @classmethod
    def of(
        cls, text: str, offset: int, *, language_id: str, num_indent_spaces: int | None
    ) -> "Surroundings":
        near = text[max(0, offset - NEAR_CHARS) : offset + NEAR_CHARS]
        return cls(
            before=with_newlines(text[max(0, offset - NEAR_CHARS) : offset]),
            after=with_newlines(text[offset : offset + NEAR_CHARS]),
            language_id=language_id,
            indent=detect_indent(near, language_id, num_indent_spaces),
            line_ending=_line_ending(text, offset),
        )

    @cached_property
    def head(self) -> str:
        """The cursor's line before the cursor."""
        return self.before.rpartition("\n")[2]

    @cached_property
    def tail(self) -> str:
        """The cursor's line after the cursor."""
        return self.after.partition("\n")[0]

    @cached_property
    def language_at_cursor(self) -> str:
        """Prose inside a line's comment, else the document's language."""
        return language_at(self.head, self.language_id)

    @cached_property
    def line_below(self) -> str:
        """The line below the cursor's; empty where that is blank, or something follows the cursor on
        its own line."""
        below = self.after.partition("\n")[2].partition("\n")[0]
        return below if below.strip() and not self.tail.strip() else ""

    @cached_property
    def lines_before(self) -> tuple[str, ...]:
        """Non-blank lines above the cursor's, nearest last."""
        return _non_blank(self.before.rpartition("\n")[0])

    @cached_property
    def lines_after(self) -> tuple[str, ...]:
        """Non-blank lines below the cursor's, nearest first."""
        return _non_blank(self.after.partition("\n")[2])

    @property
    def is_line_blank_before_cursor(self) -> bool:
        return not self.head.strip()


def _non_blank(text: str) -> tuple[str, ...]:
    return tuple(line for line in text.split("\n") if line.strip())


def _line_ending(text: str, offset: int) -> str:
    """The ending of the line above the cursor, else of the cursor's own line; the file's own
    habit near the cursor is what an insertion must follow where endings are mixed."""
    end = text.rfind("\n", 0, offset)
    if end < 0:
        end = text.find("\n", offset)
    if end < 0:
        return "\r" if "\r" in text else "\n"
    return "\r\n" if end > 0 and text[end - 1] == "\r" else "\n"

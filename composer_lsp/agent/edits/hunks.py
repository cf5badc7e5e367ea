"""The difference of two texts as hunks of whole lines, each of which can be taken or left."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from composer_lsp.agent.edits.lines import split_lines
from composer_lsp.agent.edits.matching import gaps


@dataclass(frozen=True, kw_only=True, slots=True)
class Hunk:
    """Replace the lines `start` to `end` (0-based, exclusive) by others; one side may be empty."""

    start: int
    end: int
    old: tuple[str, ...]
    """With their ends, as `split_lines` gives them."""
    new: tuple[str, ...]

    @property
    def offset(self) -> int:
        """By how many lines it moves what follows."""
        return len(self.new) - len(self.old)


def find_hunks(old: str, new: str) -> list[Hunk]:
    """In the order of their lines; never adjacent to each other."""
    old_lines, new_lines = split_lines(old), split_lines(new)
    return [
        Hunk(start=i1, end=i2, old=tuple(old_lines[i1:i2]), new=tuple(new_lines[j1:j2]))
        for i1, i2, j1, j2 in gaps(old_lines, new_lines)
    ]


def apply_hunks(old: str, hunks: Sequence[Hunk]) -> str:
    """`hunks` are of `old`, in order."""
    lines = split_lines(old)
    for hunk in reversed(hunks):
        assert tuple(lines[hunk.start : hunk.end]) == hunk.old, "a hunk of another text"
        lines[hunk.start : hunk.end] = hunk.new
    return "".join(lines)


def without_hunks(old: str, new: str, rejected: Collection[int]) -> str:
    """`new` with some of `find_hunks(old, new)`, by their number, undone."""
    kept = [hunk for number, hunk in enumerate(find_hunks(old, new)) if number not in rejected]
    return apply_hunks(old, kept)

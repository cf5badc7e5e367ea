"""The difference of two texts as hunks of whole lines, each of which can be taken or left."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

from composer_lsp.agent.edits.lines import split_lines


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
    # autojunk would take every frequent line of a long file for noise.
    matcher = SequenceMatcher(None, old_lines, new_lines, autojunk=False)
    return [
        Hunk(start=i1, end=i2, old=tuple(old_lines[i1:i2]), new=tuple(new_lines[j1:j2]))
        for tag, i1, i2, j1, j2 in _trimmed(matcher, old_lines, new_lines)
        if tag != "equal"
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


_Opcode = tuple[str, int, int, int, int]


def _trimmed(
    matcher: "SequenceMatcher[str]", old: Sequence[str], new: Sequence[str]
) -> list[_Opcode]:
    """What both begin and end with, which SequenceMatcher may cut in two, is left out first."""
    head = 0
    while head < min(len(old), len(new)) and old[head] == new[head]:
        head += 1
    tail = 0
    while tail < min(len(old), len(new)) - head and old[-1 - tail] == new[-1 - tail]:
        tail += 1
    matcher.set_seqs(old[head : len(old) - tail], new[head : len(new) - tail])
    return [
        (tag, i1 + head, i2 + head, j1 + head, j2 + head)
        for tag, i1, i2, j1, j2 in matcher.get_opcodes()
    ]

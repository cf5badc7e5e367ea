"""A change made to one text, carried over to what the text has become meanwhile."""

from collections.abc import Iterator, Sequence

from composer_lsp.agent.edits.hunks import Hunk, apply_hunks, find_hunks


class AnchorError(Exception):
    """Somebody else has changed the same lines; the text names them."""


def carry_over(before: str, after: str, now: str) -> str:
    """The change from `before` to `after`, made to `now`: a merge of both changes, line by line.

    Raises: AnchorError where both changed the same lines, or put lines at the same place.
    """
    hunks = find_hunks(before, after)
    moved: list[Hunk] = []
    for hunk, place in zip(hunks, places(hunks, find_hunks(before, now)), strict=True):
        if place is None:
            raise AnchorError(
                f"lines {hunk.start + 1} to {max(hunk.end, hunk.start + 1)} changed meanwhile"
            )
        moved.append(Hunk(start=place[0], end=place[1], old=hunk.old, new=hunk.new))
    return apply_hunks(now, moved)


def places(hunks: Sequence[Hunk], theirs: Sequence[Hunk]) -> Iterator[tuple[int, int] | None]:
    """The lines (0-based, exclusive) that each hunk replaces in a text which the hunks `theirs` have
    changed; None for one that collides with theirs. Both are of one text, in order."""
    passed, offset = 0, 0
    for hunk in hunks:
        while passed < len(theirs) and theirs[passed].end < hunk.start:
            offset += theirs[passed].offset
            passed += 1
        near = list(_up_to(hunk.end, theirs, passed))
        if any(_collide(hunk, other) for other in near):
            yield None
            continue
        above = sum(other.offset for other in near if other.end <= hunk.start)
        yield hunk.start + offset + above, hunk.end + offset + above


def _up_to(line: int, theirs: Sequence[Hunk], first: int) -> Iterator[Hunk]:
    for number in range(first, len(theirs)):
        if theirs[number].start > line:
            return
        yield theirs[number]


def _collide(one: Hunk, other: Hunk) -> bool:
    if one.start == one.end or other.start == other.end:
        # Which of two comes first where one is put in beside the other is not known.
        return one.start <= other.end and other.start <= one.end
    return one.start < other.end and other.start < one.end

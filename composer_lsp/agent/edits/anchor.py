"""A change made to one text, carried over to what the text has become meanwhile."""

from composer_lsp.agent.edits.hunks import Hunk, apply_hunks, find_hunks


class AnchorError(Exception):
    """Somebody else has changed the same lines; the text names them."""


def carry_over(before: str, after: str, now: str) -> str:
    """The change from `before` to `after`, made to `now`: a merge of both changes, line by line.

    Raises: AnchorError where both changed the same lines, or put lines at the same place.
    """
    theirs = find_hunks(before, now)
    moved: list[Hunk] = []
    for hunk in find_hunks(before, after):
        if any(_collide(hunk, other) for other in theirs):
            raise AnchorError(
                f"lines {hunk.start + 1} to {max(hunk.end, hunk.start + 1)} changed meanwhile"
            )
        offset = sum(other.offset for other in theirs if other.end <= hunk.start)
        moved.append(
            Hunk(start=hunk.start + offset, end=hunk.end + offset, old=hunk.old, new=hunk.new)
        )
    return apply_hunks(now, moved)


def _collide(one: Hunk, other: Hunk) -> bool:
    if one.start == one.end or other.start == other.end:
        # Which of two comes first where one is put in beside the other is not known.
        return one.start <= other.end and other.start <= one.end
    return one.start < other.end and other.start < one.end

"""Where a run's pending hunks are in a document as it is now."""

import hashlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from composer_lsp.agent.edits.anchor import places
from composer_lsp.agent.edits.change_set import FileChange
from composer_lsp.agent.edits.hunks import Hunk, find_hunks


@dataclass(frozen=True, kw_only=True, slots=True)
class PendingHunk:
    run: str
    path: str
    """Of the change, as the run names it."""
    id: str
    """See `hunk_ids`."""
    start_line: int
    """0-based, in the document of now."""
    end_line: int
    """Exclusive."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PendingFile:
    """A change of a document that is open."""

    run: str
    path: str
    num_hunks: int
    hunks: Sequence[PendingHunk]
    """Those that have a place in the document of now."""


def hunk_ids(hunks: Sequence[Hunk]) -> list[str]:
    """A name for each hunk that stays the same while others are taken or left; numbers do not."""
    seen: Counter[str] = Counter()
    ids: list[str] = []
    for hunk in hunks:
        text = "".join(hunk.old) + "\0" + "".join(hunk.new)
        digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:12]
        ids.append(f"{digest}.{seen[digest]}")
        seen[digest] += 1
    return ids


def pending_file(run: str, change: FileChange, now: str) -> PendingFile:
    """`now`: the document's text. Milliseconds for a large one: its lines are compared, unless they
    are what they were."""
    hunks = _hunks(change.before_text, change.after or "")
    placed = [
        PendingHunk(run=run, path=change.path, id=id, start_line=place[0], end_line=place[1])
        for id, place in zip(hunk_ids(hunks), _places(change, hunks, now), strict=True)
        if place is not None
    ]
    return PendingFile(run=run, path=change.path, num_hunks=len(hunks), hunks=placed)


def _places(
    change: FileChange, hunks: Sequence[Hunk], now: str
) -> Sequence[tuple[int, int] | None]:
    if change.before is None or change.after is None:
        return [None] * len(hunks)
    before = change.before.text
    theirs = () if now == before else find_hunks(before, now)
    return list(places(hunks, theirs))


@lru_cache(maxsize=8)
def _hunks(before: str, after: str) -> Sequence[Hunk]:
    """The same at every key that is typed into the document."""
    return tuple(find_hunks(before, after))

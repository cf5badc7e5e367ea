"""What there is of a folder's index, for whoever does not want to open it: nothing is made, locked or
mended, whoever else is at work on it."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from filelock import FileLock, Timeout

from composer_index.indexing.planned import read_planned
from composer_index.store.location import store_location


@dataclass(frozen=True, kw_only=True, slots=True)
class Glance:
    root: str
    """Without symbolic links."""
    location: str
    state: Literal["unbuilt", "outdated", "unfinished", "complete"]
    """`outdated`: broken, or of another version of Composer; whoever opens it next builds it anew. `complete`
    when the files were looked at last: whoever opens it next looks for changes since."""
    has_writer: bool
    """A process keeps it current, or builds it."""
    changed_at: float | None = None
    """When something was stored last, in seconds since the epoch."""
    disk_bytes: int = 0
    num_files: int = 0
    num_chunks: int = 0
    num_left: int = 0
    """Files that had to be indexed when they were looked at last, 0 once all of them were."""
    embedder: str = ""
    """The name of the one whose vectors answer; empty before the first vectors."""
    model: str = ""
    """The embedding model that was to be used when the index was kept last; empty: none."""
    num_unembedded: int = 0
    """Files that waited for its vectors then."""
    skipped: Mapping[str, int] = field(default_factory=dict[str, int])
    """Files that are not indexed, by reason; folders that are hidden as a whole count once."""


def glance(root: Path, cache_dir: Path) -> Glance:
    """Slow: it imports lancedb."""
    from composer_index.store import schema
    from composer_index.store.store import Store

    root = root.resolve()
    location = store_location(cache_dir, root)
    seen = Glance(
        root=str(root), location=str(location), state="unbuilt", has_writer=_has_writer(location)
    )
    try:
        current = schema.read_current(location)
    except (OSError, ValueError):
        return replace(seen, state="outdated")
    if current is not None and current.version != schema.VERSION:
        return replace(seen, state="outdated")
    planned = read_planned(location)
    if current is None or planned is None:
        return seen
    counts = Store(location).counts()
    skipped = Counter(counts.num_skipped)
    skipped.update(planned.left_out)
    return replace(
        seen,
        state="unfinished" if planned.num_left else "complete",
        changed_at=_changed_at(location / current.database),
        disk_bytes=counts.disk_bytes,
        num_files=counts.num_files,
        num_chunks=counts.num_chunks,
        num_left=planned.num_left,
        embedder=current.embedder,
        model=planned.model,
        num_unembedded=planned.num_unembedded,
        skipped=dict(skipped),
    )


def _has_writer(location: Path) -> bool:
    path = location / "lock"
    if not path.exists():
        return False
    lock = FileLock(path)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        return True
    lock.release()
    return False


def _changed_at(folder: Path) -> float | None:
    times: list[float] = []
    for path in folder.rglob("*"):
        try:
            times.append(path.lstat().st_mtime)
        except OSError:  # compaction took it
            continue
    return max(times, default=None)

"""What watching a workspace tells: hints, never the truth."""

from dataclasses import dataclass, field


@dataclass(frozen=True, kw_only=True, slots=True)
class Batch:
    """Hints that came close together. Paths are relative to the root; hidden ones are among them."""

    paths: frozenset[str] = frozenset()
    """Files that were written, appeared or are gone."""
    folders: frozenset[str] = frozenset()
    """Folders that are gone, with all that they held."""
    is_overflow: bool = False
    """Anything may have changed: reconcile all. Hints were lost, an ignore file or git's HEAD or
    index changed, or not all can be watched and some time has gone by."""
    is_root_gone: bool = False
    """The root is deleted, renamed or unmounted. The last batch."""
    notice: str = ""
    """For the user: what is not watched, and the way out."""

    def merged(self, later: "Batch", *, max_num_paths: int) -> "Batch":
        """One batch for both. Beyond `max_num_paths` it asks for a reconcile in their place."""
        paths, folders = self.paths | later.paths, self.folders | later.folders
        is_overflow = self.is_overflow or later.is_overflow
        if is_overflow or len(paths) + len(folders) > max_num_paths:
            is_overflow, paths, folders = True, frozenset[str](), frozenset[str]()
        return Batch(
            paths=paths,
            folders=folders,
            is_overflow=is_overflow,
            is_root_gone=self.is_root_gone or later.is_root_gone,
            notice="\n".join(dict.fromkeys(text for text in (self.notice, later.notice) if text)),
        )


@dataclass(slots=True)
class Changes:
    """Gathers a batch."""

    max_num_paths: int
    paths: set[str] = field(default_factory=set[str])
    folders: set[str] = field(default_factory=set[str])
    is_overflow: bool = False
    is_root_gone: bool = False
    are_folders_stale: bool = False
    """Which folders are to be watched has to be found out anew."""
    notices: list[str] = field(default_factory=list[str])

    def batch(self) -> Batch | None:
        """None if there is nothing to tell."""
        batch = Batch(
            paths=frozenset(self.paths),
            folders=frozenset(self.folders),
            is_overflow=self.is_overflow,
            is_root_gone=self.is_root_gone,
            notice="\n".join(self.notices),
        ).merged(Batch(), max_num_paths=self.max_num_paths)
        return None if batch == Batch() else batch

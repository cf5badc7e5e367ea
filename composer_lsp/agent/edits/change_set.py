"""Changes to several files, staged over what the files were when they were read.

Nothing is written here. Paths are the workspace's (`Paths`), and what a file was is a snapshot: the
workspace that applies a change set compares it with what the file is by then.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from composer_lsp.agent.edits.hunks import Hunk, find_hunks, without_hunks
from composer_lsp.agent.edits.text_file import TextError, TextFile


class EditError(Exception):
    """A change cannot be staged; the text names the file and the way out. Nothing was changed."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Snapshot:
    """A file as it was when the run first saw it."""

    file: TextFile | None
    """None: there was none."""
    version: int | None = None
    """Of the open document that the text came from; None: it came from the disk."""
    mode: int | None = None
    """The file's permissions; None: there is no file on the disk."""
    link: str | None = None
    """What the link says, if the name is one: a change of it is of the link itself."""


@dataclass(frozen=True, kw_only=True, slots=True)
class FileChange:
    """One file, before and after. `before` or `after` None: it is created, or deleted."""

    path: str
    before: TextFile | None
    after: str | None
    version: int | None = None
    """As in `Snapshot`."""
    moved_from: str | None = None
    """The file's former path; `before` is its text."""
    like: TextFile | None = None
    """Whose encoding the file takes; None: that of `before`, or UTF-8."""
    mode: int | None = None
    """The file's permissions; None: the usual ones."""
    link: str | None = None
    """As in `Snapshot`: the link is deleted, moved, or replaced by a file."""
    makes_link: str | None = None
    """What the link says that the name is to be; `after` is the text of the file that it leads to."""

    @property
    def writes_in_place(self) -> bool:
        """A file that is there gets another text, and stays where it is."""
        return self.before is not None and self.after is not None and self.moved_from is None

    @property
    def replaces_whole(self) -> bool:
        """Nothing is left of what was there, so that it must be what `before` says."""
        return self.after is None or (self.makes_link is not None and self.moved_from is None)

    @property
    def before_text(self) -> str:
        return self.before.text if self.before else ""

    @property
    def hunks(self) -> list[Hunk]:
        """Of a deleted file: one that takes all of it."""
        return find_hunks(self.before_text, self.after or "")

    def data(self) -> bytes | None:
        """What the file's bytes are to be; None: it is deleted. Raises: TextError."""
        if self.after is None:
            return None
        return (self.like or self.before or TextFile(text="")).encode(self.after)


class ChangeSet:
    """The files that a run has changed so far. For one event loop."""

    def __init__(self) -> None:
        self._snapshots: dict[str, Snapshot] = {}
        self._texts: dict[str, str | None] = {}
        self._moved_from: dict[str, str] = {}
        self._like: dict[str, TextFile] = {}

    def __bool__(self) -> bool:
        return any(True for _ in self.changes())

    def text(self, path: str) -> str | None:
        """The staged text. Raises: KeyError if the file was not changed."""
        return self._texts[path]

    def __contains__(self, path: str) -> bool:
        return path in self._texts

    @property
    def paths(self) -> list[str]:
        """All that were staged, a moved file's former path included."""
        return list(self._texts)

    def write(self, path: str, snapshot: Snapshot, text: str | None) -> None:
        """Stage a file's new text; None deletes it. `snapshot` is what the file is outside of the
        run, and counts the first time only. Raises: EditError."""
        first = self._snapshots.get(path, snapshot)
        source = self._snapshots.get(self._moved_from.get(path, path), first)
        if text is not None and source.file is not None:
            if source.link is not None and path in self._moved_from:
                raise EditError(f"{path} is a link that was moved; change the file it leads to")
            try:
                source.file.encode(text)
            except TextError as error:
                raise EditError(f"{path} cannot hold this text: {error}") from error
        self._snapshots[path] = first
        self._texts[path] = text

    def move(self, path: str, snapshot: Snapshot, target: str, at_target: Snapshot) -> None:
        """Stage a file's new path. Raises: EditError if something is there."""
        current = self._texts[path] if path in self._texts else _text(snapshot)
        occupied = self._texts[target] if target in self._texts else _text(at_target)
        if current is None:
            raise EditError(f"{path} is not there, so it cannot be moved")
        if occupied is not None:
            raise EditError(f"{target} exists already; delete it first, or choose another path")
        origin = self._moved_from.pop(path, path)
        first = self._snapshots.get(origin, snapshot)
        self.write(path, snapshot, None)
        self._snapshots.setdefault(target, at_target)
        self._texts[target] = current
        if first.file is not None and origin != target:
            self._moved_from[target] = origin

    def changes(self) -> Iterator[FileChange]:
        """What is different from the snapshots, by path."""
        moves = {
            path: origin for path, origin in self._moved_from.items() if self._is_move(path, origin)
        }
        for path in sorted(self._texts):
            after, snapshot = self._texts[path], self._snapshots[path]
            origin = self._moved_from.get(path)
            source = snapshot if origin is None else self._snapshots[origin]
            if path in moves:
                yield FileChange(
                    path=path,
                    before=source.file,
                    after=after,
                    version=source.version,
                    moved_from=origin,
                    mode=source.mode,
                    link=source.link,
                )
            elif after is None and path in moves.values():
                continue  # told by its new path
            elif after != _text(snapshot):
                yield FileChange(
                    path=path,
                    before=snapshot.file,
                    after=after,
                    version=snapshot.version,
                    like=self._like.get(path) if origin is None else source.file,
                    mode=source.mode,
                    link=snapshot.link,
                )

    def _is_move(self, path: str, origin: str) -> bool:
        """Whether a file came to a free place and its own is empty now. Else it is two changes: where
        another file was or is, a move alone would not tell what becomes of that one."""
        return (
            self._texts[path] is not None
            and self._texts.get(origin) is None
            and self._snapshots[path].file is None
        )

    def reject(self, path: str, hunks: frozenset[int] | None = None) -> None:
        """Take back some hunks of a file, by their number in `FileChange.hunks`, or (None) all that
        was done to it, a move included."""
        change = next((each for each in self.changes() if each.path == path), None)
        if change is None:
            return
        if hunks is None or change.before is None or change.after is None:
            self._forget(path, change)
            return
        self._texts[path] = without_hunks(change.before.text, change.after, hunks)

    def only(self, path: str, hunks: frozenset[int] | None = None) -> "ChangeSet":
        """A set of its own with one file's change, or some hunks of it."""
        chosen = ChangeSet()
        for change in self.changes():
            if change.path != path:
                continue
            after = change.after
            if hunks is not None and change.before is not None and after is not None:
                left = frozenset(range(len(change.hunks))) - hunks
                after = without_hunks(change.before.text, after, left)
            chosen.add(replace(change, after=after))
        return chosen

    def add(self, change: FileChange) -> None:
        """Take a change as another set had it. The file must not be in this set."""
        snapshot = Snapshot(
            file=change.before, version=change.version, mode=change.mode, link=change.link
        )
        if change.like is not None:
            self._like[change.path] = change.like
        if change.moved_from is None:
            self._snapshots[change.path] = snapshot
        else:
            self._snapshots[change.path] = Snapshot(file=None)
            self._snapshots[change.moved_from] = snapshot
            self._texts[change.moved_from] = None
            self._moved_from[change.path] = change.moved_from
        self._texts[change.path] = change.after

    def _forget(self, path: str, change: FileChange) -> None:
        for each in (path, change.moved_from):
            if each is not None:
                self._texts.pop(each, None)
                self._snapshots.pop(each, None)
                self._like.pop(each, None)
        self._moved_from.pop(path, None)


def _text(snapshot: Snapshot) -> str | None:
    return snapshot.file.text if snapshot.file else None

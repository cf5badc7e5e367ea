"""A folder, or several, on the disk: for the terminal, and for runs with no editor."""

import asyncio
import errno
import os
import tempfile
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from composer_index.files.read import ReadError, TooLargeError, read_file
from composer_lsp.agent.edits.anchor import AnchorError, carry_over
from composer_lsp.agent.edits.change_set import FileChange, Snapshot
from composer_lsp.agent.edits.text_file import TextError, TextFile
from composer_lsp.agent.workspace.entries import (
    Content,
    Link,
    link_at,
    missing_folders,
    mode_of,
    remove_folder,
    remove_folders,
    write,
)
from composer_lsp.agent.workspace.paths import Paths, Place
from composer_lsp.agent.workspace.workspace import (
    MAX_FILE_BYTES,
    ConflictError,
    Diagnostic,
    WorkspaceError,
)


class DirectoryWorkspace:
    """A `Workspace`."""

    def __init__(self, paths: Paths) -> None:
        self._paths = paths

    @property
    def paths(self) -> Paths:
        return self._paths

    async def read(self, place: Place) -> Snapshot:
        return await asyncio.to_thread(read_snapshot, place)

    async def files(self) -> Sequence[str]:
        return await asyncio.to_thread(self._paths.listed)

    async def unsaved(self) -> Mapping[str, str]:
        return {}

    async def diagnostics(self, path: str | None = None) -> Sequence[Diagnostic]:
        return ()

    async def apply(self, changes: Sequence[FileChange], *, label: str) -> None:
        """Cancelled: nothing was changed."""
        async with self.applied(changes):
            pass

    @asynccontextmanager
    async def applied(self, changes: Sequence[FileChange]) -> AsyncGenerator[None]:
        """The same, taken back if the block raises or is cancelled. Raises: as `apply`."""
        applying = asyncio.ensure_future(asyncio.to_thread(self._apply, changes))
        try:
            # A thread goes on when it is cancelled.
            await asyncio.shield(applying)
            yield
        except BaseException:
            await asyncio.to_thread(_restore, await applying)
            raise

    def _apply(self, changes: Sequence[FileChange]) -> "Sequence[_Former]":
        writes = planned(self._paths, changes)
        modes = {change.path: change.mode for change in changes}
        done: list[_Former] = []
        try:
            for place, content in _in_order(writes):
                if content is not None and _is_folder(place):
                    remove_folders(place)
                done.append(_Former.of(place))
                write(place, content, modes.get(place.path))
        except OSError as error:
            _restore(done)
            raise WorkspaceError(
                f"nothing was changed: {error.filename or 'a file'} cannot be written: "
                f"{error.strerror}"
            ) from error
        return done


@dataclass(frozen=True, slots=True)
class _Former:
    """What was at a place."""

    place: Place
    content: Content
    mode: int | None
    missing: Sequence[Place]
    """Folders that were not there."""

    @classmethod
    def of(cls, place: Place) -> "_Former":
        content = link_at(place) or _data(place)
        return cls(place, content, mode_of(place), missing_folders(place))

    def restore(self) -> None:
        """Raises: OSError."""
        write(self.place, self.content, self.mode)
        for folder in self.missing:
            remove_folder(folder)


def _restore(done: Sequence[_Former]) -> None:
    for former in reversed(done):
        with suppress(OSError):
            former.restore()


def _in_order(writes: Mapping[Place, Content]) -> list[tuple[Place, Content]]:
    """What must wait for a file to leave, as the folder or in the folder of its place, comes last."""
    leaving = {place.absolute for place, content in writes.items() if content is None}

    def rank(each: tuple[Place, Content]) -> int:
        place, content = each
        if content is None:
            return 1
        return 2 if _is_folder(place) or not leaving.isdisjoint(_folders_above(place)) else 0

    return sorted(writes.items(), key=rank)


def _is_folder(place: Place) -> bool:
    return link_at(place) is None and os.path.isdir(place.absolute)  # noqa: PTH112


def _folders_above(place: Place) -> set[str]:
    names = place.relative.split("/")[:-1]
    return {os.path.join(place.root, *names[: at + 1]) for at in range(len(names))}  # noqa: PTH118


def leaving(paths: Paths, changes: Sequence[FileChange]) -> frozenset[str]:
    """The absolute paths of the files that are taken away, deleted or moved."""
    gone = {
        each.moved_from or each.path for each in changes if each.moved_from or each.after is None
    }
    return frozenset(paths.locate(path).absolute for path in gone)


def trading_places(paths: Paths, changes: Sequence[FileChange]) -> frozenset[str]:
    """The paths of the changes that put a file in a folder's place, or a folder in a file's."""
    found: set[str] = set()
    taken = {each.path: paths.locate(each.path) for each in changes if each.after is not None}
    left = {
        each.path: paths.locate(each.moved_from or each.path)
        for each in changes
        if each.moved_from or each.after is None
    }
    for one, other in ((taken, left), (left, taken)):
        below: dict[str, list[str]] = {}
        for path, place in one.items():
            for folder in _folders_above(place):
                below.setdefault(folder, []).append(path)
        for path, place in other.items():
            if place.absolute in below:
                found.update([path, *below[place.absolute]])
    return frozenset(found)


def is_emptied(place: Place, leaving: frozenset[str]) -> bool:
    """Whether it is a folder, and all that is in it is taken away."""
    if not _is_folder(place):
        return False
    inside = [
        os.path.join(folder, name)  # noqa: PTH118
        for folder, folders, files in os.walk(place.absolute)
        for name in (*files, *folders)
        if name in files or os.path.islink(os.path.join(folder, name))  # noqa: PTH114, PTH118
    ]
    return bool(inside) and leaving.issuperset(inside)


def _data(place: Place) -> bytes | None:
    """Raises: OSError."""
    try:
        return read_bytes(place)
    except WorkspaceError as error:
        raise OSError(errno.EIO, str(error), place.absolute) from error


def read_snapshot(place: Place) -> Snapshot:
    """The disk's text. Raises: WorkspaceError."""
    data = read_bytes(place)
    if data is None:
        return Snapshot(file=None)
    link = link_at(place)
    try:
        return Snapshot(
            file=TextFile.decode(data), mode=mode_of(place), link=link.target if link else None
        )
    except TextError as error:
        raise WorkspaceError(f"{place.path} cannot be read: {error}") from error


def read_bytes(place: Place) -> bytes | None:
    """None if there is no file. Raises: WorkspaceError."""
    try:
        return read_file(place.root, place.relative, max_bytes=MAX_FILE_BYTES)
    except TooLargeError as error:
        raise WorkspaceError(
            f"{place.path} is larger than {MAX_FILE_BYTES:,} bytes; a command can show a part of it"
        ) from error
    except ReadError as error:
        if os.path.isdir(place.absolute):  # noqa: PTH112
            raise WorkspaceError(f"{place.path} is a folder; list_files lists it") from error
        if not os.path.lexists(place.absolute):
            return None
        raise WorkspaceError(f"{place.path} cannot be read: {error.__cause__ or error}") from error


def planned(paths: Paths, changes: Sequence[FileChange]) -> dict[Place, Content]:
    """What to write where, with each change carried over to what the file is now; None: delete.

    Raises: ConflictError.
    """
    writes: dict[Place, Content] = {}
    conflicts = refused(paths, changes)
    gone = leaving(paths, changes)
    for change in changes:
        place = paths.locate(change.path)
        source = paths.locate(change.moved_from) if change.moved_from else place
        try:
            is_free = is_emptied(place, gone)
            content: Content = (
                change.data() if is_free and source == place else _carried(change, source)
            )
            if source != place:
                if not is_free and read_bytes(place) is not None:
                    raise AnchorError("it exists by now")
                writes[source] = None
                content = _moved_link(source, place) or content
            if change.makes_link is not None and (source == place or isinstance(content, Link)):
                content = Link(change.makes_link)
            writes[place] = content
        except (AnchorError, TextError, WorkspaceError) as error:
            conflicts.setdefault(change.path, str(error))
    if conflicts:
        raise ConflictError(conflicts)
    return writes


def refused(paths: Paths, changes: Sequence[FileChange]) -> dict[str, str]:
    """By its path, why a file may not be written by now: a link can have taken the place of a folder
    since it was staged."""
    named = {
        path: paths.locate(path)
        for change in changes
        for path in (change.path, change.moved_from)
        if path is not None
    }
    reasons = paths.refused(named.values())
    return {path: reasons[place] for path, place in named.items() if place in reasons}


def _moved_link(source: Place, place: Place) -> Link | None:
    """The link at `source` as it leads to the same file from `place`; None if it is none."""
    link = link_at(source)
    if link is None or os.path.isabs(link.target):  # noqa: PTH117 - a link's own text
        return link
    leads_to = os.path.join(os.path.dirname(source.absolute), link.target)  # noqa: PTH118, PTH120
    return Link(os.path.relpath(leads_to, os.path.dirname(place.absolute)))  # noqa: PTH120


def _carried(change: FileChange, source: Place) -> bytes | None:
    snapshot = read_snapshot(source)
    now = snapshot.file
    if change.before is None:
        if now is not None:
            raise AnchorError("it exists by now")
        return change.data()
    if now is None:
        raise AnchorError("it is gone")
    if change.writes_in_place and snapshot.link != change.link:
        raise AnchorError("it is a link by now, or leads elsewhere")
    if change.replaces_whole and now.text != change.before.text:
        raise AnchorError("it changed meanwhile")
    if change.after is None:
        return None
    if now.text == change.before.text:
        return change.data()
    return now.encode(carry_over(change.before.text, change.after, now.text))


def write_whole(path: Path, data: bytes, mode: int) -> None:
    """A reader sees the old file or the whole new one. Raises: OSError."""
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=".composer-")
    temporary = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
        temporary.chmod(mode)
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise

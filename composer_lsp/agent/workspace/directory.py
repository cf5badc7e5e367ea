"""A folder, or several, on the disk: for the terminal, and for runs with no editor."""

import asyncio
import os
import stat
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from composer_index.files.read import ReadError, TooLargeError, read_file
from composer_lsp.agent.edits.anchor import AnchorError, carry_over
from composer_lsp.agent.edits.change_set import FileChange, Snapshot
from composer_lsp.agent.edits.text_file import TextError, TextFile
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
        await asyncio.to_thread(self._apply, changes)

    def _apply(self, changes: Sequence[FileChange]) -> None:
        writes = planned(self._paths, changes)
        modes = {change.path: change.mode for change in changes}
        done: list[tuple[Place, bytes | None, int]] = []
        try:
            for place, data in writes.items():
                done.append((place, *_state(place)))
                write(place, data, modes.get(place.path))
        except OSError as error:
            for place, former, mode in reversed(done):
                with suppress(OSError):
                    write(place, former, mode)
            raise WorkspaceError(
                f"nothing was changed: {error.filename or 'a file'} cannot be written: "
                f"{error.strerror}"
            ) from error


def read_snapshot(place: Place) -> Snapshot:
    """The disk's text. Raises: WorkspaceError."""
    data = read_bytes(place)
    if data is None:
        return Snapshot(file=None)
    try:
        return Snapshot(file=TextFile.decode(data), mode=_state(place)[1])
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


def planned(paths: Paths, changes: Sequence[FileChange]) -> dict[Place, bytes | None]:
    """What to write where, with each change carried over to what the file is now; None: delete.

    Raises: ConflictError.
    """
    writes: dict[Place, bytes | None] = {}
    conflicts: dict[str, str] = {}
    for change in changes:
        place = paths.locate(change.path)
        source = paths.locate(change.moved_from) if change.moved_from else place
        try:
            data = _carried(change, source)
            if source != place:
                if read_bytes(place) is not None:
                    raise AnchorError("it exists by now")
                writes[source] = None
            writes[place] = data
        except (AnchorError, TextError, WorkspaceError) as error:
            conflicts[change.path] = str(error)
    if conflicts:
        raise ConflictError(conflicts)
    return writes


def _carried(change: FileChange, source: Place) -> bytes | None:
    now = read_snapshot(source).file
    if change.before is None:
        if now is not None:
            raise AnchorError("it exists by now")
        return change.data()
    if now is None:
        raise AnchorError("it is gone")
    if change.after is None:
        if now.text != change.before.text:
            raise AnchorError("it changed meanwhile")
        return None
    if now.text == change.before.text:
        return change.data()
    return now.encode(carry_over(change.before.text, change.after, now.text))


def _state(place: Place) -> tuple[bytes | None, int]:
    try:
        return Path(place.absolute).read_bytes(), stat.S_IMODE(os.stat(place.absolute).st_mode)  # noqa: PTH116
    except FileNotFoundError:
        return None, 0


def write(place: Place, data: bytes | None, mode: int | None = None) -> None:
    """Replace a file as a whole, keeping its mode, and a link's target; None removes it. Raises:
    OSError."""
    target = Path(os.path.realpath(place.absolute))
    if data is None:
        target.unlink(missing_ok=True)
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    if mode is None:
        mode = stat.S_IMODE(target.stat().st_mode) if target.exists() else None
    write_whole(target, data, _default_mode() if mode is None else mode)


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


def _default_mode() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask

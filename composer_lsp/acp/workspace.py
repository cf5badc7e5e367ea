"""The client's folders: files as its buffers have them where it lets us read them, else the disk."""

import asyncio
from collections.abc import Coroutine, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

from composer_lsp.acp.paths import ClientPaths
from composer_lsp.agent.edits.anchor import AnchorError, carry_over
from composer_lsp.agent.edits.change_set import FileChange, Snapshot
from composer_lsp.agent.edits.replace import with_ends_of
from composer_lsp.agent.edits.text_file import TextError, TextFile
from composer_lsp.agent.workspace.directory import DirectoryWorkspace
from composer_lsp.agent.workspace.entries import write
from composer_lsp.agent.workspace.paths import PathError, Paths, Place
from composer_lsp.agent.workspace.workspace import ConflictError, Diagnostic, WorkspaceError

_ROLLBACK_S = 3.0
"""Longest that taking back a file of half a change may wait for the client."""


class Files(Protocol):
    """The client's. Raises: WorkspaceError."""

    @property
    def reads_files(self) -> bool: ...

    @property
    def writes_files(self) -> bool: ...

    async def read(self, path: str) -> str | None:
        """None: it knows no such file."""
        ...

    async def write(self, path: str, text: str) -> None: ...


@dataclass(frozen=True, slots=True)
class _Write:
    """What the client is to write."""

    place: Place
    before: str | None
    """None: there was no file."""
    after: str


class ClientWorkspace:
    """A `Workspace`. For the event loop.

    The client is asked for each file that is read. Which files have unsaved text it cannot tell, so
    searches see the unsaved text of those alone that were read before.
    """

    def __init__(self, paths: ClientPaths, files: Files) -> None:
        self._paths = paths
        self._files = files
        self._disk = DirectoryWorkspace(paths)
        self._unsaved: dict[Place, None] = {}

    @property
    def paths(self) -> Paths:
        return self._paths

    async def read(self, place: Place) -> Snapshot:
        on_disk = await self._disk.read(place)
        if not self._files.reads_files or not place.relative:
            return on_disk
        text = await self._files.read(self._paths.given(place))
        # Some clients answer with nothing for a file that is not there.
        if text is None or (on_disk.file is None and not text):
            self._unsaved.pop(place, None)
            return on_disk
        file = _merged(on_disk.file, text)
        if file is on_disk.file:
            self._unsaved.pop(place, None)
        else:
            self._unsaved[place] = None
        return replace(on_disk, file=file)

    async def files(self) -> Sequence[str]:
        listed = set(await self._disk.files())
        listed.update(place.path for place in self._unsaved)
        return sorted(listed)

    async def unsaved(self) -> Mapping[str, str]:
        found: dict[str, str] = {}
        for place in list(self._unsaved):
            file = (await self.read(place)).file
            if file is not None and place in self._unsaved:
                found[place.path] = file.text
        return found

    async def diagnostics(self, path: str | None = None) -> Sequence[Diagnostic]:
        return ()

    async def apply(self, changes: Sequence[FileChange], *, label: str) -> None:
        writes, rest = await self._planned(changes)
        done: list[_Write] = []
        try:
            for each in writes:
                done.append(each)
                await self._write(each)
            await _to_its_end(self._disk.apply(rest, label=label))
        except BaseException:
            await self._take_back(done)
            raise

    async def _write(self, each: _Write) -> None:
        folder = Path(each.place.absolute).parent
        try:
            if each.before is None:
                await asyncio.to_thread(folder.mkdir, parents=True, exist_ok=True)
            await self._files.write(self._paths.given(each.place), each.after)
        except OSError as error:
            raise WorkspaceError(
                f"nothing was changed: {folder} cannot be made: {error.strerror}"
            ) from error
        except WorkspaceError as error:
            raise WorkspaceError(f"nothing was changed: {error}") from error

    async def _take_back(self, done: Sequence[_Write]) -> None:
        """All that can be. Raises: WorkspaceError for what cannot."""
        left: dict[str, str] = {}
        for each in reversed(done):
            try:
                async with asyncio.timeout(_ROLLBACK_S):
                    await self._restore(each)
            except (WorkspaceError, OSError, TimeoutError) as error:
                left[each.place.path] = str(error) or "the editor does not answer"
        if left:
            listed = "; ".join(f"{path}: {why}" for path, why in left.items())
            raise WorkspaceError(f"not all was changed, and not all could be taken back: {listed}")

    async def _restore(self, each: _Write) -> None:
        if each.before is None:
            await asyncio.to_thread(write, each.place, None)
            return
        path = self._paths.given(each.place)
        try:
            await self._files.write(path, each.before)
        except WorkspaceError:
            # Perhaps it was refused the first time too.
            if await self._files.read(path) != each.before:
                raise

    async def _planned(
        self, changes: Sequence[FileChange]
    ) -> tuple[list[_Write], list[FileChange]]:
        """What the client writes, and what is done on the disk. Raises: ConflictError."""
        writes: list[_Write] = []
        rest: list[FileChange] = []
        conflicts: dict[str, str] = {}
        for change in changes:
            try:
                planned = await self._by_client(change)
            except (AnchorError, PathError, TextError, WorkspaceError) as error:
                conflicts[change.path] = str(error)
                continue
            if planned is None:
                rest.append(change)
            else:
                writes.append(planned)
        if conflicts:
            raise ConflictError(conflicts)
        return writes, rest

    async def _by_client(self, change: FileChange) -> _Write | None:
        """None: on the disk. Raises: AnchorError, PathError, TextError, WorkspaceError."""
        place = self._paths.locate(change.path)
        source = self._paths.locate(change.moved_from) if change.moved_from else place
        for each in {place, source}:
            await asyncio.to_thread(self._paths.check, each, may_be_ignored=True)
        read = await self.read(source)
        now = read.file
        if change.moved_from and (await self.read(place)).file is not None:
            raise AnchorError("it exists by now")
        if change.writes_in_place and read.link != change.link:
            raise AnchorError("it is a link by now, or leads elsewhere")
        after = _carried(change, now)
        if self._can_write(change, now, after):
            assert after is not None
            return _Write(place, None if now is None else now.text, after)
        if source in self._unsaved:
            raise AnchorError(
                f"{source.path} has unsaved changes, and this change is made on the disk; save it "
                "first"
            )
        return None

    def _can_write(self, change: FileChange, now: TextFile | None, after: str | None) -> bool:
        """Whether the client would keep the file's bytes: texts that are UTF-8 and end their lines
        with \\n alone. What it would do to others differs from client to client. Who cannot tell what
        is unsaved would write over it."""
        return (
            self._files.reads_files
            and self._files.writes_files
            and after is not None
            and change.moved_from is None
            and change.link is None
            and change.makes_link is None
            and all(each is None or _is_plain(each) for each in (now, change.like))
            and _is_plain(TextFile(text=after))
        )


async def _to_its_end(applying: Coroutine[Any, Any, None]) -> None:
    """Cancelling it is too late: the disk is written by a thread, which goes on."""
    task = asyncio.ensure_future(applying)
    while not task.done():
        with suppress(asyncio.CancelledError):
            await asyncio.wait([task])
    task.result()


def _carried(change: FileChange, now: TextFile | None) -> str | None:
    """The file's text after the change, made to what it is now. Raises: AnchorError, TextError."""
    if change.before is None:
        if now is not None:
            raise AnchorError("it exists by now")
        return change.after
    if now is None:
        raise AnchorError("it is gone")
    if change.replaces_whole and now.text != change.before.text:
        raise AnchorError("it changed meanwhile")
    if change.after is None:
        return None
    after = carry_over(change.before.text, change.after, now.text)
    now.encode(after)
    return after


def _merged(on_disk: TextFile | None, text: str) -> TextFile:
    """The very file of the disk if the client's text is the same but for what editors do to a text:
    line ends, the byte order mark, bytes that are no text, an encoding that they do not know."""
    if on_disk is None:
        return TextFile(text=text)
    if on_disk.bom:
        text = text.removeprefix("\ufeff")
    if _flat(text) in (_flat(each) for each in _as_editors_read(on_disk)):
        return on_disk
    if "\r" not in text:
        text = with_ends_of(on_disk.text, text)
    return replace(on_disk, text=text)


def _as_editors_read(file: TextFile) -> Iterator[str]:
    yield file.text
    yield file.shown
    if file.encoding != "utf-8":
        data = file.encode(file.text)
        yield data.decode("utf-8", "replace")
        yield data.decode("latin-1")


def _flat(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _is_plain(file: TextFile) -> bool:
    if file.bom or file.encoding != "utf-8" or "\r" in file.text:
        return False
    try:
        file.text.encode()
    except UnicodeEncodeError:
        return False
    return True

"""The window's files: open documents first, the disk for the rest; edits go by the editor."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from lsprotocol import types

from composer_lsp.agent.edits.anchor import AnchorError, carry_over
from composer_lsp.agent.edits.change_set import FileChange, Snapshot
from composer_lsp.agent.edits.text_file import TextError, TextFile
from composer_lsp.agent.workspace.directory import DirectoryWorkspace, read_snapshot
from composer_lsp.agent.workspace.paths import Paths, Place
from composer_lsp.agent.workspace.workspace import (
    ConflictError,
    Diagnostic,
    WorkspaceError,
)
from composer_lsp.server.agent.edits import TextChange, plain_edit, workspace_edit
from composer_lsp.server.documents import Document, DocumentStore
from composer_lsp.server.window_index import local_path


class EditingClient(Protocol):
    """What the workspace needs of the editor."""

    @property
    def has_document_changes(self) -> bool: ...

    @property
    def has_resource_operations(self) -> bool:
        """Creates, renames and deletes files."""
        ...

    @property
    def has_annotations(self) -> bool: ...

    async def apply_edit(self, edit: types.WorkspaceEdit, label: str) -> str | None:
        """Why the editor refused; None: it has done it."""
        ...


class EditorWorkspace:
    """A `Workspace`. For the event loop."""

    def __init__(
        self, paths: Paths, documents: Callable[[], DocumentStore], client: EditingClient
    ) -> None:
        self._paths = paths
        self._documents = documents
        self._client = client
        self._disk = DirectoryWorkspace(paths)

    @property
    def paths(self) -> Paths:
        return self._paths

    async def read(self, place: Place) -> Snapshot:
        document = self._open().get(place)
        if document is None:
            return await self._disk.read(place)
        on_disk = await self._on_disk(place)
        text = document.buffer.text
        if on_disk.file is not None and on_disk.file.text == text:
            file = on_disk.file
        else:
            encoding = on_disk.file or TextFile(text="")
            file = TextFile(text=text, encoding=encoding.encoding, bom=encoding.bom)
        return Snapshot(file=file, version=document.version, mode=on_disk.mode)

    async def files(self) -> Sequence[str]:
        listed = set(await self._disk.files())
        new = [place for place in self._open() if place.path not in listed]
        hidden = await asyncio.to_thread(self._paths.hidden_among, new)
        listed.update(place.path for place in new if place not in hidden)
        return sorted(listed)

    async def unsaved(self) -> Mapping[str, str]:
        found: dict[str, str] = {}
        places = self._open()
        hidden = await asyncio.to_thread(self._paths.hidden_among, places)
        for place, document in places.items():
            if place in hidden:
                continue
            on_disk = await self._on_disk(place)
            text = document.buffer.text
            if on_disk.file is None or on_disk.file.text != text:
                found[place.path] = text
        return found

    async def diagnostics(self, path: str | None = None) -> Sequence[Diagnostic]:
        return ()

    async def apply(self, changes: Sequence[FileChange], *, label: str) -> None:
        texts = await self._texts(changes)
        if self._client.has_document_changes and self._client.has_resource_operations:
            edit = workspace_edit(
                texts,
                self._documents().encoding,
                label=label,
                is_annotated=self._client.has_annotations,
            )
            await self._send(edit, label)
            return
        # What such a client cannot do is done on the disk, before its part: that can be refused.
        by_editor = [
            each
            for each in texts
            if each.before is not None and each.after is not None and each.moved_from is None
        ]
        paths = {self._paths.locate(change.path).absolute: change for change in changes}
        names = {each.path for each in by_editor}
        rest = [change for path, change in paths.items() if path not in names]
        await self._disk.apply(rest, label=label)
        if by_editor:
            await self._send(plain_edit(by_editor, self._documents().encoding), label)

    async def _send(self, edit: types.WorkspaceEdit, label: str) -> None:
        if (refusal := await self._client.apply_edit(edit, label)) is not None:
            raise WorkspaceError(f"the editor did not make the changes: {refusal}")

    async def _texts(self, changes: Sequence[FileChange]) -> list[TextChange]:
        """The changes, carried over to what the files are now. Raises: ConflictError."""
        conflicts: dict[str, str] = {}
        found: list[TextChange] = []
        for change in changes:
            try:
                found.append(await self._text_change(change))
            except (AnchorError, TextError, WorkspaceError) as error:
                conflicts[change.path] = str(error)
        if conflicts:
            raise ConflictError(conflicts)
        return found

    async def _text_change(self, change: FileChange) -> TextChange:
        place = self._paths.locate(change.path)
        source = self._paths.locate(change.moved_from) if change.moved_from else place
        now = await self.read(source)
        if change.moved_from and (await self.read(place)).file is not None:
            raise AnchorError("it exists by now")
        if change.before is None:
            if now.file is not None:
                raise AnchorError("it exists by now")
            return TextChange(path=place.absolute, before=None, after=change.after)
        if now.file is None:
            raise AnchorError("it is gone")
        if change.after is None and now.file.text != change.before.text:
            raise AnchorError("it changed meanwhile")
        after = change.after
        if after is not None:
            after = carry_over(change.before.text, after, now.file.text)
            now.file.encode(after)
        return TextChange(
            path=place.absolute,
            before=now.file.text,
            after=after,
            version=now.version,
            moved_from=source.absolute if source != place else None,
        )

    def _open(self) -> dict[Place, Document]:
        found: dict[Place, Document] = {}
        for document in self._documents().text_documents.values():
            path = local_path(document.uri)
            place = None if path is None else self._paths.of_absolute(path)
            if place is not None and isinstance(document, Document):
                found[place] = document
        return found

    async def _on_disk(self, place: Place) -> Snapshot:
        try:
            return await asyncio.to_thread(read_snapshot, place)
        except WorkspaceError:
            return Snapshot(file=None)

"""The window's files: open documents first, the disk for the rest; edits go by the editor."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Protocol

from lsprotocol import types

from composer_lsp.agent.edits.anchor import AnchorError, carry_over
from composer_lsp.agent.edits.change_set import FileChange, Snapshot
from composer_lsp.agent.edits.text_file import TextError, TextFile
from composer_lsp.agent.workspace.directory import (
    DirectoryWorkspace,
    is_emptied,
    leaving,
    read_snapshot,
    refused,
    trading_places,
)
from composer_lsp.agent.workspace.paths import Paths, Place
from composer_lsp.agent.workspace.workspace import (
    ConflictError,
    Diagnostic,
    Severity,
    WorkspaceError,
)
from composer_lsp.server.agent.diagnostics import Diagnostics, Known
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
        self,
        paths: Paths,
        documents: Callable[[], DocumentStore],
        client: EditingClient,
        diagnostics: Diagnostics,
    ) -> None:
        self._paths = paths
        self._documents = documents
        self._client = client
        self._diagnostics = diagnostics
        self._disk = DirectoryWorkspace(paths)

    @property
    def paths(self) -> Paths:
        return self._paths

    async def read(self, place: Place) -> Snapshot:
        document = self._open().get(self._paths.followed(place))
        if document is None:
            return await self._disk.read(place)
        on_disk = await self._on_disk(place)
        text = document.buffer.text
        if on_disk.file is not None and on_disk.file.text == text:
            file = on_disk.file
        else:
            file = _unsaved(text, on_disk.file)
        return Snapshot(file=file, version=document.version, mode=on_disk.mode, link=on_disk.link)

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
        """Of open documents: what the editor has told of their text of now."""
        places = {
            place: document
            for place, document in self._open().items()
            if path is None or place.path == path
        }
        hidden = await asyncio.to_thread(self._paths.hidden_among, places)
        return [
            diagnostic_at(place.path, known)
            for place, document in sorted(places.items(), key=lambda each: each[0].path)
            if place not in hidden
            for known in self._diagnostics.of(document.uri, document.version or 0)
        ]

    async def apply(
        self, changes: Sequence[FileChange], *, label: str, needs_confirmation: bool = False
    ) -> None:
        """`needs_confirmation`: the editor asks the user of each change, and may make fewer."""
        carried = await self.carried_over(changes)
        if needs_confirmation and not self.can_confirm:
            raise WorkspaceError("this editor cannot show changes for a review")
        links = {change.path for change in carried if _is_of_a_link(change)}
        if needs_confirmation and links:
            raise WorkspaceError(
                f"no review can show what becomes of the link {min(links)}; accept it without one"
            )
        trading = trading_places(self._paths, carried)
        if needs_confirmation and trading:
            raise WorkspaceError(
                f"no review can show a file and a folder that trade places, {min(trading)}; accept "
                "it without one"
            )
        not_by_editor = links | trading
        if self._client.has_document_changes and self._client.has_resource_operations:
            by_editor = [
                each
                for each in carried
                if each.path not in not_by_editor and (needs_confirmation or not _is_special(each))
            ]
            texts = [each for change in by_editor for each in self._text_changes(change)]
            edit = workspace_edit(
                texts,
                self._documents().encoding,
                label=label,
                is_annotated=self._client.has_annotations,
                needs_confirmation=needs_confirmation,
            )
        else:
            by_editor = [
                each
                for each in carried
                if each.writes_in_place and each.link is None and each.path not in not_by_editor
            ]
            texts = [each for change in by_editor for each in self._text_changes(change)]
            edit = plain_edit(texts, self._documents().encoding)
        # What the client cannot do is done on the disk, and taken back if it refuses its part.
        on_disk = [each for each in carried if each not in by_editor]
        await self._check_saved(on_disk)
        async with self._disk.applied(on_disk):
            if by_editor:
                await self._send(edit, label)

    async def _check_saved(self, changes: Sequence[FileChange]) -> None:
        """Raises: ConflictError for what is to be changed on the disk and is in a buffer alone."""
        sources = {
            change.path: self._paths.locate(change.moved_from or change.path)
            for change in changes
            if change.before is not None
        }
        missing = [
            path for path, place in sources.items() if (await self._on_disk(place)).file is None
        ]
        if missing:
            why = "it is in the editor alone, not on the disk; save it first, or close it"
            raise ConflictError(dict.fromkeys(missing, why))

    async def _send(self, edit: types.WorkspaceEdit, label: str) -> None:
        if (refusal := await self._client.apply_edit(edit, label)) is not None:
            raise WorkspaceError(f"the editor did not make the changes: {refusal}")

    @property
    def can_confirm(self) -> bool:
        client = self._client
        return (
            client.has_document_changes
            and client.has_resource_operations
            and client.has_annotations
        )

    async def carried_over(self, changes: Sequence[FileChange]) -> list[FileChange]:
        """The changes, made to what the files are now. Raises: ConflictError."""
        conflicts = await asyncio.to_thread(refused, self._paths, changes)
        gone = leaving(self._paths, changes)
        found: list[FileChange] = []
        for change in changes:
            try:
                found.append(await self._carried_over(change, gone))
            except (AnchorError, TextError, WorkspaceError) as error:
                conflicts.setdefault(change.path, str(error))
        if conflicts:
            raise ConflictError(conflicts)
        return found

    async def _carried_over(self, change: FileChange, gone: frozenset[str]) -> FileChange:
        """`gone`: what is taken away by the changes (`leaving`)."""
        place = self._paths.locate(change.path)
        source = self._paths.locate(change.moved_from) if change.moved_from else place
        is_free = await asyncio.to_thread(is_emptied, place, gone)
        there = Snapshot(file=None) if is_free else await self.read(place)
        now = await self.read(source) if change.moved_from else there
        if change.moved_from and there.file is not None:
            raise AnchorError("it exists by now")
        if change.before is None:
            if now.file is not None:
                raise AnchorError("it exists by now")
            return change
        if now.file is None:
            raise AnchorError("it is gone")
        if change.writes_in_place and now.link != change.link:
            raise AnchorError("it is a link by now, or leads elsewhere")
        if change.replaces_whole and now.file.text != change.before.text:
            raise AnchorError("it changed meanwhile")
        after = change.after
        if after is not None:
            after = carry_over(change.before.text, after, now.file.text)
            now.file.encode(after)
        return replace(change, before=now.file, after=after, version=now.version, mode=now.mode)

    def _text_changes(self, change: FileChange) -> list[TextChange]:
        place = self._paths.locate(change.path)
        origin = change.moved_from
        whole = TextChange(
            path=place.absolute,
            before=None if change.before is None else change.before.text,
            after=change.after,
            version=change.version,
            moved_from=None if origin is None else self._paths.locate(origin).absolute,
        )
        if not change.writes_in_place:
            return [whole]
        if change.link is not None:
            # An edit of the link's text would be one of the file that it leads to.
            return [replace(whole, after=None), replace(whole, before=None, version=None)]
        document = self._open().get(place)
        path = None if document is None else local_path(document.uri)
        return [replace(whole, path=path or place.absolute)]

    def _open(self) -> dict[Place, Document]:
        """By the file itself, also where the editor knows it by a link alone."""
        found: dict[Place, Document] = {}
        linked: dict[Place, Document] = {}
        for document in self._documents().text_documents.values():
            path = local_path(document.uri)
            place = None if path is None else self._paths.of_absolute(path)
            if place is not None and isinstance(document, Document):
                leads_to = self._paths.followed(place)
                (found if leads_to == place else linked)[leads_to] = document
        return {**linked, **found}

    async def _on_disk(self, place: Place) -> Snapshot:
        try:
            return await asyncio.to_thread(read_snapshot, place)
        except WorkspaceError:
            return Snapshot(file=None)


def _is_of_a_link(change: FileChange) -> bool:
    """No edit of a protocol makes a link, and a moved one would lead elsewhere."""
    return change.makes_link is not None or (
        change.link is not None and change.moved_from is not None
    )


def _is_special(change: FileChange) -> bool:
    """A new file with permissions, or in an encoding, that no editor would give it."""
    form = change.like or TextFile(text="")
    return change.before is None and (
        change.mode is not None or form.encoding != "utf-8" or bool(form.bom)
    )


def _unsaved(text: str, on_disk: TextFile | None) -> TextFile:
    """In the file's encoding; where that lacks a character of the text, as UTF-8: in what encoding it
    is saved the editor and the user decide."""
    file = TextFile(text=text) if on_disk is None else replace(on_disk, text=text)
    try:
        file.encode(text)
    except TextError:
        return TextFile(text=text)
    return file


_SEVERITIES: Mapping[types.DiagnosticSeverity, Severity] = {
    types.DiagnosticSeverity.Error: "error",
    types.DiagnosticSeverity.Warning: "warning",
    types.DiagnosticSeverity.Information: "information",
    types.DiagnosticSeverity.Hint: "hint",
}


def diagnostic_at(path: str, known: Known) -> Diagnostic:
    return Diagnostic(
        path=path,
        line=known.start_line + 1,
        severity=_SEVERITIES[known.severity],
        message=known.message,
        source=known.source,
    )

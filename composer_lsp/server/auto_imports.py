"""Imports that an accepted suggestion lacks, added to the document after it: no protocol has them come
with ghost text."""

import asyncio
import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from lsprotocol import types

from composer_lsp.completion.request import DocumentSnapshot
from composer_lsp.config import Settings
from composer_lsp.index.client import WorkerError
from composer_lsp.index.service import IndexService
from composer_lsp.server.documents import Document, DocumentStore
from composer_lsp.server.editor import Editor
from composer_lsp.server.shown import ShownSuggestion
from composer_lsp.server.window_index import local_path

if TYPE_CHECKING:
    from composer_lsp.auto_import.edits import ImportEdit
    from composer_lsp.auto_import.finder import Wanted

logger = logging.getLogger(__name__)

LANGUAGES = frozenset({"python", "javascript", "javascriptreact", "typescript", "typescriptreact"})
_INDEX_LIMIT_S = 2.0
"""What the index has not told by then is left out: the user has gone on."""
_MAX_TRIES = 3
"""Of an edit that the client refuses because the user types on."""


class AutoImports:
    def __init__(
        self,
        editor: Editor,
        *,
        settings: Callable[[], Settings],
        documents: Callable[[], DocumentStore],
        index: IndexService,
    ) -> None:
        self._editor = editor
        self._settings = settings
        self._documents = documents
        self._index = index

    async def add(self, accepted: ShownSuggestion) -> None:
        """Add what the accepted text lacks, in one edit each."""
        document = self._documents().find(accepted.uri)
        path = local_path(accepted.uri)
        settings = self._settings()
        if document is None or path is None or not settings.index.enabled:
            return
        if not settings.tab.auto_import or (document.language_id or "") not in LANGUAGES:
            return
        try:
            async with asyncio.timeout(_INDEX_LIMIT_S):
                lacking = await self._lacking(accepted, document.snapshot(), Path(path))
        except (WorkerError, TimeoutError) as error:
            logger.info("no imports: %s", error or "the index does not answer")
            return
        for each in lacking:
            await self._import(each, accepted.uri, Path(path))

    async def _lacking(
        self, accepted: ShownSuggestion, document: DocumentSnapshot, path: Path
    ) -> "Sequence[Wanted]":
        from composer_lsp.auto_import.finder import wanted

        text = document.text
        is_there = text.startswith(accepted.text, accepted.start)
        start = accepted.start if is_there else text.find(accepted.text)
        if start < 0:
            return ()
        end = start + len(accepted.text)
        return await wanted(
            self._index, text, start, end, path=path, language_id=document.language_id
        )

    async def _import(self, wanted: "Wanted", uri: str, path: Path) -> None:
        from composer_lsp.auto_import.finder import edit_for

        for _ in range(_MAX_TRIES):
            document = self._documents().find(uri)
            if document is None:
                return
            snapshot = document.snapshot()
            edit = await asyncio.to_thread(
                edit_for, wanted, snapshot.text, path=path, language_id=snapshot.language_id
            )
            if document.version != snapshot.version:
                continue
            if edit is None:
                return
            change = _workspace_edit(
                document, edit, is_versioned=self._editor.features.document_changes
            )
            refused = await self._editor.apply_edit(change, f"Import {wanted.name}")
            if refused is None:
                return
            logger.info("%s was not imported: %s", wanted.name, refused)


def _workspace_edit(
    document: Document, edit: "ImportEdit", *, is_versioned: bool
) -> types.WorkspaceEdit:
    place = document.buffer.position_at(edit.offset)
    ending = "\r\n" if "\r\n" in document.buffer.text else "\n"
    change = types.TextEdit(types.Range(place, place), edit.text.replace("\n", ending))
    if not is_versioned:
        return types.WorkspaceEdit(changes={document.uri: [change]})
    identifier = types.OptionalVersionedTextDocumentIdentifier(document.uri, document.version)
    return types.WorkspaceEdit(
        document_changes=[types.TextDocumentEdit(text_document=identifier, edits=[change])]
    )

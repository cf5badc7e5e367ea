"""The rest of the workspace, by the index: as it is in the editor, else on the disk."""

import asyncio
import logging
from collections.abc import Awaitable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import unquote

from composer_lsp.completion.languages import language_of
from composer_lsp.completion.request import DocumentSnapshot
from composer_lsp.index.client import WorkerError
from composer_lsp.next_edit.proposal import OtherFiles
from composer_lsp.next_edit.reader import MAX_CHARS
from composer_lsp.server.session import Session

logger = logging.getLogger(__name__)

_LIMIT_S = 1.0
_MAX_FILES = 20
_MAX_REFERENCES = 200

_T = TypeVar("_T")


class WorkspaceFiles:
    """Implements `OtherFiles`."""

    def __init__(self, session: Session, edited: Collection[str]) -> None:
        """`edited`: URIs of the documents that were just edited."""
        self._session = session
        self._edited = edited

    async def mentioning(self, name: str) -> Sequence[DocumentSnapshot]:
        service = self._session.index.service
        found = await _in_time(service.references(name, limit=_MAX_REFERENCES), ())
        paths = dict.fromkeys(map(_path_of, found))
        documents = [await self._document(path) for path in [*paths][:_MAX_FILES]]
        return [document for document in documents if document is not None]

    async def definitions(self, name: str) -> int:
        found = await _in_time(self._session.index.service.definitions(name), ())
        # Clients encode other characters than we do.
        edited = set(map(unquote, self._edited))
        return len({unquote(_path_of(each).as_uri()) for each in found} - edited)

    async def _document(self, path: Path) -> DocumentSnapshot | None:
        uri, language_id = path.as_uri(), language_of(path)
        if not self._session.may_show(uri, language_id):
            return None
        if (opened := self._session.documents.find(uri)) is not None:
            return opened.snapshot()
        text = await asyncio.to_thread(_read, path)
        if text is None:
            return None
        return DocumentSnapshot(uri=uri, version=-1, text=text, language_id=language_id)


class _NoOthers:
    async def mentioning(self, name: str) -> Sequence[DocumentSnapshot]:
        return ()

    async def definitions(self, name: str) -> int:
        return 0


NO_OTHERS: OtherFiles = _NoOthers()


async def _in_time(answer: Awaitable[_T], missing: _T) -> _T:
    try:
        async with asyncio.timeout(_LIMIT_S):
            return await answer
    except (WorkerError, TimeoutError) as error:
        logger.debug("no other files: %s", error)
        return missing


def _path_of(found: Mapping[str, Any]) -> Path:
    return Path(found["root"]) / found["path"]


def _read(path: Path) -> str | None:
    """None of what is no text, too long, or gone."""
    try:
        if path.stat().st_size > MAX_CHARS:
            return None
        return path.read_bytes().decode("utf-8-sig")
    except (OSError, UnicodeDecodeError):
        return None

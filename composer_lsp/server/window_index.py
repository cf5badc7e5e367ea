"""The window's index as the editor sees it: which folders, how far it is, what the user is told."""

import asyncio
import logging
import os
from collections.abc import Callable, Sequence
from urllib.parse import urlsplit, urlunsplit

from lsprotocol import types
from pygls.uris import to_fs_path

from composer_lsp.config import EngineSettings, IndexSettings, Settings
from composer_lsp.index.client import WorkerError
from composer_lsp.index.service import IndexService
from composer_lsp.server.documents import Document
from composer_lsp.server.editor import Editor
from composer_lsp.server.index_bar import IndexBar

logger = logging.getLogger(__name__)

_PAUSED = (
    "Indexing is paused; search answers from what is indexed so far. "
    'The command "Pause Indexing or Go On" (composer.index.pause) ends the pause'
)
_GO_ON = "Go on"

_THIS_MACHINE = ("", "localhost")


class WindowIndex:
    """Implements `IndexHost`. Event loop only."""

    def __init__(
        self,
        editor: Editor,
        settings: Callable[[], Settings],
        roots: Callable[[], Sequence[str]],
    ) -> None:
        self._editor = editor
        self._settings = settings
        self._roots = roots
        self._bar = IndexBar(editor, self._on_cancel)
        self._asking: asyncio.Task[None] | None = None
        self.service = IndexService(self)

    async def follow(self) -> None:
        """Index the folders of now, by the settings of now."""
        try:
            await self.service.refresh()
        except WorkerError as error:
            logger.warning("%s", error)

    def document_changed(self, document: Document) -> None:
        """It was opened or edited. What equals the file costs nothing from then on."""
        if (path := local_path(document.uri)) is not None:
            self.service.document_changed(path, lambda: document.snapshot().text)

    def document_saved(self, uri: str) -> None:
        if (path := local_path(uri)) is not None:
            self.service.document_saved(path)

    def document_closed(self, uri: str) -> None:
        if (path := local_path(uri)) is not None:
            self.service.document_closed(path)

    def files_changed(self, uris: Sequence[str]) -> None:
        paths = [path for uri in uris if (path := local_path(uri)) is not None]
        if paths:
            self.service.files_changed(paths)

    def pause(self, *, paused: bool) -> None:
        self.service.pause(paused=paused)
        if paused:
            self._bar.end("paused")

    @property
    def index_settings(self) -> IndexSettings:
        return self._settings().index

    @property
    def engine_settings(self) -> EngineSettings:
        return self._settings().engine

    def index_roots(self) -> Sequence[str]:
        return self._roots()

    def on_index_progress(self, root: str, done: int, left: int) -> None:
        self._bar.report(root, done, left, may_open=not self.service.is_paused)

    def on_index_message(self, text: str) -> None:
        self._editor.log(text, types.MessageType.Warning)

    def _on_cancel(self) -> None:
        self.pause(paused=True)
        self._asking = asyncio.ensure_future(self._offer_to_go_on())

    async def _offer_to_go_on(self) -> None:
        if not self._editor.features.message_request:
            self._editor.show(_PAUSED, types.MessageType.Info)
        elif await self._editor.ask(_PAUSED, _GO_ON) == _GO_ON:
            self.pause(paused=False)


def local_path(uri: str) -> str | None:
    """None for what is no file of this machine, and for a URI that is none."""
    try:
        parts = urlsplit(uri)
        if parts.scheme != "file" or (parts.netloc not in _THIS_MACHINE and os.name != "nt"):
            return None
        if parts.netloc == "localhost":
            uri = urlunsplit(parts._replace(netloc=""))
        path = to_fs_path(uri)
        if path is None or "\0" in path or not os.path.isabs(path):  # noqa: PTH117 - a text still
            return None
        os.fsencode(path)
    except ValueError:  # half of a surrogate pair in it, among others
        return None
    return path

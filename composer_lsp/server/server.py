"""The language server: pygls dispatches and knows the types, our own loop runs around it."""

import asyncio
import logging
import signal
import sys
from collections.abc import Sequence

from lsprotocol import types
from pygls.exceptions import JsonRpcInvalidParams, JsonRpcParseError
from pygls.lsp.server import LanguageServer

from composer_lsp import __version__
from composer_lsp.server.capabilities import ClientFeatures
from composer_lsp.server.documents import Document
from composer_lsp.server.editor import Editor
from composer_lsp.server.framing import FramingError
from composer_lsp.server.logs import ClientLogHandler, log_path
from composer_lsp.server.protocol import ComposerProtocol
from composer_lsp.server.service import ServiceFactory
from composer_lsp.server.session import Session
from composer_lsp.server.stdio import (
    StdoutWriter,
    end_process_later,
    read_in_thread,
    watch_process,
)

logger = logging.getLogger(__name__)

_MESSAGE_TYPES = {
    logging.WARNING: types.MessageType.Warning,
    logging.ERROR: types.MessageType.Error,
    logging.CRITICAL: types.MessageType.Error,
}


class ComposerServer(LanguageServer):
    protocol: ComposerProtocol  # pyright: ignore[reportIncompatibleVariableOverride] - the class given to `__init__`

    def __init__(self, service_factory: ServiceFactory, pull_command: Sequence[str]) -> None:
        super().__init__(  # pyright: ignore[reportUnknownMemberType] - pygls's *args
            "composer-lsp",
            __version__,
            notebook_document_sync=types.NotebookDocumentSyncOptions(
                notebook_selector=[types.NotebookDocumentFilterWithNotebook(notebook="*")]
            ),
            protocol_cls=ComposerProtocol,
        )
        self.session = Session(
            Editor(self),
            documents=lambda: self.protocol.workspace,
            factory=service_factory,
            pull_command=pull_command,
        )
        self._loop: asyncio.AbstractEventLoop | None = None
        self._exit_code: asyncio.Future[int] | None = None

    def run(self, stdin: int, stdout: int) -> int:
        """Serve on two file descriptors until the client leaves; return the exit code."""
        return asyncio.run(self._run(stdin, stdout))

    def stop(self, exit_code: int) -> None:
        """Leave the loop; the first call decides the code."""
        if self._exit_code is not None and not self._exit_code.done():
            self._exit_code.set_result(exit_code)
            end_process_later(exit_code)

    def document(self, uri: str) -> Document:
        """An open document.

        Raises: JsonRpcInvalidParams if the client did not open it.
        """
        document = self.protocol.workspace.find(uri)
        if document is None:
            raise JsonRpcInvalidParams(f"{uri} is not open; send textDocument/didOpen first")
        return document

    def on_initialize(
        self, params: types.InitializeParams, capabilities: types.ServerCapabilities
    ) -> None:
        """Take in the client; called before the answer to `initialize` leaves."""
        features = ClientFeatures.of(params.capabilities)
        self.session.editor.features = features
        if capabilities.execute_command_provider is not None:
            capabilities.execute_command_provider.work_done_progress = True
        if features.inline_completion:
            # The same suggestions twice, as ghost text and in the menu, help nobody.
            capabilities.completion_provider = None
        self.session.configure("initialization", params.initialization_options)
        if params.process_id is not None and self._loop is not None:
            watch_process(params.process_id, self._loop, self._on_client_gone)

    async def on_initialized(self) -> None:
        self._log_to_client()
        self.session.editor.log(f"composer-lsp {__version__} is ready; its log: {log_path()}")
        await self.session.start()

    def report_server_error(self, error: Exception, source: object) -> None:
        """Into the log. pygls would show a message box for each error in a notification, and the
        user cannot do anything about those."""
        logger.error("%s: %s", getattr(source, "__name__", source), error, exc_info=error)

    async def _run(self, stdin: int, stdout: int) -> int:
        self._loop = asyncio.get_running_loop()
        self._exit_code = self._loop.create_future()
        self.protocol.set_writer(StdoutWriter(stdout, self._on_client_gone))
        self._stop_on_signals(self._loop)
        read_in_thread(stdin, self._loop, self._on_item, self._on_client_gone)
        exit_code = await self._exit_code
        await self.session.close()
        return exit_code

    def _stop_on_signals(self, loop: asyncio.AbstractEventLoop) -> None:
        if sys.platform == "win32":
            return  # asyncio has no signal handlers there; the process just ends.
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.stop, 128 + number)

    def _on_item(self, item: bytes | FramingError) -> None:
        if isinstance(item, FramingError):
            self.protocol.refuse(None, JsonRpcParseError(str(item)))
        else:
            self.protocol.receive(item)

    def _on_client_gone(self) -> None:
        self.stop(0 if self.protocol.was_shut_down else 1)

    def _log_to_client(self) -> None:
        assert self._loop is not None

        def send(level: int, text: str) -> None:
            kind = _MESSAGE_TYPES.get(level, types.MessageType.Warning)
            self.session.editor.log(text, kind)

        handler = ClientLogHandler(self._loop, send)
        for package in ("composer_lsp", "composer_index"):
            logging.getLogger(package).addHandler(handler)

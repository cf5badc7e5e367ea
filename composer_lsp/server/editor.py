"""What we may say to the client and ask of it, within what it declared that it understands."""

import itertools
import logging
from collections.abc import Callable, Mapping
from typing import Any

from lsprotocol import types
from pygls.exceptions import JsonRpcException
from pygls.lsp.server import LanguageServer

from composer_lsp.server.capabilities import ClientFeatures
from composer_lsp.server.settings import SECTION, section_of
from composer_lsp.server.status import Status

logger = logging.getLogger(__name__)

_tokens = itertools.count(1)


class Editor:
    def __init__(self, server: LanguageServer) -> None:
        self._server = server
        self._shown: set[str] = set()
        self._cancels: dict[types.ProgressToken, Callable[[], None]] = {}
        self.features = ClientFeatures()

    def show_once(self, message: str, kind: types.MessageType = types.MessageType.Error) -> None:
        """A message box; the same message is not shown again until `forget_shown`."""
        if message in self._shown:
            return
        self._shown.add(message)
        self.show(message, kind)

    def show(self, message: str, kind: types.MessageType) -> None:
        """A message box."""
        self._server.window_show_message(types.ShowMessageParams(type=kind, message=message))

    def forget_shown(self) -> None:
        """What went wrong has been put right; if it comes back, that is news."""
        self._shown.clear()

    def log(self, message: str, kind: types.MessageType = types.MessageType.Info) -> None:
        self._server.window_log_message(types.LogMessageParams(type=kind, message=message))

    def send_status(self, status: Status) -> None:
        if self.features.status:
            self._server.protocol.notify("composer/status", status.as_json())

    async def ask(self, question: str, *answers: str) -> str | None:
        """Which answer the user chose, None if none or if the client cannot ask."""
        if not self.features.message_request:
            return None
        try:
            chosen = await self._server.window_show_message_request_async(
                types.ShowMessageRequestParams(
                    type=types.MessageType.Info,
                    message=question,
                    actions=[types.MessageActionItem(title=answer) for answer in answers],
                )
            )
        except JsonRpcException as error:
            logger.info("the client did not ask: %s", error.message)
            return None
        return chosen.title if chosen else None

    @property
    def has_document_changes(self) -> bool:
        return self.features.document_changes

    @property
    def has_resource_operations(self) -> bool:
        return self.features.resource_operations

    @property
    def has_annotations(self) -> bool:
        return self.features.change_annotations

    async def apply_edit(self, edit: types.WorkspaceEdit, label: str) -> str | None:
        """Why the client refused; None: it has done it."""
        if not self.features.apply_edit:
            return "it does not take edits (workspace/applyEdit)"
        try:
            answer = await self._server.workspace_apply_edit_async(
                types.ApplyWorkspaceEditParams(edit=edit, label=label)
            )
        except JsonRpcException as error:
            return error.message
        return None if answer.applied else answer.failure_reason or "it gave no reason"

    async def refresh_code_lenses(self) -> None:
        if not self.features.code_lens_refresh:
            return
        try:
            await self._server.workspace_code_lens_refresh_async(None)
        except JsonRpcException as error:
            logger.info("the client did not refresh its code lenses: %s", error.message)

    async def show_document(self, uri: str) -> bool:
        """Whether the client has opened it."""
        if not self.features.show_document:
            return False
        try:
            shown = await self._server.window_show_document_async(
                types.ShowDocumentParams(uri=uri, take_focus=True)
            )
        except JsonRpcException as error:
            logger.info("the client did not show %s: %s", uri, error.message)
            return False
        return shown.success

    def send_agent_event(self, event: Mapping[str, Any]) -> None:
        if self.features.agent:
            self._server.protocol.notify("composer/agent", event)

    def send_partial(self, token: types.ProgressToken, value: Any) -> None:
        """A piece of a result, for a client that gave a token for it."""
        self._server.progress(types.ProgressParams(token=token, value=value))

    async def configuration(self) -> Mapping[str, Any]:
        """Our section of the client's settings, as far as it tells them."""
        if not self.features.configuration:
            return {}
        try:
            values = await self._server.workspace_configuration_async(
                types.ConfigurationParams(items=[types.ConfigurationItem(section=SECTION)])
            )
        except JsonRpcException as error:
            logger.info("the client did not tell its settings: %s", error.message)
            return {}
        return section_of(values[0]) if values else {}

    async def watch_configuration(self) -> None:
        """Ask to be told of changes, of clients that let us ask."""
        if not self.features.registers_configuration:
            return
        registration = types.Registration(
            id="composer-configuration",
            method=types.WORKSPACE_DID_CHANGE_CONFIGURATION,
            register_options={"section": SECTION},
        )
        try:
            await self._server.client_register_capability_async(
                types.RegistrationParams(registrations=[registration])
            )
        except JsonRpcException as error:
            logger.warning("the client will not tell changed settings: %s", error.message)

    async def begin_progress(
        self,
        title: str,
        percent: int | None = None,
        on_cancel: Callable[[], None] | None = None,
    ) -> "Progress":
        """A progress bar; one that does nothing if the client has none. Without a percentage it
        only shows that something is going on. With `on_cancel` the user may cancel it."""
        token = f"composer-progress-{next(_tokens)}"
        if not self.features.work_done_progress:
            return Progress(self._server, None)
        try:
            await self._server.window_work_done_progress_create_async(
                types.WorkDoneProgressCreateParams(token=token)
            )
        except JsonRpcException as error:
            logger.info("the client shows no progress: %s", error.message)
            return Progress(self._server, None)
        return self._begun(token, title, percent, on_cancel)

    def begin_given_progress(
        self, token: types.ProgressToken | None, title: str, on_cancel: Callable[[], None]
    ) -> "Progress":
        """By the token that came with a request (`workDoneToken`); without one it does nothing."""
        if token is None:
            return Progress(self._server, None)
        return self._begun(token, title, None, on_cancel)

    def on_progress_cancelled(self, token: types.ProgressToken) -> None:
        """The user cancelled a progress bar, perhaps one that has ended."""
        if (on_cancel := self._cancels.pop(token, None)) is not None:
            on_cancel()

    def _begun(
        self,
        token: types.ProgressToken,
        title: str,
        percent: int | None,
        on_cancel: Callable[[], None] | None,
    ) -> "Progress":
        progress = Progress(self._server, token, lambda: self._cancels.pop(token, None))
        if on_cancel is not None:
            self._cancels[token] = on_cancel
        progress.begin(title, percent, cancellable=on_cancel is not None)
        return progress


class Progress:
    """A progress bar of the client (`$/progress`)."""

    def __init__(
        self,
        server: LanguageServer,
        token: types.ProgressToken | None,
        on_end: Callable[[], object] = lambda: None,
    ) -> None:
        self._server = server
        self._token = token
        self._on_end = on_end

    def begin(self, title: str, percent: int | None, *, cancellable: bool = False) -> None:
        self._send(
            types.WorkDoneProgressBegin(title=title, cancellable=cancellable, percentage=percent)
        )

    def report(self, message: str, percent: int | None = None) -> None:
        self._send(types.WorkDoneProgressReport(message=message, percentage=percent))

    def end(self, message: str = "") -> None:
        """May be called again, without effect."""
        self._send(types.WorkDoneProgressEnd(message=message or None))
        self._token = None
        self._on_end()

    def _send(self, value: Any) -> None:
        if self._token is not None:
            self._server.progress(types.ProgressParams(token=self._token, value=value))

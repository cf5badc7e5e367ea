"""What a session needs of the client, by one connection and for one session."""

import logging
from collections.abc import Sequence
from typing import Any

from acp import schema
from acp.agent.connection import AgentSideConnection
from acp.exceptions import RequestError

from composer_lsp.agent.workspace.workspace import WorkspaceError

logger = logging.getLogger(__name__)

_METHOD_NOT_FOUND = -32601
_NOT_FOUND = -32002
_SDK_ERRORS = (RequestError, ValueError, ConnectionError)
"""A refusal, an answer or a text that the types refuse, and a client that has gone."""

Update = (
    schema.UserMessageChunk
    | schema.AgentMessageChunk
    | schema.ToolCallStart
    | schema.ToolCallProgress
    | schema.AgentPlanUpdate
    | schema.AvailableCommandsUpdate
    | schema.CurrentModeUpdate
)


class SessionClient:
    """Raises: WorkspaceError where the client refuses, or has gone."""

    def __init__(
        self,
        connection: AgentSideConnection,
        session: str,
        capabilities: schema.ClientCapabilities,
    ) -> None:
        files = capabilities.fs
        self._connection = connection
        self._session = session
        self.reads_files = files is not None and bool(files.read_text_file)
        self.writes_files = files is not None and bool(files.write_text_file)

    async def update(self, update: Update) -> None:
        try:
            await self._connection.session_update(self._session, update)
        except (ConnectionError, ValueError) as error:
            # The client has gone; or a text that is none, which the types refuse.
            logger.warning("an update was not sent: %s", error)

    async def ask(
        self, call: schema.ToolCallUpdate, options: Sequence[schema.PermissionOption]
    ) -> str | None:
        """The chosen option's id; None if the user chose none."""
        try:
            answer = await self._connection.request_permission(self._session, call, list(options))
        except _SDK_ERRORS as error:
            raise _failed(error, "asked for a permission") from error
        outcome = answer.outcome
        return outcome.option_id if isinstance(outcome, schema.AllowedOutcome) else None

    async def read(self, path: str) -> str | None:
        """A file's text as the editor has it. None: the editor knows no such file, or does not read
        after all."""
        try:
            return (await self._connection.read_text_file(self._session, path)).content
        except RequestError as error:
            if error.code in (_NOT_FOUND, _METHOD_NOT_FOUND):
                return None
            raise _failed(error, f"asked for {path}") from error
        except _SDK_ERRORS as error:
            raise _failed(error, f"asked for {path}") from error

    async def write(self, path: str, text: str) -> None:
        try:
            await self._connection.write_text_file(self._session, path, text)
        except _SDK_ERRORS as error:
            raise _failed(error, f"asked to write {path}") from error


def _failed(error: Exception, what: str) -> WorkspaceError:
    detail: Any = getattr(error, "data", None)
    more = f" ({detail})" if detail else ""
    return WorkspaceError(f"the editor, {what}, answered: {str(error).splitlines()[0]}{more}")

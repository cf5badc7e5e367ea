"""The methods of the Agent Client Protocol that a client may call."""

import asyncio
import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, cast

from acp import PROTOCOL_VERSION, Agent, RequestError, helpers, schema
from acp.agent.connection import AgentSideConnection

from composer_lsp import __version__
from composer_lsp.acp.client import SessionClient
from composer_lsp.acp.commands import (
    MODES,
    CommandError,
    available_commands,
    mode_named,
    session_modes,
)
from composer_lsp.acp.indexes import Indexes
from composer_lsp.acp.paths import ClientPaths
from composer_lsp.acp.prompt import Block, PromptError
from composer_lsp.acp.replay import replay
from composer_lsp.acp.saved import SavedSession, SavedSessionError, SavedSessions
from composer_lsp.acp.session import BusyError, FailedError, NamedModel, Session
from composer_lsp.acp.tool_servers import McpServer, named_by_client
from composer_lsp.acp.transport import StdioTransport
from composer_lsp.agent.checkpoints import CheckpointError
from composer_lsp.agent.conversation import Conversation
from composer_lsp.agent.mcp.servers import has_client
from composer_lsp.agent.prompt.system import Mode
from composer_lsp.agent.transcript import Transcript, TranscriptError, new_id, transcripts_in
from composer_lsp.agent.workspace.workspace import WorkspaceError
from composer_lsp.config import Settings
from composer_lsp.engine.errors import EngineError

logger = logging.getLogger(__name__)

_INVALID_REQUEST = -32600
_INVALID_PARAMS = -32602
_INTERNAL_ERROR = -32603
_NOT_FOUND = -32002
_SESSIONS_A_PAGE = 50


class AcpServer:
    """An `Agent` of the SDK: its method names and parameters are the protocol's. Several sessions
    run at the same time."""

    def __init__(
        self,
        model: NamedModel,
        indexes: Indexes | None,
        settings: Settings,
        state: Path,
        mode: Mode,
    ) -> None:
        """`indexes`: None to find code by text and names alone. `state`: the user's state folder.
        `mode`: of new sessions."""
        self._model = model
        self._indexes = indexes
        self._settings = settings
        self._state = state
        self._mode: Mode = mode
        self._saved = SavedSessions(state / "acp")
        self._connection: AgentSideConnection | None = None
        self._capabilities: schema.ClientCapabilities | None = None
        self._sessions: dict[str, Session] = {}
        self._announcing: set[asyncio.Task[None]] = set()

    def on_connect(self, conn: AgentSideConnection) -> None:
        self._connection = conn

    async def close(self) -> None:
        for session in list(self._sessions.values()):
            await session.close()

    # The protocol. --------------------------------------------------------------------------------

    async def initialize(
        self,
        protocol_version: int,
        client_capabilities: schema.ClientCapabilities | None = None,
        client_info: schema.Implementation | None = None,
        **meta: Any,
    ) -> schema.InitializeResponse:
        """One version is spoken; a client that asks for another one decides whether it goes on."""
        self._capabilities = client_capabilities or schema.ClientCapabilities()
        if client_info is not None:
            logger.info("the client is %s %s", client_info.name, client_info.version)
        return schema.InitializeResponse(
            protocol_version=PROTOCOL_VERSION,
            agent_info=schema.Implementation(
                name="composer", title="Composer", version=__version__
            ),
            agent_capabilities=schema.AgentCapabilities(
                load_session=True,
                prompt_capabilities=schema.PromptCapabilities(
                    image=False, audio=False, embedded_context=True
                ),
                mcp_capabilities=schema.McpCapabilities(http=has_client(), sse=has_client()),
                session_capabilities=schema.SessionCapabilities(
                    list=schema.SessionListCapabilities(),
                    resume=schema.SessionResumeCapabilities(),
                    close=schema.SessionCloseCapabilities(),
                    additional_directories=schema.SessionAdditionalDirectoriesCapabilities(),
                ),
            ),
            auth_methods=[],
        )

    async def new_session(
        self,
        cwd: str,
        additional_directories: list[str] | None = None,
        mcp_servers: list[McpServer] | None = None,
        **meta: Any,
    ) -> schema.NewSessionResponse:
        session = await self._open(
            new_id(), cwd, additional_directories or [], mcp_servers or [], self._mode
        )
        self._announce(session)
        return schema.NewSessionResponse(session_id=session.id, modes=session_modes(session.mode))

    async def load_session(
        self,
        cwd: str,
        session_id: str,
        mcp_servers: list[McpServer] | None = None,
        additional_directories: list[str] | None = None,
        **meta: Any,
    ) -> schema.LoadSessionResponse:
        session = await self._again(
            session_id, cwd, additional_directories or [], mcp_servers or [], is_shown=True
        )
        return schema.LoadSessionResponse(modes=session_modes(session.mode))

    async def resume_session(
        self,
        session_id: str,
        cwd: str,
        additional_directories: list[str] | None = None,
        mcp_servers: list[McpServer] | None = None,
        **meta: Any,
    ) -> schema.ResumeSessionResponse:
        session = await self._again(
            session_id, cwd, additional_directories or [], mcp_servers or [], is_shown=False
        )
        return schema.ResumeSessionResponse(modes=session_modes(session.mode))

    async def list_sessions(
        self, cwd: str | None = None, cursor: str | None = None, **meta: Any
    ) -> schema.ListSessionsResponse:
        found = await asyncio.to_thread(self._saved.list, cwd)
        start = int(cursor) if cursor and cursor.isdecimal() else 0
        end = start + _SESSIONS_A_PAGE
        return schema.ListSessionsResponse(
            sessions=[_info(session) for session in found[start:end]],
            next_cursor=str(end) if end < len(found) else None,
        )

    async def set_session_mode(
        self, session_id: str, mode_id: str, **meta: Any
    ) -> schema.SetSessionModeResponse:
        session = self._one(session_id)
        mode = mode_named(mode_id)
        if mode is None:
            raise RequestError(
                _INVALID_PARAMS, f"there is no mode {mode_id!r}; there are {', '.join(MODES)}"
            )
        session.mode = mode
        return schema.SetSessionModeResponse()

    async def prompt(
        self, session_id: str, prompt: list[Block], **meta: Any
    ) -> schema.PromptResponse:
        session = self._one(session_id)
        try:
            return schema.PromptResponse(stop_reason=await session.prompt(prompt))
        except BusyError as error:
            raise RequestError(_INVALID_REQUEST, str(error)) from error
        except (PromptError, CommandError) as error:
            raise RequestError(_INVALID_PARAMS, str(error)) from error
        except (FailedError, EngineError, WorkspaceError, CheckpointError, OSError) as error:
            raise RequestError(_INTERNAL_ERROR, str(error)) from error

    async def cancel(self, session_id: str, **meta: Any) -> None:
        self._one(session_id).cancel()

    async def close_session(self, session_id: str, **meta: Any) -> schema.CloseSessionResponse:
        session = self._one(session_id)
        del self._sessions[session_id]
        await session.close()
        return schema.CloseSessionResponse()

    # Within. --------------------------------------------------------------------------------------

    def _one(self, id: str) -> Session:
        if id not in self._sessions:
            raise RequestError(_NOT_FOUND, f"there is no session {id!r} here")
        return self._sessions[id]

    async def _open(
        self,
        id: str,
        cwd: str,
        additional: Sequence[str],
        mcp_servers: Sequence[McpServer],
        mode: Mode,
    ) -> Session:
        """Raises: RequestError."""
        if self._connection is None or self._capabilities is None:
            raise RequestError(_INVALID_REQUEST, "initialize comes before the first session")
        roots = [_folder("cwd", cwd)]
        roots += [_folder("additionalDirectories", each) for each in additional]
        paths = await asyncio.to_thread(ClientPaths, roots)
        session = Session(
            id=id,
            cwd=cwd,
            additional=tuple(additional),
            paths=paths,
            client=SessionClient(self._connection, id, self._capabilities),
            model=self._model,
            index=None if self._indexes is None else await self._indexes.of(paths.roots),
            settings=self._settings,
            state=self._state,
            saved=self._saved,
            mode=mode,
            tool_servers=named_by_client(mcp_servers),
        )
        self._sessions[id] = session
        return session

    async def _again(
        self,
        id: str,
        cwd: str,
        additional: Sequence[str],
        mcp_servers: Sequence[McpServer],
        *,
        is_shown: bool,
    ) -> Session:
        """A saved session, opened; one that is open here begins anew from what was saved."""
        try:
            saved = await asyncio.to_thread(self._saved.read, id)
            transcripts = await asyncio.to_thread(self._transcripts, saved)
        except (SavedSessionError, TranscriptError) as error:
            raise RequestError(_NOT_FOUND, str(error)) from error
        if saved.cwd != cwd:
            raise RequestError(_INVALID_PARAMS, f"the session {id} is of {saved.cwd}, not of {cwd}")
        if id in self._sessions:
            await self._sessions[id].close()
        mode = mode_named(saved.mode) or self._mode
        session = await self._open(id, cwd, additional, mcp_servers, mode)
        session.title, session.transcripts = saved.title, list(saved.transcripts)
        session.conversation = Conversation(transcripts[-1] if transcripts else None)
        if is_shown:
            replay(transcripts, session.paths, session.updates)
            await session.updates.flush()
        self._announce(session)
        return session

    def _transcripts(self, saved: SavedSession) -> list[Transcript]:
        """Raises: TranscriptError."""
        folder = transcripts_in(self._state)
        return [Transcript.read(folder / f"{each}.jsonl") for each in saved.transcripts]

    def _announce(self, session: Session) -> None:
        """The slash commands, once the client knows the session by the answer."""

        async def announce() -> None:
            session.updates.send(helpers.update_available_commands(available_commands()))

        task = asyncio.ensure_future(announce())
        self._announcing.add(task)
        task.add_done_callback(self._announcing.discard)


async def serve(
    stdin: int,
    stdout: int,
    server: AcpServer,
    on_end: Callable[[], None],
) -> None:
    """Until the client closes the input."""
    transport = StdioTransport(stdin, stdout, on_end)
    connection = AgentSideConnection(
        # The SDK tells the client of methods that are not here.
        cast("Agent", server),
        transport,
        listening=False,
        # `session/close` and `session/resume` are in the protocol by now; other methods that are
        # not yet have no handler here.
        use_unstable_protocol=True,
    )
    try:
        await connection.listen()
    finally:
        await server.close()
        await connection.close()


def _folder(name: str, path: str) -> Path:
    """Raises: RequestError."""
    folder = Path(path)
    if not folder.is_absolute():
        raise RequestError(_INVALID_PARAMS, f"{name} must be an absolute path, not {path!r}")
    if not folder.is_dir():
        raise RequestError(_INVALID_PARAMS, f"{name}: {path} is no folder")
    return folder


def _info(session: SavedSession) -> schema.SessionInfo:
    return schema.SessionInfo(
        session_id=session.id,
        cwd=session.cwd,
        additional_directories=list(session.additional) or None,
        title=session.title or None,
        updated_at=session.updated,
    )

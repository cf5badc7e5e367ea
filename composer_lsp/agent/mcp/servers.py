"""The tool servers of one run: started when the user lets them, their tools offered, all ended with it."""

import asyncio
import hashlib
import importlib
import importlib.util
import json
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self, cast

from composer_lsp.agent.calls import MAX_RESULT_CHARS, cut_middle
from composer_lsp.agent.events import Event, NoticeEvent
from composer_lsp.agent.mcp.approval import Grants, ServerApprovals, ServerApprover
from composer_lsp.agent.mcp.configuration import (
    FILE_NAME,
    Configured,
    Named,
    Server,
    ServerError,
    Source,
    configured_servers,
)
from composer_lsp.agent.mcp.connection import CallError, Connection, Limits, LostError
from composer_lsp.agent.mcp.launch import Launch, resolve
from composer_lsp.agent.mcp.offer import (
    MAX_TOOLS,
    Listed,
    offered_names,
    schema_for_model,
    unfit,
)
from composer_lsp.agent.mcp.results import text_of
from composer_lsp.agent.mcp.shown import seen, shown
from composer_lsp.agent.tools.context import ToolContext
from composer_lsp.agent.tools.schema import ArgumentError
from composer_lsp.agent.tools.tool import Tool, ToolError

INSTALL = "pip install 'composer-lsp[mcp]'"
MAX_STARTS = 2
"""Of one server in a run: once, and once more after it has ended."""
MAX_ARGUMENT_CHARS = 200_000
_PROGRESS_EVERY_S = 1.0
_WHY: Mapping[Source, str] = {
    "settings": "The settings name it (composer.agent.mcpServers).",
    "command line": "A file names it that was given on the command line (--mcp-config).",
    "client": "The editor offers it for this session.",
    "workspace": f"The file {FILE_NAME} names it, which came with this workspace.",
}

Emit = Callable[[Event], None]


@dataclass(frozen=True, slots=True)
class ServerTool(Tool):
    """Its arguments are for the server to check: `function` gets them as they came."""

    async def call(self, context: ToolContext, arguments: object) -> str:
        if not isinstance(arguments, dict):
            raise ArgumentError(f"the arguments must be an object, not {type(arguments).__name__}")
        return await self.function(context, cast("dict[str, Any]", arguments))


class ToolServers:
    """`async with ToolServers(…) as servers: tools = await servers.tools()` (or `tool_servers`).
    Event loop only.

    Cheap where no server is configured. Leaving it ends all servers and their processes.
    """

    def __init__(
        self,
        configured: Configured,
        roots: Sequence[Path],
        approvals: ServerApprovals,
        emit: Emit,
        *,
        environ: Mapping[str, str] = os.environ,
        limits: Limits | None = None,
    ) -> None:
        self._configured = configured
        self._emit = emit
        self._servers = [
            _Running(server, roots, approvals, emit, environ, limits or Limits())
            for server in configured.servers
        ]

    def leave_out(self, why: str) -> None:
        """Tell the user that none is used, if there are any."""
        if self._servers or self._configured.problems:
            self._emit(NoticeEvent(why))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        closing = asyncio.gather(*(server.close() for server in self._servers))
        is_cancelled = False
        while not closing.done():
            try:
                await asyncio.shield(closing)
            except asyncio.CancelledError:
                is_cancelled = True
        if is_cancelled:
            raise asyncio.CancelledError

    async def tools(self) -> Sequence[Tool]:
        """Starts all servers at the same time, asking for those that are not approved. What does not
        come up is told as a notice and left out. The order is that of the configuration."""
        for problem in self._configured.problems:
            self._emit(NoticeEvent(shown(problem, 600)))
        if not self._servers:
            return []
        if not has_client():
            names = ", ".join(shown(server.name, 64) for server in self._servers)
            self._emit(NoticeEvent(f"The tool servers {names} need the MCP client: {INSTALL}"))
            return []
        await asyncio.to_thread(importlib.import_module, "mcp")  # half a second and more
        listed = await asyncio.gather(*(server.offer() for server in self._servers))
        pairs = [
            (server, tool)
            for server, tools in zip(self._servers, listed, strict=True)
            for tool in tools
        ]
        names = offered_names([(server.name, tool.name) for server, tool in pairs])
        return [
            _tool(name, server, tool) for name, (server, tool) in zip(names, pairs, strict=True)
        ]


async def tool_servers(
    named: Sequence[Named],
    roots: Sequence[Path],
    state: Path,
    approver: ServerApprover | None,
    emit: Emit,
) -> ToolServers:
    """Of one run. `named`: besides those of files in the workspace; `state`: the user's state folder,
    for his approvals; `approver`: None where nobody can be asked."""
    configured = await asyncio.to_thread(configured_servers, named, roots)
    approvals = ServerApprovals(Grants.of_workspace(state, roots[0]), approver)
    return ToolServers(configured, roots, approvals, emit)


def has_client() -> bool:
    """Whether the MCP client is installed, without which no server is used."""
    return importlib.util.find_spec("mcp") is not None


def _tool(name: str, server: "_Running", tool: Listed) -> Tool:
    async def function(context: ToolContext, arguments: dict[str, Any]) -> str:
        return await server.call(name, tool.name, arguments)

    return ServerTool(
        name=name,
        description=tool.described(server.name),
        parameters=schema_for_model(tool.schema),
        only_reads=False,  # what a server says of that is its own word
        function=function,
    )


class _Running:
    """One server, its approvals, and what of it was offered."""

    def __init__(
        self,
        server: Server,
        roots: Sequence[Path],
        approvals: ServerApprovals,
        emit: Emit,
        environ: Mapping[str, str],
        limits: Limits,
    ) -> None:
        self.name = server.name
        self._server = server
        self._roots = roots
        self._approvals = approvals
        self._emit = emit
        self._environ = environ
        self._limits = limits
        self._connection: Connection | None = None
        self._identity = ""
        self._num_starts = 0
        self._tools: dict[str, Listed] = {}
        """As the model knows them."""
        self._turn = asyncio.Lock()

    async def offer(self) -> Sequence[Listed]:
        """Its tools, if it may be used, comes up, and they may be offered."""
        try:
            async with self._turn:
                await self._start()
                tools = await self._approved()
        except (ServerError, CallError, LostError, ToolError) as error:
            self._notice(f"is not used: {shown(str(error), 1_200)}")
            await self.close()
            return []
        self._tools = {tool.name: tool for tool in tools}
        return tools

    async def call(self, offered: str, tool: str, arguments: dict[str, Any]) -> str:
        """Raises: ToolError."""
        text = json.dumps(arguments, ensure_ascii=False)
        if len(text) > MAX_ARGUMENT_CHARS:
            raise ToolError(f"the arguments have more than {MAX_ARGUMENT_CHARS:,} characters")
        try:
            async with self._turn:
                await self._current(offered, tool)
            digest = self._bound(self._tools[tool])
            if not await self._approvals.call(self.name, tool, digest, text):
                why = "the user has denied it" if self._approvals.can_ask else "nobody can be asked"
                raise ToolError(f"{offered} was not called: {why}")
            assert self._connection is not None
            if self._connection.has_changed:
                raise ToolError(f"{offered} was changed while the user was asked; call it again")
            result = await self._connection.call(tool, arguments, self._progress(tool))
        except (CallError, ServerError) as error:
            raise ToolError(f"{offered}: {error}") from error
        except LostError as error:
            again = (
                "it is started again with the next call"
                if self._num_starts < MAX_STARTS
                else "it is not started again in this run"
            )
            raise ToolError(f"the server of {offered} is gone: {error}; {again}") from error
        text = cut_middle(text_of(result), MAX_RESULT_CHARS)
        if result.is_error:
            raise ToolError(text)
        return text

    async def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.close()

    async def _current(self, offered: str, name: str) -> None:
        """The server runs, and its tools are those that the user has approved.

        Raises: ToolError if the tool is not what the model knows; and as `_start`, `_approved`.
        """
        if self._connection is None or not self._connection.is_alive:
            if self._num_starts >= MAX_STARTS:
                raise LostError("it has ended more than once")
            await self._start()
        assert self._connection is not None
        if not self._connection.has_changed:
            return
        known = self._tools.get(name)
        self._tools = {tool.name: tool for tool in await self._approved()}
        if name not in self._tools:
            raise ToolError(f"{offered} is no more: its server has withdrawn it")
        now = self._tools[name]
        if known is not None and now.schema != known.schema:
            raise ToolError(
                f"not called: {offered} has been changed by its server, and takes by now "
                f"{json.dumps(now.schema)}. Call it again if it still fits.\n"
                f"{now.described(self.name)}"
            )

    async def _start(self) -> None:
        """Raises: ServerError, LostError."""
        await self.close()
        launch = await self._approved_launch()
        self._num_starts += 1
        connection = Connection(launch, self._roots, self._limits)
        self._connection = connection
        await connection.open()
        connection.has_changed = True  # its tools are not known yet
        self._identity = launch.identity

    async def _approved_launch(self) -> Launch:
        """What was resolved after the user has said yes to the same. Raises: ServerError."""
        approved = ""
        for _ in range(3):
            launch = await asyncio.to_thread(resolve, self._server, self._roots, self._environ)
            if launch.identity == approved:
                return launch
            if not await self._approvals.start(self.name, launch.identity, launch.lines, self._why):
                raise ServerError(
                    "the user did not allow it; `disabled` in the settings keeps it from being asked"
                    if self._approvals.can_ask
                    else "it has to be approved first, and nobody can be asked"
                )
            approved = launch.identity
        raise ServerError("it changes all the time")

    @property
    def _why(self) -> str:
        return _WHY[self._server.source]

    async def _approved(self) -> list[Listed]:
        """The tools as they are now. Raises: CallError, LostError, ToolError."""
        assert self._connection is not None
        fit: dict[str, Listed] = {}
        listed = await self._connection.tools()
        if len(listed) > MAX_TOOLS:
            self._notice(f"has more than {MAX_TOOLS} tools; the first ones are offered")
        for tool in listed[:MAX_TOOLS]:
            if (why := unfit(tool)) is not None or tool.name in fit:
                self._notice(
                    f"has a tool {shown(tool.name, 64)} that is left out: {why or 'twice'}"
                )
            else:
                fit[tool.name] = tool
        digests = {name: self._bound(tool) for name, tool in fit.items()}
        texts = {name: tool.asked for name, tool in fit.items()}
        if fit and not await self._approvals.tools(self.name, digests, texts):
            # What was approved before does not hold for what they are now.
            self._connection.has_changed = True
            raise ToolError(
                "its tools have to be approved, and "
                + ("the user did not" if self._approvals.can_ask else "nobody can be asked")
            )
        return list(fit.values())

    def _bound(self, tool: Listed) -> str:
        """The same tool of another program is another tool."""
        return hashlib.sha256(f"{self._identity} {tool.digest}".encode()).hexdigest()

    def _progress(self, tool: str) -> Callable[[str], None]:
        last = 0.0

        def tell(text: str) -> None:
            nonlocal last
            if time.monotonic() - last >= _PROGRESS_EVERY_S:
                last = time.monotonic()
                self._notice(f"{shown(tool, 64)}: {seen(text)}", level="information")

        return tell

    def _notice(self, text: str, level: Any = "warning") -> None:
        self._emit(NoticeEvent(f"The tool server {shown(self.name, 64)} {text}", level))

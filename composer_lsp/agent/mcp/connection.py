"""One connected server. A task of its own enters and leaves what the SDK wants entered and left in
one task; calls come from anywhere."""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

from composer_lsp import __version__
from composer_lsp.agent.mcp.http import http_transport
from composer_lsp.agent.mcp.launch import Launch, Process
from composer_lsp.agent.mcp.link import Link
from composer_lsp.agent.mcp.offer import MAX_TOOLS, Listed
from composer_lsp.agent.mcp.shown import shown
from composer_lsp.agent.mcp.stdio import exit_text, stdio_transport

if TYPE_CHECKING:
    from mcp import Client
    from mcp.types import CallToolResult, ListRootsResult

logger = logging.getLogger(__name__)

_MAX_PAGES = 32
_MAX_SHOWN_CHARS = 400
T = TypeVar("T")
Progress = Callable[[str], None]


class CallError(Exception):
    """A server refused a request or answered it wrongly; the text says how. It goes on."""


class LostError(Exception):
    """A server could not be reached, did not come up, or has ended; the text says why."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Limits:
    start_s: float = 60.0
    """Until a server has answered the first request; some fetch themselves before."""
    list_s: float = 20.0
    call_s: float = 120.0
    """Without progress."""
    progress_s: float = 900.0
    """Of a call that makes progress."""


class Connection:
    def __init__(self, launch: Launch, roots: Sequence[Path], limits: Limits) -> None:
        self._launch = launch
        self._roots = roots
        self._limits = limits
        self._link = Link()
        self._stop = asyncio.Event()
        self._ready: asyncio.Future[Client] = asyncio.get_running_loop().create_future()
        self._task = asyncio.create_task(self._serve())
        self.has_changed = False
        """The server has told that its tools are others now."""

    @property
    def is_alive(self) -> bool:
        return not self._task.done() and not self._link.ended.is_set()

    async def open(self) -> None:
        """Raises: LostError."""
        done, _ = await asyncio.wait(
            {self._ready, self._task},
            timeout=self._limits.start_s,
            return_when=asyncio.FIRST_COMPLETED,
        )
        if self._ready in done:
            return
        if not done:
            self._link.end(f"it did not answer within {self._limits.start_s:.0f} s")
        await self.close()
        raise LostError(self._why())

    async def tools(self) -> list[Listed]:
        """Raises: CallError, LostError."""
        self.has_changed = False
        return await self._asked(self._list, self._limits.list_s)

    async def call(
        self, tool: str, arguments: Mapping[str, Any], tell: Progress
    ) -> "CallToolResult":
        """Cancelling it tells the server. Raises: CallError, LostError."""
        client = self._ready.result()
        deadline = asyncio.timeout(self._limits.call_s)
        latest = asyncio.get_running_loop().time() + self._limits.progress_s

        async def on_progress(progress: float, total: float | None, message: str | None) -> None:
            if not deadline.expired():
                soon = asyncio.get_running_loop().time() + self._limits.call_s
                deadline.reschedule(min(latest, soon))
            of = f" of {total:g}" if total else ""
            tell(f"{progress:g}{of} {shown(message or '', 200)}".strip())

        async def request() -> "CallToolResult":
            async with deadline:
                return await client.call_tool(tool, dict(arguments), progress_callback=on_progress)

        return await self._asked(request, None)

    async def close(self) -> None:
        """Ends it and all its processes; returns when they are gone, also where it is cancelled."""
        self._stop.set()
        if not self._ready.done():
            # It may be waiting for an answer that does not come.
            self._task.cancel()
        is_cancelled = False
        while not self._task.done():
            try:
                await asyncio.wait({self._task})
            except asyncio.CancelledError:
                is_cancelled = True
        if is_cancelled:
            raise asyncio.CancelledError

    async def _serve(self) -> None:
        try:
            await self._connected()
        except Exception as error:  # the boundary to the SDK, which raises groups of all kinds
            logger.info("the connection to a tool server ended: %s", type(error).__name__)
            self._link.end(_described(error))
        finally:
            self._link.end()

    async def _connected(self) -> None:
        from mcp import Client
        from mcp.types import Implementation

        target = self._launch.target
        transport = (
            stdio_transport(target, self._link)
            if isinstance(target, Process)
            else http_transport(target)
        )
        client = Client(
            transport,
            client_info=Implementation(name="composer-lsp", version=__version__),
            list_roots_callback=self._list_roots,
            message_handler=self._on_message,
            cache=None,
        )
        async with client:
            # It would check results by the server's own schema, whose patterns may take for ever.
            client.session.validate_tool_result = _unchecked
            self._ready.set_result(client)
            listening = asyncio.create_task(self._listen(client))
            stopping = asyncio.create_task(self._stop.wait())
            ending = asyncio.create_task(self._link.ended.wait())
            try:
                await asyncio.wait({stopping, ending}, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for task in (listening, stopping, ending):
                    task.cancel()
                await asyncio.gather(listening, stopping, ending, return_exceptions=True)

    async def _listen(self, client: "Client") -> None:
        """Servers of the protocol of 2026 tell of changes only who listens. One that does not let us
        listen is heard of with the next run."""
        from mcp.client.subscriptions import ListenNotSupportedError, SubscriptionLost
        from mcp.shared.exceptions import MCPError

        with contextlib.suppress(ListenNotSupportedError, SubscriptionLost, MCPError):
            async with client.listen(tools_list_changed=True) as subscription:
                async for _ in subscription:
                    self.has_changed = True

    async def _on_message(self, message: object) -> None:
        from mcp.types import ToolListChangedNotification

        if isinstance(message, ToolListChangedNotification):
            self.has_changed = True

    async def _list_roots(self, context: object) -> "ListRootsResult":
        from mcp.types import ListRootsResult, Root

        roots = [
            Root.model_validate({"uri": root.as_uri(), "name": root.name}) for root in self._roots
        ]
        return ListRootsResult(roots=roots)

    async def _list(self) -> list[Listed]:
        """One more than `MAX_TOOLS` at most."""
        client = self._ready.result()
        found: list[Listed] = []
        cursor: str | None = None
        for _ in range(_MAX_PAGES):
            page = await client.list_tools(cursor=cursor)
            found += [
                Listed(name=tool.name, description=tool.description or "", schema=tool.input_schema)
                for tool in page.tools
            ]
            cursor = page.next_cursor
            if cursor is None or len(found) > MAX_TOOLS:
                break
        return found[: MAX_TOOLS + 1]

    async def _asked(self, request: Callable[[], Awaitable[T]], limit_s: float | None) -> T:
        """Raises: CallError, LostError."""
        from mcp.shared.exceptions import MCPError
        from mcp.types import CONNECTION_CLOSED

        try:
            async with asyncio.timeout(limit_s):
                return await request()
        except TimeoutError:
            raise CallError("it did not answer in time") from None
        except MCPError as error:
            is_lost = error.code == CONNECTION_CLOSED or error.message == "Session terminated"
            if not is_lost and not self._link.ended.is_set():
                text = shown(error.message, _MAX_SHOWN_CHARS)
                raise CallError(f"it refused: {text}") from None
            self._link.end("" if isinstance(self._launch.target, Process) else error.message)
        except Exception as error:  # the boundary to the SDK: validation, streams, recursion
            if not self._link.ended.is_set():
                raise CallError(f"its answer is none: {_described(error)}") from error
        await self.close()
        raise LostError(self._why())

    def _why(self) -> str:
        parts = [shown(self._link.reason, _MAX_SHOWN_CHARS)] if self._link.reason else []
        if isinstance(self._launch.target, Process) and not parts:
            parts.append(exit_text(self._link.exit_status))
        tail = self._link.stderr.decode(errors="replace").strip()
        if tail:
            parts.append(
                f"the end of its stderr: {shown(tail[-_MAX_SHOWN_CHARS:], _MAX_SHOWN_CHARS)}"
            )
        return "; ".join(parts) or "the connection ended"


async def _unchecked(name: str, result: object) -> None:
    pass


def _described(error: BaseException) -> str:
    """The first single error of a group."""
    while isinstance(error, BaseExceptionGroup):
        error = cast("BaseExceptionGroup[BaseException]", error).exceptions[0]
    return f"{type(error).__name__}: {shown(str(error), _MAX_SHOWN_CHARS)}"

"""The transport to a server that is a process: a JSON-RPC message a line.

The SDK has one too. This one gives the process only the environment that it is to have, bounds what
the process may write, keeps the end of its stderr to tell the user, and ends all that it started.
"""

import asyncio
import contextlib
import os
import secrets
import signal
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import psutil

from composer_lsp.agent.commands.processes import MARK, kill_and_wait, signal_group
from composer_lsp.agent.mcp.launch import Process
from composer_lsp.agent.mcp.link import Link

if TYPE_CHECKING:
    from mcp.client._transport import TransportStreams

MAX_LINE_BYTES = 8_000_000
MAX_UNASKED_BYTES = 32_000_000
"""That a server may write after a request of ours until the next one."""
MAX_UNASKED_MESSAGES = 20_000
"""Likewise; a message costs the SDK up to a millisecond."""
MAX_STRAY_LINES = 100
"""Lines on stdout that are no message, such as a greeting, before the server is given up."""
_LOG = "notifications/message"
_STDERR_TAIL_BYTES = 2_000
_STDERR_FREE_BYTES = 1_000_000
_STDERR_PAUSE_S = 0.1
"""Between reads of up to 64 KiB, once a server has written more than the free bytes."""
_LEAVE_S = 1.0
"""For a server to end after its stdin was closed; then to end after SIGTERM."""
_POLL_S = 0.01


@asynccontextmanager
async def stdio_transport(process: Process, link: Link) -> AsyncGenerator["TransportStreams"]:
    """Starts the process; on leaving, none of its processes is left. `link` learns of its end.

    Raises: OSError where it cannot be started.
    """
    import anyio
    from mcp.shared.message import SessionMessage

    mark = secrets.token_hex(16)
    child = await asyncio.create_subprocess_exec(
        *process.argv,
        cwd=process.cwd,
        env={**process.env, MARK: mark},
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        limit=MAX_LINE_BYTES,
        start_new_session=True,
    )
    to_session, from_server = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    to_server, from_session = anyio.create_memory_object_stream[SessionMessage](0)
    quota = _Quota()

    async def read() -> None:
        async with to_session:
            with contextlib.suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
                await _read(child, quota, link, to_session.send)
        link.end()

    async def write() -> None:
        async with from_session:
            try:
                async for message in from_session:
                    await _write(child, quota, message)
            except OSError as error:
                link.end(f"it reads no more: {error}")

    tasks = [asyncio.create_task(each) for each in (read(), write(), _watch_stderr(child, link))]
    try:
        yield from_server, to_server
    finally:
        ending = asyncio.create_task(_end(child, mark, link))
        # However often this is cancelled: the process must not stay.
        while not ending.done():
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.shield(ending)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for stream in (from_server, to_server):
            stream.close()


class _Quota:
    """Counts what a server writes since we last asked it something."""

    def __init__(self) -> None:
        self._num_bytes = 0
        self._num_messages = 0

    def reset(self) -> None:
        self._num_bytes = self._num_messages = 0

    def exceeded(self, num_bytes: int) -> str | None:
        """Counts a message; what it may not, in words."""
        self._num_bytes += num_bytes
        self._num_messages += 1
        if self._num_bytes > MAX_UNASKED_BYTES:
            return f"it wrote more than {MAX_UNASKED_BYTES:,} bytes unasked"
        if self._num_messages > MAX_UNASKED_MESSAGES:
            return f"it wrote more than {MAX_UNASKED_MESSAGES:,} messages unasked"
        return None


async def _read(
    child: asyncio.subprocess.Process,
    quota: _Quota,
    link: Link,
    send: Callable[..., Awaitable[None]],
) -> None:
    from mcp.shared.message import SessionMessage
    from mcp.types import JSONRPCNotification, jsonrpc_message_adapter

    assert child.stdout is not None
    num_stray = 0
    while True:
        try:
            line = await child.stdout.readuntil(b"\n")
        except asyncio.IncompleteReadError:
            return
        except asyncio.LimitOverrunError:
            link.end(f"it wrote a message of more than {MAX_LINE_BYTES:,} bytes")
            return
        if (reason := quota.exceeded(len(line))) is not None:
            link.end(reason)
            return
        if not line.strip():
            continue
        try:
            message = jsonrpc_message_adapter.validate_json(line, by_name=False)
        except ValueError:
            num_stray += 1
            if num_stray > MAX_STRAY_LINES:
                link.end("what it writes to its standard output are no messages of the protocol")
                return
            continue
        if isinstance(message, JSONRPCNotification) and message.method == _LOG:
            continue  # nobody reads them, and some servers write many
        await send(SessionMessage(message))


async def _write(child: asyncio.subprocess.Process, quota: _Quota, message: object) -> None:
    from mcp.shared.message import SessionMessage
    from mcp.types import JSONRPCRequest

    assert isinstance(message, SessionMessage) and child.stdin is not None
    if isinstance(message.message, JSONRPCRequest):
        quota.reset()
    text = message.message.model_dump_json(by_alias=True, exclude_unset=True)
    child.stdin.write(text.encode() + b"\n")
    await child.stdin.drain()


async def _watch_stderr(child: asyncio.subprocess.Process, link: Link) -> None:
    assert child.stderr is not None
    num_bytes = 0
    while data := await child.stderr.read(65_536):
        num_bytes += len(data)
        link.stderr = (link.stderr + data)[-_STDERR_TAIL_BYTES:]
        if num_bytes > _STDERR_FREE_BYTES:
            await asyncio.sleep(_STDERR_PAUSE_S)


async def _end(child: asyncio.subprocess.Process, mark: str, link: Link) -> None:
    """Close its input, ask it to leave, and kill what is left, wherever that has gone."""
    assert child.stdin is not None
    child.stdin.close()
    if not await _has_left(child):
        signal_group(child.pid, kill=False)
        if not await _has_left(child):
            signal_group(child.pid, kill=True)
            await _has_left(child)
    link.exit_status = child.returncode
    await asyncio.to_thread(_kill_left, child.pid, mark)
    transport = getattr(child, "_transport", None)
    if transport is not None:
        transport.close()  # or a pipe that a process outside of our reach holds keeps it open


async def _has_left(child: asyncio.subprocess.Process) -> bool:
    """Within the time for it. Not `wait()`, which waits for the pipes too."""
    deadline = asyncio.get_running_loop().time() + _LEAVE_S
    while child.returncode is None and asyncio.get_running_loop().time() < deadline:
        await asyncio.sleep(_POLL_S)
    return child.returncode is not None


def _kill_left(pid: int, mark: str) -> None:
    """What is of the server's session or carries its mark. Again, until a look finds none: one of them
    may just have started another."""
    for _ in range(5):
        found = [
            each for each in psutil.process_iter() if each.pid != pid and _is_of(each, pid, mark)
        ]
        if not found:
            return
        kill_and_wait(found)


def _is_of(process: psutil.Process, session: int, mark: str) -> bool:
    with contextlib.suppress(psutil.Error, OSError):
        if process.status() == psutil.STATUS_ZOMBIE:
            return False
        return os.getsid(process.pid) == session or process.environ().get(MARK) == mark
    return False


def exit_text(status: int | None) -> str:
    if status is None:
        return "it had to be ended"
    if status < 0:
        try:
            return f"it was ended by {signal.Signals(-status).name}"
        except ValueError:
            return f"it was ended by the signal {-status}"
    return f"it ended with the exit status {status}"

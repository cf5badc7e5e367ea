"""Running a command: no terminal, no input, bounded output, and an end that leaves nothing behind."""

import asyncio
import contextlib
import logging
import signal
import sys
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from composer_lsp.agent.commands import processes
from composer_lsp.agent.commands.bubblewrap import SandboxError
from composer_lsp.agent.commands.output import Output, Stream
from composer_lsp.agent.commands.shell import Invocation

_log = logging.getLogger(__name__)

Ended = Literal["exited", "signalled", "timed_out", "stopped", "too_many_processes"]
OnOutput = Callable[[str], None]

_MAX_OUTPUT_BYTES = 48_000
_GRACE_S = 2.0
"""Between asking a command to end and making it."""
_DRAIN_S = 1.0
_NAMESPACE_S = 30.0
"""For output that is still in the pipe, whose end tells that the last process has ended. One that
has fled from outside of a sandbox is not waited for; a namespace of thousands takes its time."""
_WATCH_S = 0.05
_STDERR = 2
_OWN = ("bwrap", "unshare", "setpriv")
_PAUSE_S = 0.001
"""After each piece of output that nobody will see: about 64 MB/s, so that `yes` costs no core."""


@dataclass(frozen=True, kw_only=True, slots=True)
class CommandResult:
    output: str
    """Standard output and error in the order they came, made readable; its middle may be cut."""
    num_output_bytes: int
    exit_code: int | None
    """None if a signal ended it."""
    signal: str | None
    """Its name, such as `SIGKILL`; a shell tells of one by a code above 128."""
    ended: Ended
    duration_s: float
    errors: str = ""
    """Standard error, where it was asked for apart from the output."""
    changes: Mapping[Path, bytes | None] = field(default_factory=dict[Path, bytes | None])
    """What it made of files that git does not ignore, by absolute path; None: it deleted the file.
    None of it is on the disk. Empty where commands do not see what is staged, and change the disk."""
    modes: Mapping[Path, int] = field(default_factory=dict[Path, int])
    """Permission bits that it gave to files that are in `changes` or were staged before."""
    kept: tuple[Path, ...] = ()
    """What is different on the disk at once: new files that are no text or too large to be staged,
    and what the user agreed to."""
    ignored: tuple[Path, ...] = ()
    """Files that git ignores, that were there before and that it changed on the disk at once, but
    for those in build folders; and build folders that it emptied. New ones are not named."""
    left_out: tuple[Path, ...] = ()
    """What it did and that is nowhere now: links and special files, git folders, what could not be
    written, and what the user did not agree to."""
    stale: tuple[Path, ...] = ()
    """Of a command in the background: files that it changed and that have changed on the disk since it
    began. What it made of them is nowhere now."""


async def run_command(
    invocation: Invocation,
    *,
    timeout_s: float,
    on_output: OnOutput | None = None,
    max_output_bytes: int = _MAX_OUTPUT_BYTES,
    grace_s: float = _GRACE_S,
    splits_errors: bool = False,
) -> CommandResult:
    """Run to its end or for `timeout_s`. `on_output` gets text as it comes, at most
    `max_output_bytes` of it, on the event loop. Cancelling ends the command first. When it returns,
    nothing that the command started runs any more. Raises: SandboxError."""
    running = await RunningCommand.start(
        invocation,
        on_output=on_output,
        max_output_bytes=max_output_bytes,
        grace_s=grace_s,
        splits_errors=splits_errors,
    )
    try:
        async with asyncio.timeout(timeout_s):
            await running.wait()
    except TimeoutError:
        await running.stop("timed_out")
    finally:
        await asyncio.shield(asyncio.ensure_future(running.stop("stopped")))
    return running.result()


class RunningCommand:
    """A command that was started. Its owner stops it."""

    def __init__(self, invocation: Invocation, protocol: "_Protocol", grace_s: float) -> None:
        self._invocation = invocation
        self._protocol = protocol
        self._grace_s = grace_s
        self._mark = invocation.environ.get(processes.MARK, "")
        self._started_s = time.monotonic()
        self._duration_s: float | None = None
        self._ended: Ended = "exited"
        self._stopping: asyncio.Task[None] | None = None
        self._watch: asyncio.Task[None] | None = None

    @classmethod
    async def start(
        cls,
        invocation: Invocation,
        *,
        on_output: OnOutput | None = None,
        max_output_bytes: int = _MAX_OUTPUT_BYTES,
        grace_s: float = _GRACE_S,
        splits_errors: bool = False,
    ) -> "RunningCommand":
        """`splits_errors`: standard error is kept apart, `on_output` gets both.
        Raises: SandboxError if it cannot be started at all."""
        environ = {**invocation.environ, processes.MARK: uuid.uuid4().hex}
        invocation = replace(invocation, environ=environ)
        try:
            _, protocol = await asyncio.get_running_loop().subprocess_exec(
                lambda: _Protocol(max_output_bytes, on_output, splits_errors=splits_errors),
                *invocation.argv,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE if splits_errors else asyncio.subprocess.STDOUT,
                cwd=invocation.cwd,
                env=environ,
                start_new_session=sys.platform != "win32",
            )
        except OSError as error:
            raise SandboxError(f"the command cannot be started: {error}") from error
        running = cls(invocation, protocol, grace_s)
        if invocation.is_watched:
            running._watch = asyncio.create_task(running._count_processes())
        return running

    @property
    def is_running(self) -> bool:
        return not self._protocol.exited.is_set()

    @property
    def output(self) -> Output:
        return self._protocol.output

    def replace_output(self, output: Output) -> Output:
        """What comes from now on goes to another place; returns what came so far."""
        before, self._protocol.output = self._protocol.output, output
        return before

    async def wait(self) -> None:
        """Until its first process has ended; others may be left, until `stop`."""
        await self._protocol.exited.wait()

    async def stop(self, why: Ended = "stopped") -> None:
        """End all of it: asked first, then made, if it still runs. May be called at any time, and
        more than once."""
        if self._stopping is None:
            self._stopping = asyncio.create_task(self._stop(why))
        await asyncio.shield(self._stopping)

    def result(self) -> CommandResult:
        """After `stop`. Raises: SandboxError if the sandbox could not be set up."""
        code = self._protocol.exit_code
        text = self.output.text()
        errors = self._protocol.errors.text() if self._protocol.errors else ""
        told = errors or text
        if self._invocation.is_sandboxed and code == 1 and told.startswith("bwrap: "):
            raise SandboxError(f"the sandbox could not be set up: {told.strip()}")
        name = _signal_name(code)
        ended: Ended = "signalled" if code < 0 and self._ended == "exited" else self._ended
        return CommandResult(
            output=text,
            errors=errors,
            num_output_bytes=self.output.num_bytes,
            exit_code=None if code < 0 else code,
            signal=name,
            ended=ended,
            duration_s=self._duration_s or 0.0,
        )

    async def _stop(self, why: Ended) -> None:
        if self.is_running:
            if self._ended == "exited":
                self._ended = why
            await self._ask_to_end()
        await self._end()
        if self._watch is not None:
            self._watch.cancel()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_NAMESPACE_S if self._invocation.is_sandboxed else _DRAIN_S):
                await self._protocol.closed.wait()
        self._protocol.close()
        self._duration_s = time.monotonic() - self._started_s

    async def _ask_to_end(self) -> None:
        if self._ended == "too_many_processes":
            return
        if not self._invocation.is_sandboxed:
            processes.signal_group(self._protocol.pid, kill=False)
        found = await asyncio.to_thread(processes.descendants, self._protocol.pid)
        # The sandbox's own processes pass nothing on; they end with the command.
        inner = [process for process in found if _name(process) not in _OWN]
        await asyncio.to_thread(processes.ask_to_end, inner)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._grace_s):
                await self._protocol.exited.wait()

    async def _end(self) -> None:
        pid = self._protocol.pid
        if self._invocation.is_sandboxed:
            # The namespace's first process ends with its parent, and all others with it.
            processes.signal_group(pid, kill=True)
            await self._protocol.exited.wait()
            return
        left = await asyncio.to_thread(processes.descendants, pid)
        processes.signal_group(pid, kill=True)
        left += await asyncio.to_thread(processes.marked, self._mark, pid)
        await asyncio.to_thread(processes.kill_and_wait, left)
        if self.is_running:
            self._protocol.kill()
            await self._protocol.exited.wait()

    async def _count_processes(self) -> None:
        """A fork bomb doubles many times a second, so the machine's count, which costs little, is
        looked at often, and the command's own only when that has grown."""
        most = self._invocation.limits.max_processes
        num_before = processes.num_on_machine()
        while self.is_running:
            await asyncio.sleep(_WATCH_S)
            if processes.num_on_machine() - num_before <= most:
                continue
            # No thread: there may be none to be had. And nothing is asked first.
            if processes.num_in_group(self._protocol.pid) > most:
                processes.signal_group(self._protocol.pid, kill=True)
                _log.warning("a command started more than %d processes and is ended", most)
                self._ended = "too_many_processes"
                self._stopping = self._stopping or asyncio.create_task(
                    self._stop("too_many_processes")
                )
                return
            num_before = processes.num_on_machine()


class _Protocol(asyncio.SubprocessProtocol):
    """Takes the output as it comes. The transport's own waiting would wait for daemons too."""

    def __init__(
        self, max_output_bytes: int, on_output: OnOutput | None, *, splits_errors: bool
    ) -> None:
        self.output = Output(max_output_bytes)
        self.errors = Output(max_output_bytes) if splits_errors else None
        self.exited = asyncio.Event()
        self.closed = asyncio.Event()
        self._num_open = 2 if splits_errors else 1
        self._stream = Stream(max_output_bytes)
        self._on_output = on_output
        self._transport: asyncio.SubprocessTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.SubprocessTransport)
        self._transport = transport
        self.pid = transport.get_pid()

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        output = self.errors if self.errors is not None and fd == _STDERR else self.output
        output.write(data)
        if self._on_output is not None and (text := self._stream.feed(data)):
            self._on_output(text)
        if output.is_cut and self._transport is not None:
            pipe = self._transport.get_pipe_transport(fd)
            if isinstance(pipe, asyncio.ReadTransport) and not pipe.is_closing():
                pipe.pause_reading()
                asyncio.get_running_loop().call_later(_PAUSE_S, _resume, pipe)

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:
        self._num_open -= 1
        if self._num_open == 0:
            self.closed.set()

    def process_exited(self) -> None:
        self.exited.set()

    @property
    def exit_code(self) -> int:
        """Negative for a signal."""
        code = self._transport.get_returncode() if self._transport else None
        return -signal.SIGKILL if code is None else code

    def kill(self) -> None:
        if self._transport is not None:
            with contextlib.suppress(ProcessLookupError):
                self._transport.kill()

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()


def _resume(pipe: asyncio.ReadTransport) -> None:
    if not pipe.is_closing():
        pipe.resume_reading()


def _signal_name(code: int) -> str | None:
    number = -code if code < 0 else code - 128
    try:
        return signal.Signals(number).name if code < 0 or code > 128 else None
    except ValueError:
        return None


def _name(process: "processes.psutil.Process") -> str:
    try:
        return process.name()
    except processes.psutil.Error:
        return _OWN[0]

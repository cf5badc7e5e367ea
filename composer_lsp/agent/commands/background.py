"""Commands that go on while the agent does: a dev server, a watcher. They end with the run."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count

from composer_lsp.agent.commands.output import Output
from composer_lsp.agent.commands.run import CommandResult, RunningCommand
from composer_lsp.agent.commands.shell import Invocation

_MAX_UNREAD_BYTES = 48_000
_MAX_RUNNING = 8
_LOOK_S = 0.005


class BackgroundError(Exception):
    """No such command, or too many of them; the message says which there are."""


@dataclass(frozen=True, kw_only=True, slots=True)
class BackgroundCommand:
    """How a command stands."""

    id: str
    line: str
    is_running: bool
    result: CommandResult | None
    """Once it has ended. Its output is what nobody has read yet."""


@dataclass(slots=True)
class _Entry:
    line: str
    invocation: Invocation
    running: RunningCommand


class BackgroundCommands:
    """Those of one run."""

    def __init__(self) -> None:
        self._entries: dict[str, _Entry] = {}
        self._ids = (f"bg{number}" for number in count(1))

    async def start(self, invocation: Invocation, line: str) -> str:
        """Its id, once its sandbox is set up. Raises: BackgroundError, SandboxError."""
        num_running = sum(entry.running.is_running for entry in self._entries.values())
        if num_running >= _MAX_RUNNING:
            raise BackgroundError(
                f"{num_running} commands run already; stop one of {self._names()}"
            )
        running = await RunningCommand.start(invocation, max_output_bytes=_MAX_UNREAD_BYTES)
        name = next(self._ids)
        self._entries[name] = _Entry(line, invocation, running)
        if invocation.begun is not None:
            while running.is_running and not invocation.begun.exists():
                await asyncio.sleep(_LOOK_S)
            invocation.begun.unlink(missing_ok=True)
        return name

    async def read(self, name: str) -> tuple[str, BackgroundCommand]:
        """What it has written since it was last read, its middle cut if it is long, and how it
        stands. Raises: BackgroundError."""
        running = self._entry(name).running
        if not running.is_running:
            await running.stop()
        text = running.replace_output(Output(_MAX_UNREAD_BYTES)).text()
        return text, self._status(name)

    async def stop(self, name: str) -> BackgroundCommand:
        """Raises: BackgroundError."""
        await self._entry(name).running.stop()
        return self._status(name)

    async def ended(self, name: str) -> None:
        """Wait for its end. Raises: BackgroundError."""
        running = self._entry(name).running
        await running.wait()
        await running.stop()

    def list(self) -> list[BackgroundCommand]:
        return [self._status(name) for name in self._entries]

    def invocations(self) -> Sequence[Invocation]:
        """Of those that run."""
        entries = self._entries.values()
        return [entry.invocation for entry in entries if entry.running.is_running]

    async def aclose(self) -> None:
        """End all of them."""
        await asyncio.gather(*(entry.running.stop() for entry in self._entries.values()))

    def _entry(self, name: str) -> _Entry:
        entry = self._entries.get(name)
        if entry is None:
            raise BackgroundError(f"there is no command {name!r}, only {self._names() or 'none'}")
        return entry

    def _names(self) -> str:
        return ", ".join(self._entries)

    def _status(self, name: str) -> BackgroundCommand:
        entry = self._entries[name]
        is_running = entry.running.is_running
        result = None if is_running else entry.running.result()
        return BackgroundCommand(id=name, line=entry.line, is_running=is_running, result=result)

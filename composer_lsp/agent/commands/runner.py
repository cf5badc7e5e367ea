"""A command from its line to its result: parsed, decided or asked about, sandboxed, run."""

import asyncio
import logging
import os
import shlex
import tempfile
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import (
    AbstractAsyncContextManager,
    AsyncExitStack,
    asynccontextmanager,
    nullcontext,
)
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar

from composer_inference.environment import state_dir
from composer_lsp.agent.commands.access import Access
from composer_lsp.agent.commands.approval import Approvals
from composer_lsp.agent.commands.background import BackgroundCommands
from composer_lsp.agent.commands.bubblewrap import Bubblewrap, SandboxError, find_bubblewrap
from composer_lsp.agent.commands.environment import command_environment
from composer_lsp.agent.commands.outcome import Offer, Outcome, changed, filled, take
from composer_lsp.agent.commands.overlay import Overlay, Overlays
from composer_lsp.agent.commands.parse import parse
from composer_lsp.agent.commands.policy import Place
from composer_lsp.agent.commands.run import CommandResult, OnOutput, run_command
from composer_lsp.agent.commands.sandbox import Sandbox, SandboxSettings
from composer_lsp.agent.commands.shell import Invocation, plain_invocation
from composer_lsp.agent.commands.staging import Staged
from composer_lsp.agent.commands.turns import WAIT_S, Turns

_T = TypeVar("_T")
_log = logging.getLogger(__name__)

Agree = Callable[[Sequence[Offer]], Awaitable[bool]]
"""Whether the user wants all of it."""

_NO_ACCESS = Access()
_MAX_CHECK_BYTES = 4_000_000

_NOTHING_STAGED: Staged = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Dropped:
    """What a command in the background did and nobody took."""

    line: str
    paths: Sequence[Path]


@dataclass(frozen=True, slots=True)
class _Kept:
    """Of a command in the background."""

    overlay: Overlay
    filled: set[Path]


class RefusedError(Exception):
    """A command was not run; the message says why, for the model."""


class CommandRunner:
    """The commands of one run in one workspace."""

    def __init__(
        self,
        roots: Sequence[Path],
        approvals: Approvals,
        *,
        environ: Mapping[str, str] | None = None,
        home: Path | None = None,
        settings: SandboxSettings | None = None,
        scratch: Sequence[Path] | None = None,
        wait_s: float = WAIT_S,
    ) -> None:
        """`environ`, `home`: the user's own by default. `scratch`: folders to try for what commands
        write, in this order; that of the user's state and the temporary one by default. `wait_s`: for
        the commands of other runs, where there is no overlay."""
        self._roots = tuple(root.resolve() for root in roots)
        self._approvals = approvals
        self._environ = dict(os.environ if environ is None else environ)
        self._home = Path.home() if home is None else home
        self._settings = settings or SandboxSettings()
        self._scratch = scratch
        self._wait_s = wait_s
        self._sandbox: Sandbox | None = None
        self._overlays: Overlays | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._kept: dict[str, _Kept] = {}
        self._turns: Turns | None = None
        """Where commands run in a sandbox and change the disk itself."""
        self.background = BackgroundCommands()
        self.why_no_sandbox: str | None = None
        """Known once `open` has returned; None if there is one."""
        self.why_not_staged: str | None = "the sandbox is not open yet"
        """Why commands do not see what is staged. Known once `open` has returned; None if they do."""

    @property
    def shows_staged(self) -> bool:
        """Whether commands see what is staged, and what they change comes back to be staged too.
        Otherwise they see the files on the disk and change those."""
        return self.why_not_staged is None

    async def open(self) -> None:
        """Find out whether there is a sandbox, and whether it can show what is staged."""
        try:
            self._sandbox = await asyncio.to_thread(self._make_sandbox)
        except SandboxError as error:
            self.why_no_sandbox = self.why_not_staged = str(error)
            return
        try:
            self._overlays = await asyncio.to_thread(self._open_overlays)
        except SandboxError as error:
            self.why_not_staged = str(error)
            self._turns = Turns(self._roots, state_dir() / "locks", wait_s=self._wait_s)
        else:
            self.why_not_staged = None

    async def aclose(self) -> list[Dropped]:
        """End what runs in the background and remove what commands wrote outside of the
        workspace. Returns what is lost by it."""
        await self.background.aclose()
        dropped = await asyncio.to_thread(self._dropped)
        await asyncio.gather(*self._tasks)
        for opened in (self._overlays, self._sandbox):
            if opened is not None:
                await asyncio.to_thread(opened.close)
        return dropped

    async def run(
        self,
        line: str,
        cwd: Path,
        *,
        timeout_s: float,
        staged: Staged = _NOTHING_STAGED,
        wanted: Access = _NO_ACCESS,
        on_output: OnOutput | None = None,
        agree: Agree | None = None,
    ) -> CommandResult:
        """`cwd`: in one of the roots. `staged`: what files are to be for it, where `shows_staged`.
        `agree`: asked once it has ended about what cannot be taken back; None: none of it is wanted.
        Raises: RefusedError, SandboxError."""
        place, access = await self._permitted(line, cwd, wanted)
        async with self._overlay(staged) as overlay, self._turn():
            invocation = await asyncio.to_thread(self._invocation, line, place, access, overlay)
            before = set[Path]() if overlay is None else await asyncio.to_thread(filled, overlay)
            result = await run_command(invocation, timeout_s=timeout_s, on_output=on_output)
            if overlay is None:
                return result
            taking = partial(self._outcome, overlay, before)
            return await self._taken(result, taking, agree)

    async def _taken(
        self, result: CommandResult, taking: Callable[[], Outcome], agree: Agree | None
    ) -> CommandResult:
        outcome = await _to_its_end(taking)
        for is_ignored in (False, True):
            offers = [each for each in outcome.offers if each.is_ignored is is_ignored]
            if offers and agree is not None and await agree(offers):
                await _to_its_end(partial(_do, offers, outcome))
            else:
                outcome.left_out.update((offer.path, None) for offer in offers)
        return _with_outcome(result, outcome)

    async def check(
        self,
        command: str | Sequence[str],
        cwd: Path,
        *,
        timeout_s: float,
        staged: Staged = _NOTHING_STAGED,
    ) -> CommandResult:
        """A command of our own, such as a linter: nobody is asked, it has no network, and what it
        changes is dropped. `command`: a line of the shell, or the words of one program. `errors`
        are apart from the output, each up to 4 MB. Where `shows_staged` does not hold it sees the
        disk, read-only. Raises: RefusedError for a folder outside of the workspace, SandboxError,
        also where there is no sandbox."""
        place = self._place(cwd)
        if self._sandbox is None:
            raise SandboxError(self.why_no_sandbox or "the sandbox is not open")
        line = command if isinstance(command, str) else shlex.join(command)
        async with self._overlay(staged) as overlay, self._turn():
            invocation = await asyncio.to_thread(
                self._sandbox.invocation,
                *(line, place.cwd, _NO_ACCESS, overlay),
                is_read_only=overlay is None,
                beside=self.background.invocations(),
            )
            return await run_command(
                invocation,
                timeout_s=timeout_s,
                max_output_bytes=_MAX_CHECK_BYTES,
                splits_errors=True,
            )

    async def start(
        self,
        line: str,
        cwd: Path,
        *,
        staged: Staged = _NOTHING_STAGED,
        wanted: Access = _NO_ACCESS,
    ) -> str:
        """In the background; returns its id there. It sees what is staged now, and not what is
        staged later; what it changes is kept for `taken`, but for what it writes into folders of
        packages, caches and builds that git ignores and that were there when it started: that is on
        the disk at once. Raises: RefusedError, BackgroundError, SandboxError."""
        place, access = await self._permitted(line, cwd, wanted)
        overlay = await asyncio.to_thread(self._make_overlay, staged)
        if overlay is None:
            return await self._start_on_disk(line, place, access)
        try:
            invocation = await asyncio.to_thread(
                self._invocation, line, place, access, overlay, is_background=True
            )
            before = await asyncio.to_thread(filled, overlay)
            await asyncio.to_thread(overlay.begin)
            name = await self.background.start(invocation, line)
        except BaseException:
            self._remove_soon(overlay)
            raise
        self._kept[name] = _Kept(overlay, before)
        return name

    async def _start_on_disk(self, line: str, place: Place, access: Access) -> str:
        async with AsyncExitStack() as until_it_ends:
            await until_it_ends.enter_async_context(self._turn())
            invocation = await asyncio.to_thread(
                self._invocation, line, place, access, None, is_background=True
            )
            name = await self.background.start(invocation, line)
            self._later(self._close_at_end(name, until_it_ends.pop_all()))
            return name

    async def _close_at_end(self, name: str, stack: AsyncExitStack) -> None:
        async with stack:
            await self.background.ended(name)

    def _turn(self) -> AbstractAsyncContextManager[None]:
        return nullcontext() if self._turns is None else self._turns.turn()

    async def taken(
        self, name: str, result: CommandResult, agree: Agree | None = None
    ) -> CommandResult:
        """The result of a command in the background that has ended, with what it changed, as `run`
        has it; the first time only. What has changed on the disk since it began is left as it is.
        Raises: SandboxError."""
        kept = self._kept.get(name)
        if kept is None:
            return result
        taking = partial(self._outcome, kept.overlay, kept.filled, is_background=True)
        taken = await self._taken(result, taking, agree)
        del self._kept[name]
        self._remove_soon(kept.overlay)
        return taken

    def _dropped(self) -> list[Dropped]:
        found: list[Dropped] = []
        for each in self.background.list():
            kept = self._kept.pop(each.id, None)
            try:
                paths = [] if kept is None else changed(kept.overlay)
            except OSError as error:
                _log.warning("what %s changed cannot be read: %s", each.line, error)
                continue
            if paths:
                found.append(Dropped(each.line, paths))
        return found

    async def _permitted(self, line: str, cwd: Path, wanted: Access) -> tuple[Place, Access]:
        place = self._place(cwd)
        permission = await self._approvals.check(parse(line), place, wanted)
        if not permission.is_granted:
            raise RefusedError(permission.reason)
        return place, permission.access

    def _place(self, cwd: Path) -> Place:
        real = cwd.resolve()
        if not any(real.is_relative_to(root) for root in self._roots):
            raise RefusedError(f"not run: {real} is outside of the workspace")
        return Place(real, self._roots, is_sandboxed=self._sandbox is not None)

    def _invocation(
        self,
        line: str,
        place: Place,
        access: Access,
        overlay: Overlay | None,
        *,
        is_background: bool = False,
    ) -> Invocation:
        if self._sandbox is not None:
            return self._sandbox.invocation(
                *(line, place.cwd, access, overlay),
                is_background=is_background,
                beside=self.background.invocations(),
            )
        environ = command_environment(self._environ, self._settings.hidden_variables)
        return plain_invocation(line, place.cwd, environ, self._settings.limits)

    @asynccontextmanager
    async def _overlay(self, staged: Staged) -> AsyncGenerator[Overlay | None]:
        """None where there are none."""
        overlay = await asyncio.to_thread(self._make_overlay, staged)
        try:
            yield overlay
        finally:
            if overlay is not None:
                self._remove_soon(overlay)

    def _remove_soon(self, overlay: Overlay) -> None:
        """Nobody waits for it: a folder that was a mount's a moment ago takes its time."""
        self._later(asyncio.to_thread(overlay.remove))

    def _later(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _make_overlay(self, staged: Staged) -> Overlay | None:
        return self._overlays.make(staged) if self._overlays is not None else None

    def _outcome(
        self, overlay: Overlay, filled_before: set[Path], *, is_background: bool = False
    ) -> Outcome:
        try:
            outcome = take(overlay, filled_before, overlay.begun_ns if is_background else None)
        except OSError as error:
            raise SandboxError(
                f"the command has run, but what it changed cannot be read: {error}"
            ) from error
        if self._overlays is not None:
            self._overlays.staging.modes.update(outcome.modes)
        return outcome

    def _make_sandbox(self) -> Sandbox:
        return Sandbox(
            self._find_bubblewrap(),
            self._roots,
            environ=self._environ,
            home=self._home,
            settings=self._settings,
        )

    def _open_overlays(self) -> Overlays:
        places = self._scratch
        if places is None:
            places = (state_dir() / "commands", Path(tempfile.gettempdir()))
        return Overlays.open(self._roots, self._find_bubblewrap(), places)

    def _find_bubblewrap(self) -> Bubblewrap:
        return find_bubblewrap(self._environ.get("PATH", ""), self._roots)


async def _to_its_end(work: Callable[[], _T]) -> _T:
    """In a thread, also if the run is cancelled meanwhile: half of a build is no build."""
    working = asyncio.create_task(asyncio.to_thread(work))
    try:
        return await asyncio.shield(working)
    finally:
        await asyncio.wait([working])


def _do(offers: Sequence[Offer], outcome: Outcome) -> None:
    for offer in offers:
        try:
            offer.do()
        except OSError as error:
            _log.warning("what a command did to %s is left out: %s", offer.path, error)
            outcome.left_out[offer.path] = None
        else:
            outcome.kept.append(offer.path)


def _with_outcome(result: CommandResult, outcome: Outcome) -> CommandResult:
    return replace(
        result,
        changes=outcome.changes,
        modes=outcome.modes,
        kept=tuple(dict.fromkeys(outcome.kept)),
        ignored=tuple(outcome.ignored),
        left_out=tuple(outcome.left_out),
        stale=tuple(dict.fromkeys(outcome.stale)),
    )

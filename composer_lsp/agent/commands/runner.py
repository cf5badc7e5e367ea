"""A command from its line to its result: parsed, decided or asked about, sandboxed, run."""

import asyncio
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from composer_lsp.agent.commands.access import Access
from composer_lsp.agent.commands.approval import Approvals, Permission
from composer_lsp.agent.commands.background import BackgroundCommands
from composer_lsp.agent.commands.bubblewrap import SandboxError, find_bubblewrap
from composer_lsp.agent.commands.environment import command_environment
from composer_lsp.agent.commands.parse import parse
from composer_lsp.agent.commands.policy import Place
from composer_lsp.agent.commands.run import CommandResult, OnOutput, run_command
from composer_lsp.agent.commands.sandbox import Sandbox, SandboxSettings
from composer_lsp.agent.commands.shell import Invocation, plain_invocation

_NO_ACCESS = Access()

Staged = Mapping[Path, bytes | None]
"""What files are to be, by absolute path without links, in the roots; None: there is none."""
_NOTHING_STAGED: Staged = MappingProxyType({})


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
    ) -> None:
        """`environ`, `home`: the user's own by default."""
        self._roots = tuple(root.resolve() for root in roots)
        self._approvals = approvals
        self._environ = dict(os.environ if environ is None else environ)
        self._home = Path.home() if home is None else home
        self._settings = settings or SandboxSettings()
        self._sandbox: Sandbox | None = None
        self.background = BackgroundCommands()
        self.why_no_sandbox: str | None = None
        """Known once `open` has returned; None if there is one."""
        self.why_not_staged: str | None = "the sandbox binds the workspace itself"
        """Why commands do not see what is staged. Known once `open` has returned; None if they do."""

    @property
    def shows_staged(self) -> bool:
        """Whether commands see what is staged, and what they change is staged too. Otherwise they
        see the files on the disk and change those."""
        return self.why_not_staged is None

    async def open(self) -> None:
        """Find out whether there is a sandbox."""
        try:
            self._sandbox = await asyncio.to_thread(self._make_sandbox)
        except SandboxError as error:
            self.why_no_sandbox = str(error)

    async def aclose(self) -> None:
        """End what runs in the background and remove what commands wrote outside of the
        workspace."""
        await self.background.aclose()
        if self._sandbox is not None:
            await asyncio.to_thread(self._sandbox.close)

    async def run(
        self,
        line: str,
        cwd: Path,
        *,
        timeout_s: float,
        staged: Staged = _NOTHING_STAGED,
        wanted: Access = _NO_ACCESS,
        on_output: OnOutput | None = None,
    ) -> CommandResult:
        """`cwd`: in one of the roots. `staged`: what files are to be for it, where `shows_staged`.
        Raises: RefusedError, SandboxError."""
        invocation = await self._permitted(line, cwd, wanted)
        return await run_command(invocation, timeout_s=timeout_s, on_output=on_output)

    async def start(
        self,
        line: str,
        cwd: Path,
        *,
        staged: Staged = _NOTHING_STAGED,
        wanted: Access = _NO_ACCESS,
    ) -> str:
        """In the background; returns its id there. Raises: RefusedError, BackgroundError,
        SandboxError."""
        return await self.background.start(await self._permitted(line, cwd, wanted), line)

    async def _permitted(self, line: str, cwd: Path, wanted: Access) -> Invocation:
        place = self._place(cwd)
        permission = await self._approvals.check(parse(line), place, wanted)
        if not permission.is_granted:
            raise RefusedError(permission.reason)
        return await asyncio.to_thread(self._invocation, line, place.cwd, permission)

    def _place(self, cwd: Path) -> Place:
        real = cwd.resolve()
        if not any(real.is_relative_to(root) for root in self._roots):
            raise RefusedError(f"not run: {real} is outside of the workspace")
        return Place(real, self._roots, is_sandboxed=self._sandbox is not None)

    def _invocation(self, line: str, cwd: Path, permission: Permission) -> Invocation:
        if self._sandbox is not None:
            return self._sandbox.invocation(line, cwd, permission.access)
        environ = command_environment(self._environ, self._settings.hidden_variables)
        return plain_invocation(line, cwd, environ, self._settings.limits)

    def _make_sandbox(self) -> Sandbox:
        return Sandbox(
            find_bubblewrap(self._environ.get("PATH", ""), self._roots),
            self._roots,
            environ=self._environ,
            home=self._home,
            settings=self._settings,
        )

"""The commands of one run: what they may do by the user's settings, and their end with the run."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from composer_index.printable import printable
from composer_lsp.agent.command_rules import Permissions, parse_rule
from composer_lsp.agent.commands import CommandRunner, Rule, SandboxSettings
from composer_lsp.config import Settings

DEFAULT_TIMEOUT_S = 120.0
_MAX_PATHS = 20
"""Of those that a notice names."""


@dataclass(frozen=True, kw_only=True, slots=True)
class CommandSettings:
    permissions: Permissions = field(default_factory=Permissions)
    rules: tuple[Rule, ...] = ()
    """Those of the user's settings; `permissions` adds his answers."""
    sandbox: SandboxSettings = field(default_factory=SandboxSettings)
    timeout_s: float = DEFAULT_TIMEOUT_S
    """Of a command for which the model asks no other."""


def command_settings(
    settings: Settings, permissions: Permissions, more_rules: Sequence[Rule] = ()
) -> CommandSettings:
    """From the user's settings, whose rules were checked when they were parsed. The variables that
    hold keys for servers are kept from commands. Raises: RuleError."""
    roles = (settings.tab, settings.agent, settings.index.embedder, settings.index.reranker)
    agent = settings.agent
    return CommandSettings(
        permissions=permissions,
        rules=(*map(parse_rule, agent.command_rules), *more_rules),
        sandbox=SandboxSettings(
            read_only=tuple(Path(path).expanduser() for path in agent.sandbox_read_only_paths),
            hidden_variables=tuple(role.api_key_env for role in roles if role.api_key_env),
        ),
        timeout_s=agent.command_timeout_s,
    )


@dataclass(kw_only=True, slots=True)
class Started:
    """A command in the background, as far as the run has to know."""

    line: str
    num_edits: int
    """Of the run, when it was started: later ones it has not seen."""
    is_told: bool = False
    """That it has ended."""
    staged: Mapping[Path, bytes | None] = field(default_factory=dict[Path, bytes | None])
    """What files were for it."""
    stamps: Mapping[str, tuple[int, int]] | None = None
    """Of the files on the disk, where it changes those."""
    said: str = ""
    """The end of what was read of its output."""


class RunCommands:
    """Opens a `CommandRunner` at the first command."""

    def __init__(
        self,
        settings: CommandSettings,
        roots: Sequence[Path],
        *,
        watcher: Callable[[], Callable[[str], None]],
        notice: Callable[[str], None],
    ) -> None:
        """`watcher`: makes what gets the output of the call that runs, as it comes. `notice`: tells
        the user what is wrong with his rules, and what commands did to his disk."""
        self.timeout_s = settings.timeout_s
        self.watcher = watcher
        self.notice = notice
        self.started: dict[str, Started] = {}
        self._settings = settings
        self._roots = roots
        self._runner: CommandRunner | None = None

    async def runner(self) -> CommandRunner:
        if self._runner is not None:
            return self._runner
        permissions = self._settings.permissions
        for problem in permissions.refresh(self._settings.rules):
            self.notice(problem)
        runner = CommandRunner(self._roots, permissions.approvals, settings=self._settings.sandbox)
        self._runner = runner
        await runner.open()
        return runner

    async def aclose(self) -> None:
        """End what runs in the background, even if this is cancelled."""
        if self._runner is not None:
            await asyncio.shield(asyncio.ensure_future(self._close(self._runner)))

    async def _close(self, runner: CommandRunner) -> None:
        for dropped in await runner.aclose():
            paths = [self._shown(path) for path in dropped.paths]
            more = f" and {len(paths) - _MAX_PATHS} more" if len(paths) > _MAX_PATHS else ""
            self.notice(
                f"What `{printable(dropped.line)}` did in the background is dropped, since the run "
                f"ended before it: {', '.join(paths[:_MAX_PATHS])}{more}."
            )

    def _shown(self, path: Path) -> str:
        if len(self._roots) == 1:
            path = path.relative_to(self._roots[0].resolve())
        return printable(str(path))

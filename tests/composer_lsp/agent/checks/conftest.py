import asyncio
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from composer_lsp.agent.checks import EditChecks, Linter, RunsChecks
from composer_lsp.agent.checks.checks import TURN_LIMIT_S
from composer_lsp.agent.checks.linters import LINTERS
from composer_lsp.agent.commands import SandboxError
from composer_lsp.agent.events import NoticeEvent
from composer_lsp.agent.tools.context import ToolContext
from composer_lsp.agent.workspace.directory import DirectoryWorkspace
from composer_lsp.agent.workspace.paths import Paths
from composer_lsp.agent.workspace.workspace import CodeIndex


@dataclass(frozen=True, kw_only=True)
class Result:
    exit_code: int | None
    output: str
    errors: str


@dataclass
class PlainRunner:
    """Implements `RunsChecks` without a sandbox: what is staged stands on the disk while the program
    runs."""

    why_not_staged: str | None = None
    has_sandbox: bool = True
    commands: list[list[str]] = field(default_factory=list[list[str]])
    num_at_once: int = 0
    """The most that wanted to run at the same time."""
    num_waiting: int = 0
    _lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def check(
        self,
        command: Sequence[str],
        cwd: Path,
        /,
        *,
        timeout_s: float,
        staged: Mapping[Path, bytes | None],
    ) -> Result:
        if not self.has_sandbox:
            raise SandboxError("there is no sandbox")
        self.commands.append(list(command))
        self.num_waiting += 1
        self.num_at_once = max(self.num_at_once, self.num_waiting)
        try:
            async with self._lock:
                return await self._staged(command, cwd, timeout_s, staged)
        finally:
            self.num_waiting -= 1

    async def _staged(
        self,
        command: Sequence[str],
        cwd: Path,
        timeout_s: float,
        staged: Mapping[Path, bytes | None],
    ) -> Result:
        former = {path: path.read_bytes() if path.exists() else None for path in staged}
        put(staged)
        try:
            return await execute(command, cwd, timeout_s)
        finally:
            put(former)


def put(files: Mapping[Path, bytes | None]) -> None:
    for path, data in files.items():
        if data is None:
            path.unlink(missing_ok=True)
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)


async def execute(command: Sequence[str], cwd: Path, timeout_s: float) -> Result:
    process = await asyncio.create_subprocess_exec(
        *command, cwd=cwd, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    try:
        async with asyncio.timeout(timeout_s):
            output, errors = await process.communicate()
    except TimeoutError:
        return Result(exit_code=None, output="", errors="")
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    return Result(exit_code=process.returncode, output=output.decode(), errors=errors.decode())


@dataclass
class Project:
    """A folder, what a run has staged there, and the checks of it."""

    root: Path
    runner: PlainRunner
    context: ToolContext
    sandboxed: RunsChecks | None = None
    """In the place of `runner`."""
    notes: list[str] = field(default_factory=list[str])
    index: CodeIndex | None = None
    linters: Sequence[Linter] = LINTERS
    limit_s: float = TURN_LIMIT_S
    _checks: EditChecks | None = None

    @property
    def checks(self) -> EditChecks:
        if self._checks is None:
            self._checks = EditChecks(
                self.context.workspace,
                self.index,
                self.sandboxed or self.runner,
                self.note,
                linters=self.linters,
                limit_s=self.limit_s,
            )
        return self._checks

    def forget_checks(self) -> None:
        self._checks = None

    def note(self, event: NoticeEvent) -> None:
        self.notes.append(event.text)

    def has(self, files: Mapping[str, str]) -> None:
        """On the disk, before the run."""
        put({self.root / path: text.encode() for path, text in files.items()})

    async def write(self, path: str, text: str | None) -> None:
        place = await self.context.place(path)
        self.context.write(path, await self.context.snapshot(place), text)

    async def move(self, path: str, target: str) -> None:
        place, goal = await self.context.place(path), await self.context.place(target)
        self.context.changes.move(
            path, await self.context.snapshot(place), target, await self.context.snapshot(goal)
        )

    async def check(self) -> list[str]:
        """The lines that the model is told."""
        return (await self.checks(self.context)).splitlines()


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    """Finds the programs of the environment that runs the tests."""
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    root = (tmp_path / "project").resolve()
    root.mkdir()
    context = ToolContext(workspace=DirectoryWorkspace(Paths([root])))
    return Project(root, PlainRunner(), context)

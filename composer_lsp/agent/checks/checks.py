"""What is looked at after edits: linters, syntax, and functions that exist already."""

import asyncio
import weakref
from collections.abc import Callable, Sequence

from composer_lsp.agent.checks.duplicates import Duplicate, Duplicates
from composer_lsp.agent.checks.jobs import Job
from composer_lsp.agent.checks.linters import LINTERS, Linter
from composer_lsp.agent.checks.linting import Linted, LinterError, Linting
from composer_lsp.agent.checks.problem import Problem
from composer_lsp.agent.checks.runner import RunsChecks
from composer_lsp.agent.checks.syntax import syntax_problem
from composer_lsp.agent.edits.change_set import FileChange
from composer_lsp.agent.events import NoticeEvent
from composer_lsp.agent.tools.context import ToolContext
from composer_lsp.agent.workspace.workspace import CodeIndex, Diagnostic, Workspace

TURN_LIMIT_S = 14.0
"""Of all checks after one turn."""
MAX_SHOWN = 20
"""Problems that the model is told at a time; the others are counted."""

Notify = Callable[[NoticeEvent], None]


class EditChecks:
    """`Checks` for any number of runs on one workspace. For one event loop."""

    def __init__(
        self,
        workspace: Workspace,
        index: CodeIndex | None,
        runner: RunsChecks | None,
        notify: Notify,
        *,
        linters: Sequence[Linter] = LINTERS,
        limit_s: float = TURN_LIMIT_S,
    ) -> None:
        self._workspace = workspace
        self._index = index
        self._runner = runner
        self._notify = notify
        self._linters = linters
        self._limit_s = limit_s
        self._noted: set[str] = set()
        self._runs: dict[int, _Run] = {}

    @property
    def num_runs(self) -> int:
        """That are remembered: those whose context is still in use."""
        return len(self._runs)

    async def __call__(self, context: ToolContext) -> str:
        """What is wrong in the files that were changed since the last call and was not before the
        run, and the new functions that look like existing ones. Takes up to `limit_s`."""
        run = self._run(context)
        changes = list(context.changes.changes())
        fresh = run.take_fresh(changes)
        if not fresh:
            return ""
        duplicates = asyncio.create_task(self._duplicates(run, changes))
        try:
            problems = await self._problems(context, run, changes, fresh)
            found = await duplicates
        finally:
            duplicates.cancel()
        return "\n\n".join(part for part in (_listed(problems), _pointed_out(found)) if part)

    async def diagnostics(self, context: ToolContext, path: str) -> list[Diagnostic]:
        """All that the project's linters say of a file as the run has left it."""
        run = self._run(context)
        changes = list(context.changes.changes())
        jobs = await run.linting.plan([path])
        runner = await self._runner_of(context) if jobs else None
        if runner is None:
            return []
        found: list[Problem] = []
        for job in jobs:
            try:
                found += await run.linting.problems(runner, job, changes)
            except LinterError as error:
                self._note(f"{error}.")
        return [
            Diagnostic(
                path=each.path,
                line=each.line,
                severity=each.severity,
                message=f"{each.code} {each.message}".strip(),
                source=each.source,
            )
            for each in sorted(found, key=lambda each: each.line)
        ]

    async def _problems(
        self,
        context: ToolContext,
        run: "_Run",
        changes: Sequence[FileChange],
        fresh: Sequence[FileChange],
    ) -> list[Problem]:
        there = [change for change in fresh if change.after is not None]
        jobs = await run.linting.plan(change.path for change in there)
        linted = await self._linted(context, run, jobs, changes)
        unlinted = [change for change in there if change.path not in linted.paths]
        found = await asyncio.to_thread(lambda: [syntax_problem(each) for each in unlinted])
        problems = linted.problems + [each for each in found if each is not None]
        return sorted(problems, key=lambda each: (each.path, each.line, each.source, each.code))

    async def _linted(
        self,
        context: ToolContext,
        run: "_Run",
        jobs: Sequence[Job],
        changes: Sequence[FileChange],
    ) -> Linted:
        runner = await self._runner_of(context) if jobs else None
        if runner is None:
            return Linted()
        return await run.linting.new_problems(runner, jobs, changes, self._limit_s)

    async def _duplicates(self, run: "_Run", changes: Sequence[FileChange]) -> list[Duplicate]:
        try:
            async with asyncio.timeout(self._limit_s):
                return await run.duplicates.found(changes)
        except TimeoutError:
            self._note("The search for functions that exist already did not end in time.")
            return []

    async def _runner_of(self, context: ToolContext) -> RunsChecks | None:
        """The given one, or else that of the run's own commands."""
        if self._runner is not None or context.commands is None:
            return self._runner
        return await context.commands.runner()

    def _run(self, context: ToolContext) -> "_Run":
        key = id(context)
        if key not in self._runs:
            self._runs[key] = _Run(self._workspace, self._index, self._linters, self._note)
            weakref.finalize(context, self._runs.pop, key, None)
        return self._runs[key]

    def _note(self, text: str) -> None:
        """Once."""
        if text not in self._noted:
            self._noted.add(text)
            self._notify(NoticeEvent(text))


class _Run:
    """What the checks remember of one run. Holds no context: it is forgotten with it."""

    def __init__(
        self,
        workspace: Workspace,
        index: CodeIndex | None,
        linters: Sequence[Linter],
        note: Callable[[str], None],
    ) -> None:
        self.linting = Linting(workspace, linters, note)
        self.duplicates = Duplicates(workspace, index)
        self._texts: dict[str, str | None] = {}

    def take_fresh(self, changes: Sequence[FileChange]) -> list[FileChange]:
        """Those that were not taken before with the same text."""
        fresh = [
            each
            for each in changes
            if each.path not in self._texts or self._texts[each.path] != each.after
        ]
        self._texts.update({each.path: each.after for each in changes})
        return fresh


def make_checks(
    workspace: Workspace, index: CodeIndex | None, runner: RunsChecks | None, notify: Notify
) -> EditChecks:
    """What `AgentRun` calls after edits. `index` None: functions are compared with those of the same
    folders alone. `runner` None: that of each run's own commands. `notify` hears, once, of linters
    that are left out."""
    return EditChecks(workspace, index, runner, notify)


def _listed(problems: Sequence[Problem]) -> str:
    if not problems:
        return ""
    lines = [str(each) for each in problems[:MAX_SHOWN]]
    if len(problems) > MAX_SHOWN:
        lines.append(f"and {len(problems) - MAX_SHOWN} more")
    return "\n".join(["Your edits brought these problems:", *lines])


def _pointed_out(duplicates: Sequence[Duplicate]) -> str:
    return "\n".join(map(str, duplicates))

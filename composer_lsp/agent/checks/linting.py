"""Runs the project's linters on what a run has changed, and tells what was not there before."""

import asyncio
import os
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from composer_lsp.agent.checks.jobs import Job, plan
from composer_lsp.agent.checks.linters import Linter
from composer_lsp.agent.checks.parsers import OutputError
from composer_lsp.agent.checks.problem import Problem
from composer_lsp.agent.checks.runner import CheckResult, RunsChecks
from composer_lsp.agent.commands import RefusedError, SandboxError
from composer_lsp.agent.edits.change_set import FileChange
from composer_lsp.agent.edits.text_file import TextError
from composer_lsp.agent.workspace.paths import Place
from composer_lsp.agent.workspace.workspace import Workspace

_MAX_AT_ONCE = 2

Staged = Mapping[Path, bytes | None]
Found = dict[str, list[Problem]]
"""Problems by path of the workspace; a file without any has an empty list."""
Counts = Counter[tuple[str, str]]
"""Of problems by their `key`."""


class LinterError(Exception):
    """A linter did not do its work; the text names it and says why."""


class LinterTimeoutError(LinterError):
    """It did not end in time."""


@dataclass(kw_only=True)
class Linted:
    problems: list[Problem] = field(default_factory=list[Problem])
    paths: set[str] = field(default_factory=set[str])
    """Of the files that a linter has looked at."""


class Linting:
    """Of one run: it remembers what linters said of the files before the run."""

    def __init__(
        self, workspace: Workspace, linters: Sequence[Linter], note: Callable[[str], None]
    ) -> None:
        """`note`: tells the user of a linter that is left out."""
        self._workspace = workspace
        self._linters = linters
        self._note = note
        self._slots = asyncio.Semaphore(_MAX_AT_ONCE)
        self._before: dict[tuple[str, Path], dict[str, Counts]] = {}
        """By linter and folder; by path."""
        self._too_slow: set[tuple[str, Path]] = set()

    async def plan(self, paths: Iterable[str]) -> list[Job]:
        """What is to be done for these files; nothing where no linter is configured."""
        places = [self._workspace.paths.locate(path) for path in paths]
        jobs = await asyncio.to_thread(plan, self._linters, places)
        return [job for job in jobs if _key(job) not in self._too_slow]

    async def new_problems(
        self, runner: RunsChecks, jobs: Sequence[Job], changes: Sequence[FileChange], limit_s: float
    ) -> Linted:
        """What is wrong in the jobs' files and was not before the run, in no order. What is not done
        within `limit_s` is left out."""
        linted = Linted()
        if runner.why_not_staged is not None:
            self._note(f"No linter looks at the edits: {runner.why_not_staged}.")
            return linted
        unsaved = await self._unsaved()
        after, before = unsaved | self._after(changes), unsaved | self._originals(changes)
        by_path = {change.path: change for change in changes}

        async def do(job: Job) -> None:
            found = await self._run(runner, job, job.places, after)
            if any(found.values()):
                await self._learn(runner, job, found, before, by_path)
                counts = self._before[_key(job)]
                found = {
                    path: _new(some, counts.get(path, Counts()), by_path.get(path))
                    for path, some in found.items()
                }
            linted.paths.update(found)
            linted.problems += [each for some in found.values() for each in some]

        await self._all(do, jobs, limit_s)
        return linted

    async def problems(
        self, runner: RunsChecks, job: Job, changes: Sequence[FileChange]
    ) -> list[Problem]:
        """All of a job's files, as the run has left them. Raises: LinterError."""
        if changes and runner.why_not_staged is not None:
            raise LinterError(f"no linter looks at the edits: {runner.why_not_staged}")
        staged = await self._unsaved() | self._after(changes)
        found = await self._run(runner, job, job.places, staged)
        return [each for some in found.values() for each in some]

    async def _all(
        self, do: Callable[[Job], Coroutine[Any, Any, None]], jobs: Sequence[Job], limit_s: float
    ) -> None:
        tasks = {asyncio.create_task(do(job)): job for job in jobs}
        try:
            done, late = await asyncio.wait(tasks, timeout=limit_s)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        for task in late:
            self._leave_out(tasks[task], f"{tasks[task].linter.name} did not end in time")
        for task in done:
            try:
                task.result()
            except LinterTimeoutError as error:
                self._leave_out(tasks[task], str(error))
            except LinterError as error:
                self._note(f"Left out after edits: {error}.")

    def _leave_out(self, job: Job, why: str) -> None:
        """For the rest of the run: it would take as long again."""
        self._too_slow.add(_key(job))
        self._note(f"Left out for the rest of the run: {why}.")

    async def _learn(
        self,
        runner: RunsChecks,
        job: Job,
        found: Found,
        before: Staged,
        changes: Mapping[str, FileChange],
    ) -> None:
        """What the linter said before the run of files that now have problems. Raises:
        LinterError."""
        known = self._before.setdefault(_key(job), {})
        origins = {
            path: (change.moved_from or path)
            for path, some in found.items()
            if some and path not in known and (change := changes[path]).before is not None
        }
        if not origins:
            return
        places = [self._workspace.paths.locate(each) for each in origins.values()]
        then = await self._run(runner, job, places, before)
        for path, origin in origins.items():
            known[path] = Counts(each.key for each in then[origin])

    async def _run(
        self, runner: RunsChecks, job: Job, places: Sequence[Place], staged: Staged
    ) -> Found:
        """Raises: LinterError."""
        linter = job.linter
        async with self._slots:
            try:
                result = await runner.check(
                    job.argv(places), job.folder, timeout_s=linter.timeout_s, staged=staged
                )
            except (SandboxError, RefusedError) as error:
                raise LinterError(f"{linter.name} was not run: {error}") from error
        if result.exit_code is None:
            raise LinterTimeoutError(
                f"{linter.name} did not end within {linter.timeout_s:.0f} s, or was ended"
            )
        return _read(job, places, result)

    async def _unsaved(self) -> dict[Path, bytes | None]:
        texts = await self._workspace.unsaved()
        return {self._real(path): text.encode("utf-8", "replace") for path, text in texts.items()}

    def _after(self, changes: Sequence[FileChange]) -> dict[Path, bytes | None]:
        staged: dict[Path, bytes | None] = {}
        for change in changes:
            if change.moved_from is not None:
                staged.setdefault(self._real(change.moved_from), None)
            staged[self._real(change.path)] = _bytes(change)
        return staged

    def _originals(self, changes: Sequence[FileChange]) -> dict[Path, bytes | None]:
        staged: dict[Path, bytes | None] = {}
        for change in changes:
            data = None if change.before is None else change.before.encode(change.before.text)
            staged[self._real(change.moved_from or change.path)] = data
        return staged

    def _real(self, path: str) -> Path:
        return Path(os.path.realpath(self._workspace.paths.locate(path).absolute))


def _read(job: Job, places: Sequence[Place], result: CheckResult) -> Found:
    """The problems of these files alone: some linters tell of others too. Raises: LinterError."""
    name = job.linter.name
    # Some write to the one, some to the other; JSON is found in either.
    output = f"{result.output}\n{result.errors}"
    try:
        problems = list(job.linter.parse(output))
    except (OutputError, KeyError, TypeError, AttributeError) as error:
        raise LinterError(f"{name} failed: {_last_line(result) or error}") from error
    if result.exit_code != 0 and not problems:
        raise LinterError(f"{name} failed: {_last_line(result) or f'code {result.exit_code}'}")
    known = {os.path.realpath(place.absolute): place.path for place in places}
    found: Found = {place.path: [] for place in places}
    for each in problems:
        path = known.get(os.path.realpath(os.path.join(job.folder, each.path)))  # noqa: PTH118
        if path is not None and each.severity in ("error", "warning"):
            found[path].append(replace(each, path=path, source=name))
    return found


def _new(problems: Sequence[Problem], before: Counts, change: FileChange | None) -> list[Problem]:
    """Those that `before` lacks. Of several equal ones, those on changed lines are the new ones."""
    left = before.copy()
    changed = _changed_lines(change) if change else set[int]()
    new: list[Problem] = []
    for each in sorted(problems, key=lambda each: each.line in changed):
        if left[each.key] > 0:
            left[each.key] -= 1
        else:
            new.append(each)
    return new


def _changed_lines(change: FileChange) -> set[int]:
    lines: set[int] = set()
    offset = 0
    for hunk in change.hunks:
        first = hunk.start + offset + 1
        lines.update(range(first, first + len(hunk.new)))
        offset += hunk.offset
    return lines


def _bytes(change: FileChange) -> bytes | None:
    try:
        return change.data()
    except TextError:  # It will be refused when it is applied.
        return (change.after or "").encode("utf-8", "replace")


def _last_line(result: CheckResult) -> str:
    lines = (result.errors.strip() or result.output.strip()).splitlines()
    return lines[-1][:200] if lines else ""


def _key(job: Job) -> tuple[str, Path]:
    return job.linter.name, job.folder

"""Notes in a transcript what messages do not tell and a run that goes on needs: which lines of which
text were read, which commands ran, how far the plan is."""

import hashlib
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from composer_lsp.agent.tools.context import ToolContext
from composer_lsp.agent.transcript import Transcript
from composer_lsp.agent.workspace.paths import PathError
from composer_lsp.agent.workspace.workspace import WorkspaceError


class StateLog:
    def __init__(self, context: ToolContext, transcript: Transcript) -> None:
        self._context = context
        self._transcript = transcript
        self._lines: dict[str, list[tuple[int, int]]] = {}
        self._num_edits = 0
        self._num_commands = len(context.ledger.commands)
        self._plan = context.plan

    async def note(self) -> None:
        """What is new since it was called last."""
        reads = {path: await self._read(path) for path in self._changed_paths()}
        commands = self._context.ledger.commands[self._num_commands :]
        self._num_commands += len(commands)
        plan, self._plan = self._plan, self._context.plan
        if reads or commands or plan != self._plan:
            self._transcript.add(
                "state",
                reads=reads,
                commands=[asdict(command) for command in commands],
                plan=[asdict(step) for step in self._plan],
            )

    def _changed_paths(self) -> list[str]:
        context = self._context
        is_edited, self._num_edits = (
            context.ledger.num_edits != self._num_edits,
            context.ledger.num_edits,
        )
        changed: list[str] = []
        for path in {*self._lines, *context.reads.paths}:
            lines = context.reads.ranges(path)
            if lines != self._lines.get(path) or (is_edited and path in context.changes):
                self._lines[path] = lines
                changed.append(path)
        return changed

    async def _read(self, path: str) -> Mapping[str, Any]:
        return {
            "lines": self._lines[path],
            "num_lines": self._context.reads.num_lines(path),
            "digest": await digest(self._context, path),
        }


async def restore_reads(transcript: Transcript, context: ToolContext) -> list[str]:
    """Count what a run was shown as read in another one's context. Returns the files that are others
    now, which were not read."""
    reads: dict[str, Mapping[str, Any]] = {}
    for entry in transcript.entries:
        if entry["kind"] == "state":
            reads |= entry["reads"]
    unread: list[str] = []
    for path, read in reads.items():
        if not read["lines"]:
            continue
        if read["digest"] is None or await digest(context, path) != read["digest"]:
            unread.append(path)
            continue
        for first, last in read["lines"]:
            context.reads.add(path, first, last, read["num_lines"])
    return unread


async def digest(context: ToolContext, path: str) -> str | None:
    """Of the text of a file as the run has left it; None where there is none."""
    try:
        file = await context.file(context.workspace.paths.locate(path))
    except (PathError, WorkspaceError):
        return None
    if file is None:
        return None
    return hashlib.sha256(file.text.encode("utf-8", "surrogatepass")).hexdigest()[:16]

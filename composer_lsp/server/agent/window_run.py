"""One run of a window, and what of its changes is pending."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from composer_lsp.agent.agent import Finished
from composer_lsp.agent.edits.change_set import ChangeSet, FileChange
from composer_lsp.agent.edits.hunks import find_hunks
from composer_lsp.agent.prompt.system import Request
from composer_lsp.agent.tools.context import ToolContext
from composer_lsp.agent.transcript import Transcript
from composer_lsp.agent.workspace.paths import Paths
from composer_lsp.server.agent.pending import hunk_ids
from composer_lsp.server.agent.workspace import EditorWorkspace


class RunError(Exception):
    """What was asked of a run cannot be done; the text says why."""


@dataclass(kw_only=True)
class Run:
    id: str
    request: Request
    workspace: EditorWorkspace
    context: ToolContext
    task: "asyncio.Task[Finished]"
    transcripts: Path
    """The folder that they are kept in."""

    @property
    def pending(self) -> ChangeSet:
        """What it changed and nobody has taken or left yet."""
        return self.context.changes

    @property
    def finished(self) -> Finished | None:
        """None while it runs, and of one that was stopped or had no model."""
        task = self.task
        is_finished = task.done() and not task.cancelled() and task.exception() is None
        return task.result() if is_finished else None

    @property
    def state(self) -> str:
        """`running`, or how it ended."""
        if not self.task.done():
            return "running"
        if self.finished is not None:
            return self.finished.outcome.status
        return "stopped" if self.task.cancelled() else "failed"

    def stop(self) -> None:
        self.task.cancel()

    def _numbers(self, path: str, hunks: Sequence[int | str] | None) -> frozenset[int] | None:
        """Of a file's pending hunks, by number or id (`hunk_ids`); None: all of them. Raises:
        RunError for one that is not pending."""
        if hunks is None:
            return None
        change = next((each for each in self.pending.changes() if each.path == path), None)
        if change is None:
            raise RunError(f"the run {self.id} has no change of {path} that is pending")
        ids = hunk_ids(change.hunks)
        for hunk in hunks:
            if hunk not in ids and hunk not in range(len(ids)):
                raise RunError(f"{path} has no pending hunk {hunk!r}; there are {', '.join(ids)}")
        return frozenset(ids.index(each) if isinstance(each, str) else each for each in hunks)

    def chosen(
        self, path: str | None, hunks: Sequence[int | str] | None
    ) -> tuple[list[FileChange], frozenset[int] | None]:
        """What is pending, or one file of it, or some of the file's hunks, with the hunks' numbers.
        Raises: RunError."""
        numbers = None if path is None else self._numbers(path, hunks)
        chosen = self.pending if path is None else self.pending.only(path, numbers)
        return list(chosen.changes()), numbers

    def note_verdict(self, chosen: FileChange, *, accepted: bool) -> None:
        """In the transcript, by the hunks' numbers in what the run changed at its end. Raises:
        OSError, TranscriptError."""
        transcript = self.transcript()
        if transcript is None:
            return
        files: Sequence[Mapping[str, Any]] = (transcript.last("changes") or {}).get("files", ())
        for file in files:
            if file["path"] != chosen.path:
                continue
            hunks = find_hunks(file["before"] or "", file["after"] or "")
            # Their places in the text from before stay, whatever else was taken or left meanwhile.
            places = {(hunk.start, hunk.new) for hunk in chosen.hunks}
            numbers = [at for at, hunk in enumerate(hunks) if (hunk.start, hunk.new) in places]
            transcript.add_verdict(
                chosen.path,
                accepted=numbers if accepted else (),
                rejected=() if accepted else numbers,
            )

    @property
    def transcript_id(self) -> str:
        """Of a run that was stopped too; there may be none if no model answered."""
        return self.id if self.finished is None else self.finished.transcript.header.id

    @property
    def _transcript_path(self) -> Path:
        return self.transcripts / f"{self.transcript_id}.jsonl"

    def transcript(self) -> Transcript | None:
        """None: it had not begun, for lack of a model. Raises: TranscriptError."""
        if self.finished is not None:
            return self.finished.transcript
        return Transcript.read(self._transcript_path) if self._transcript_path.exists() else None

    def described(self) -> Mapping[str, Any]:
        """For the client."""
        changes = [_described(self.workspace.paths, each) for each in self.pending.changes()]
        described: dict[str, Any] = {
            "run": self.id,
            "mode": self.request.mode,
            "request": self.request.text,
            "state": self.state,
            "plan": [asdict(step) for step in self.context.plan],
            "changes": changes,
        }
        if self.task.done() and self._transcript_path.exists():
            described["transcript"] = self.transcript_id
        if self.finished is not None:
            described["text"] = self.finished.outcome.text
            described["problems"] = [asdict(each) for each in self.finished.outcome.problems]
        return described


def _described(paths: Paths, change: FileChange) -> Mapping[str, Any]:
    kind = "create" if change.before is None else "delete" if change.after is None else "change"
    hunks = change.hunks
    return {
        "path": change.path,
        "uri": Path(paths.locate(change.path).absolute).as_uri(),
        "kind": "move" if change.moved_from else kind,
        "movedFrom": change.moved_from,
        "hunks": [
            {
                "id": id,
                "startLine": hunk.start,
                "endLine": hunk.end,
                "old": "".join(hunk.old),
                "new": "".join(hunk.new),
            }
            for id, hunk in zip(hunk_ids(hunks), hunks, strict=True)
        ],
    }

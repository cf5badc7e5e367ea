"""The runs of one window: started, watched, stopped, and what they changed taken or left."""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Protocol

from composer_index.store.location import store_location
from composer_inference.environment import state_dir
from composer_lsp.agent.agent import Agent, Finished
from composer_lsp.agent.checkpoints import Checkpoints
from composer_lsp.agent.edits.change_set import ChangeSet, FileChange
from composer_lsp.agent.events import Event
from composer_lsp.agent.prompt.system import Request
from composer_lsp.agent.transcript import new_id
from composer_lsp.agent.workspace.paths import Paths
from composer_lsp.agent.workspace.workspace import CodeIndex
from composer_lsp.config import Settings
from composer_lsp.engine.chat import ConfiguredChatModel
from composer_lsp.engine.launcher import Launcher
from composer_lsp.server.agent.workspace import EditingClient, EditorWorkspace
from composer_lsp.server.documents import DocumentStore

logger = logging.getLogger(__name__)


class RunError(Exception):
    """What was asked of a run cannot be done; the text says why."""


class AgentHost(Protocol):
    """What runs need of the window."""

    @property
    def settings(self) -> Settings: ...

    def roots(self) -> Sequence[str]:
        """The workspace folders' paths on this machine."""
        ...

    def documents(self) -> DocumentStore: ...

    @property
    def code_index(self) -> CodeIndex | None:
        """None: it is off."""
        ...

    async def confirm(self, question: str) -> bool:
        """No where the user does not say yes."""
        ...


@dataclass(kw_only=True)
class Run:
    id: str
    request: Request
    workspace: EditorWorkspace
    pending: ChangeSet = field(default_factory=ChangeSet)
    """What it changed and nobody has taken or left yet."""
    task: "asyncio.Task[Finished] | None" = None
    finished: Finished | None = None

    @property
    def state(self) -> str:
        """`running`, or how it ended."""
        if self.finished is not None:
            return self.finished.outcome.status
        return "stopped" if self.task is not None and self.task.done() else "running"


class Runs:
    """Event loop only."""

    def __init__(self, host: AgentHost, client: EditingClient) -> None:
        self._host = host
        self._client = client
        self._launcher = Launcher(lambda: host.settings.engine)
        self._model = ConfiguredChatModel(self._launcher, lambda: host.settings.agent)
        self._runs: dict[str, Run] = {}

    async def run(self, request: Request, emit: Callable[[str, Event], None]) -> Run:
        """To the end; `emit` gets the run's id with each event. Cancelling it stops the run, whose changes stay pending.

        Raises: RunError; EngineError and EndpointError where no model answers at all.
        """
        roots = self._host.roots()
        if not roots:
            raise RunError("this window has no folder open; the agent works on folders")
        paths = Paths([Path(root) for root in roots], self._host.settings.index.include_secret)
        workspace = EditorWorkspace(paths, self._host.documents, self._client)
        agent = Agent(
            workspace=workspace,
            model=self._model,
            transcripts=state_dir() / "transcripts",
            index=self._host.code_index,
            ask_user=self._host.confirm,
        )
        context = agent.context()
        run = Run(id=new_id(), request=request, workspace=workspace, pending=context.changes)
        self._runs[run.id] = run
        try:
            name = await self._model.name()
            run.task = asyncio.ensure_future(
                agent.run(
                    request,
                    lambda event: emit(run.id, event),
                    model_name=name,
                    context=context,
                )
            )
            await asyncio.wait([run.task])
        except BaseException:
            if run.task is not None:
                run.task.cancel()
            elif not run.pending:
                del self._runs[run.id]
            raise
        if not run.task.cancelled():
            run.finished = run.task.result()
        return run

    def stop(self, id: str | None = None) -> int:
        """Stop one run or all. Returns how many were running."""
        running = [run for run in self._chosen(id) if run.task is not None and not run.task.done()]
        for run in running:
            assert run.task is not None
            run.task.cancel()
        return len(running)

    async def accept(
        self, id: str, path: str | None = None, hunks: frozenset[int] | None = None
    ) -> None:
        """Apply what a run changed, or one file of it, or some of its hunks.

        Raises: RunError, WorkspaceError.
        """
        run = self._one(id)
        chosen = run.pending if path is None else run.pending.only(path, hunks)
        changes = list(chosen.changes())
        if not changes:
            raise RunError(f"the run {id} has no change{f' of {path}' if path else ''} to accept")
        label = run.request.text.split("\n", 1)[0][:60]
        checkpoint = new_id()
        checkpoints = self._checkpoints(run)
        await asyncio.to_thread(checkpoints.save, checkpoint, label, changes)
        try:
            await run.workspace.apply(changes, label=f"Composer: {label}")
        except BaseException:
            await asyncio.to_thread(checkpoints.drop, checkpoint)
            raise
        self._settle(run, path, hunks)

    def reject(self, id: str, path: str | None = None, hunks: frozenset[int] | None = None) -> None:
        """Leave what a run changed. Raises: RunError."""
        run = self._one(id)
        for each in [path] if path else [change.path for change in run.pending.changes()]:
            run.pending.reject(each, hunks)

    async def undo(self) -> str:
        """Take back what was accepted last; what it was. Raises: RunError, WorkspaceError."""
        roots = self._host.roots()
        paths = Paths([Path(root) for root in roots], self._host.settings.index.include_secret)
        workspace = EditorWorkspace(paths, self._host.documents, self._client)
        checkpoints = self._checkpoints_of(paths)
        listed = await asyncio.to_thread(checkpoints.list)
        if not listed:
            raise RunError("there is nothing to undo")
        changes = await asyncio.to_thread(checkpoints.reversed, listed[0].id)
        await workspace.apply(changes, label=f"Undo: {listed[0].label}")
        await asyncio.to_thread(checkpoints.drop, listed[0].id)
        return listed[0].label

    def described(self, id: str) -> Mapping[str, Any]:
        """For the client. Raises: RunError."""
        run = self._one(id)
        described: dict[str, Any] = {
            "run": run.id,
            "mode": run.request.mode,
            "request": run.request.text,
            "state": run.state,
            "changes": [
                _described(run.workspace.paths, change) for change in run.pending.changes()
            ],
        }
        if run.finished is not None:
            described["text"] = run.finished.outcome.text
            described["problems"] = [asdict(each) for each in run.finished.outcome.problems]
            described["transcript"] = run.finished.transcript.header.id
        return described

    @property
    def ids(self) -> Sequence[str]:
        """The newest first."""
        return list(reversed(self._runs))

    async def close(self) -> None:
        self.stop()
        await self._model.aclose()

    def _chosen(self, id: str | None) -> Sequence[Run]:
        return list(self._runs.values()) if id is None else [self._one(id)]

    def _one(self, id: str) -> Run:
        if id not in self._runs:
            known = ", ".join(self.ids) or "none"
            raise RunError(f"there is no run {id} in this window; there are {known}")
        return self._runs[id]

    def _settle(self, run: Run, path: str | None, hunks: frozenset[int] | None) -> None:
        """What was applied is pending no more."""
        if path is None:
            for change in list(run.pending.changes()):
                run.pending.reject(change.path)
        else:
            run.pending.reject(path, hunks)

    def _checkpoints(self, run: Run) -> Checkpoints:
        return self._checkpoints_of(run.workspace.paths)

    def _checkpoints_of(self, paths: Paths) -> Checkpoints:
        # A folder's name in the state folder is the one that its index has in the cache.
        name = store_location(state_dir(), Path(paths.roots[0])).name
        return Checkpoints(state_dir() / "checkpoints" / name)


def _described(paths: Paths, change: FileChange) -> Mapping[str, Any]:
    kind = "create" if change.before is None else "delete" if change.after is None else "change"
    return {
        "path": change.path,
        "uri": Path(paths.locate(change.path).absolute).as_uri(),
        "kind": "move" if change.moved_from else kind,
        "movedFrom": change.moved_from,
        "hunks": [
            {
                "startLine": hunk.start,
                "endLine": hunk.end,
                "old": "".join(hunk.old),
                "new": "".join(hunk.new),
            }
            for hunk in change.hunks
        ],
    }

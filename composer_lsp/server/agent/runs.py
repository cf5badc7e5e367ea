"""The runs of one window: started, watched, stopped, and what they changed taken or left."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from composer_inference.environment import state_dir
from composer_lsp.agent.agent import Finished
from composer_lsp.agent.edits.change_set import FileChange
from composer_lsp.agent.events import Event
from composer_lsp.agent.prompt.system import Request
from composer_lsp.agent.transcript import Transcript, new_id, transcripts_in
from composer_lsp.agent.transcript_markdown import markdown
from composer_lsp.agent.workspace.paths import Paths
from composer_lsp.server.agent.changes import Changes
from composer_lsp.server.agent.host import AgentHost, open_workspace
from composer_lsp.server.agent.pending import PendingFile, pending_file
from composer_lsp.server.agent.window_agent import WindowAgent
from composer_lsp.server.agent.window_run import Run, RunError
from composer_lsp.server.agent.workspace import EditingClient
from composer_lsp.server.documents import Document
from composer_lsp.server.window_index import local_path

MAX_RUNS = 50
"""Of the runs that have ended and have nothing pending, so many are remembered."""


class Runs:
    """Event loop only."""

    def __init__(self, host: AgentHost, client: EditingClient) -> None:
        self._host = host
        self._client = client
        self._agent = WindowAgent(host)
        self._changes = Changes(host)
        self._runs: dict[str, Run] = {}
        self._placed: dict[tuple[str, str], tuple[object, PendingFile]] = {}
        self.model_name: str | None = None
        """Of the model that answered last."""

    # Runs ----------------------------------------------------------------------------------------

    def begin(
        self,
        request: Request,
        emit: Callable[[str, Event], None],
        *,
        rewrites: bool = False,
        continues: str | None = None,
    ) -> Run:
        """Start a run; `emit` gets its id with each event. `rewrites`: it rewrites the request's
        selection, with one question to the model. `continues`: the run that it goes on from, whose
        pending changes become its own. Raises: RunError, TranscriptError."""
        earlier = None if continues is None else self._ended(continues)
        workspace = open_workspace(self._host, self._client)
        worker = self._agent.worker(workspace, rewrites=rewrites, earlier=earlier)
        id, context = new_id(), worker.context()

        async def work() -> Finished:
            try:
                with self._host.thinking():
                    name = self.model_name = await self._agent.model.name()
                    return await worker.run(
                        request,
                        lambda event: emit(id, event),
                        model_name=name,
                        context=context,
                        id=id,
                    )
            finally:
                # After the task has ended: what is pending of a run that goes on is not shown.
                asyncio.get_running_loop().call_soon(self._host.pending_changed)

        run = Run(
            id=id,
            request=request,
            workspace=workspace,
            context=context,
            task=asyncio.ensure_future(work()),
            transcripts=_transcripts(),
        )
        context.apply_pending = lambda: self._changes.apply_pending(run)
        self._runs[id] = run
        self._forget_old()
        return run

    async def ended(self, run: Run) -> None:
        """Wait for its end. Cancelling this stops the run, whose changes stay pending.

        Raises: EngineError, EndpointError where no model answers at all; OSError where the
        transcript cannot be written.
        """
        try:
            await asyncio.wait([run.task])
        except asyncio.CancelledError:
            run.task.cancel()
            raise
        if not run.task.cancelled() and (error := run.task.exception()) is not None:
            if not run.pending:
                self._runs.pop(run.id, None)
            raise error

    async def stop(self, id: str | None = None) -> int:
        """Stop one run, or all and what waits for the editor. Returns how many were running. Raises:
        RunError."""
        if id is None:
            self._changes.give_up()
        chosen = list(self._runs.values()) if id is None else [self.one(id)]
        running = [run.task for run in chosen if not run.task.done()]
        for task in running:
            task.cancel()
        if running:
            await asyncio.wait(running)
        return len(running)

    def one(self, id: str) -> Run:
        """Raises: RunError."""
        if id not in self._runs:
            known = ", ".join(self.ids) or "none"
            raise RunError(f"there is no run {id} in this window; there are {known}")
        return self._runs[id]

    @property
    def ids(self) -> Sequence[str]:
        """The newest first."""
        return list(reversed(self._runs))

    async def close(self) -> None:
        await self.stop()
        await self._agent.model.aclose()

    # What they changed ---------------------------------------------------------------------------

    async def accept(
        self,
        id: str,
        path: str | None = None,
        hunks: Sequence[int | str] | None = None,
        *,
        review: bool | None = None,
    ) -> None:
        """See `Changes.accept`."""
        await self._changes.accept(self._ended(id), path, hunks, review=review)

    def reject(
        self, id: str, path: str | None = None, hunks: Sequence[int | str] | None = None
    ) -> None:
        """See `Changes.reject`."""
        self._changes.reject(self._ended(id), path, hunks)

    async def undo(self) -> str:
        """See `Changes.undo`."""
        return await self._changes.undo(open_workspace(self._host, self._client))

    def pending_in(self, document: Document) -> Sequence[PendingFile]:
        """What runs that have ended would change in an open document, of a link also in the file that it
        leads to."""
        path = local_path(document.uri)
        if path is None:
            return ()
        return [
            self._placed_in(run, change, document)
            for run in self._runs.values()
            if run.task.done() and (names := _names(run.workspace.paths, path))
            for change in run.pending.changes()
            if (change.moved_from or change.path) in names
        ]

    def described(self, id: str) -> Mapping[str, Any]:
        """For the client. Raises: RunError."""
        return self.one(id).described()

    async def transcript(self, id: str) -> Mapping[str, Any]:
        """Of a run of this window that has ended, or by a transcript's own id. Raises: RunError,
        TranscriptError."""
        if (run := self._runs.get(id)) is not None:
            if not run.task.done():
                raise RunError(
                    f"the run {id} is running; its transcript is whole when it has ended"
                )
            id = run.transcript_id
        path = _transcripts() / f"{id}.jsonl"
        if Path(id).name != id or not path.is_file():
            raise RunError(f"there is no transcript {id}")
        read = await asyncio.to_thread(Transcript.read, path)
        return {
            "path": str(path),
            "mode": read.header.mode,
            "request": read.header.request,
            "markdown": await asyncio.to_thread(markdown, read),
        }

    def plan(self, id: str) -> Sequence[str]:
        """The steps of a run's plan. Raises: RunError."""
        run = self._ended(id)
        if not run.context.plan:
            raise RunError(f"the run {id} has no plan that could be carried out")
        return [step.text for step in run.context.plan]

    # Below ---------------------------------------------------------------------------------------

    def _placed_in(self, run: Run, change: FileChange, document: Document) -> PendingFile:
        key, of = (run.id, change.path), (document.version, change.after)
        known = self._placed.get(key)
        if known is None or known[0] != of:
            text = document.buffer.text
            known = self._placed[key] = of, pending_file(run.id, change, text)
        return known[1]

    def _ended(self, id: str) -> Run:
        run = self.one(id)
        if not run.task.done():
            raise RunError(f"the run {id} is still going on; wait for its end, or stop it")
        return run

    def _forget_old(self) -> None:
        idle = [run.id for run in self._runs.values() if run.task.done() and not run.pending]
        for id in idle[: max(0, len(idle) - MAX_RUNS)]:
            del self._runs[id]
        for key in [key for key in self._placed if key[0] not in self._runs]:
            del self._placed[key]


def _names(paths: Paths, absolute: str) -> set[str]:
    """None of a file outside of the workspace."""
    place = paths.of_absolute(absolute)
    return set() if place is None else {place.path, paths.followed(place).path}


def _transcripts() -> Path:
    return transcripts_in(state_dir())

"""The runs of one window: started, watched, stopped, and what they changed taken or left."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from composer_inference.environment import state_dir
from composer_lsp.agent.agent import Agent, Finished
from composer_lsp.agent.command_rules import Permissions, RulesFile
from composer_lsp.agent.commands import RuleError
from composer_lsp.agent.configured import configured_agent
from composer_lsp.agent.edits.change_set import FileChange, Snapshot
from composer_lsp.agent.events import Event
from composer_lsp.agent.prompt.system import Request
from composer_lsp.agent.selection import SelectionEditor
from composer_lsp.agent.tools.context import ToolContext
from composer_lsp.agent.transcript import Transcript, new_id, transcripts_in
from composer_lsp.agent.transcript_markdown import markdown
from composer_lsp.agent.window_checkpoints import WindowCheckpoints
from composer_lsp.agent.workspace.directory import read_snapshot
from composer_lsp.agent.workspace.paths import Paths
from composer_lsp.agent.workspace.workspace import CodeIndex, WorkspaceError
from composer_lsp.config import Settings
from composer_lsp.engine.chat import ConfiguredChatModel
from composer_lsp.engine.launcher import Launcher
from composer_lsp.server.agent.approver import EditorApprover
from composer_lsp.server.agent.diagnostics import Diagnostics
from composer_lsp.server.agent.pending import PendingFile, pending_file
from composer_lsp.server.agent.window_run import Run, RunError
from composer_lsp.server.agent.workspace import EditingClient, EditorWorkspace
from composer_lsp.server.documents import Document, DocumentStore
from composer_lsp.server.window_index import local_path

_SAVED = "They are saved"
_NOT_SAVED = "Do not run it"

MAX_RUNS = 50
"""Of the runs that have ended and have nothing pending, so many are remembered."""


class AgentHost(Protocol):
    """What runs need of the window."""

    @property
    def settings(self) -> Settings: ...

    def roots(self) -> Sequence[str]:
        """The workspace folders' paths on this machine."""
        ...

    def documents(self) -> DocumentStore: ...

    @property
    def diagnostics(self) -> Diagnostics: ...

    @property
    def code_index(self) -> CodeIndex | None:
        """None: it is off."""
        ...

    @property
    def can_ask(self) -> bool:
        """Whether the editor can show a question."""
        ...

    async def confirm(self, question: str) -> bool:
        """No where the user does not say yes."""
        ...

    async def ask(self, question: str, *answers: str) -> str | None:
        """The answer that was chosen; None: none was, the editor cannot ask, or it failed."""
        ...

    def log(self, message: str) -> None:
        """Where the user can read it."""
        ...

    def thinking(self) -> AbstractContextManager[None]:
        """While inside, the status says that something is being worked on."""
        ...

    def pending_changed(self) -> None:
        """What is pending is not what it was."""
        ...


class Work(Protocol):
    """What a run does."""

    def __call__(
        self,
        request: Request,
        emit: Callable[[Event], None],
        *,
        model_name: str,
        context: ToolContext,
    ) -> Awaitable[Finished]: ...


class Runs:
    """Event loop only."""

    def __init__(self, host: AgentHost, client: EditingClient) -> None:
        self._host = host
        self._client = client
        self._launcher = Launcher(lambda: host.settings.engine)
        self._model = ConfiguredChatModel(self._launcher, lambda: host.settings.agent)
        self._runs: dict[str, Run] = {}
        self._approver = EditorApprover(host)
        self._permissions: dict[str, Permissions] = {}
        """By the workspace's first folder."""
        self._applying = asyncio.Lock()
        self._placed: dict[tuple[str, str], tuple[object, PendingFile]] = {}
        self.model_name: str | None = None
        """Of the model that answered last."""

    # Runs ----------------------------------------------------------------------------------------

    def begin(
        self, request: Request, emit: Callable[[str, Event], None], *, rewrites: bool = False
    ) -> Run:
        """Start a run; `emit` gets its id with each event. `rewrites`: it rewrites the request's
        selection, with one question to the model. Raises: RunError."""
        workspace = EditorWorkspace(
            self._paths(), self._host.documents, self._client, self._host.diagnostics
        )
        id = new_id()
        if rewrites:
            rewriter = self._rewriter(workspace)
            context, work = rewriter.context(), partial(rewriter.run, id=id)
        else:
            agent = self._agent(workspace)
            context, work = agent.context(), partial(agent.run, id=id)
        working = self._work(work, request, lambda event: emit(id, event), context)
        run = Run(
            id=id,
            request=request,
            workspace=workspace,
            context=context,
            task=asyncio.ensure_future(working),
            transcripts=_transcripts(),
        )
        context.apply_pending = lambda: self._apply_pending(run)
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
        """Stop one run or all. Returns how many were running. Raises: RunError."""
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
        await self._model.aclose()

    # What they changed ---------------------------------------------------------------------------

    async def accept(
        self,
        id: str,
        path: str | None = None,
        hunks: Sequence[int | str] | None = None,
        *,
        review: bool | None = None,
    ) -> None:
        """Apply what a run changed, or one file of it, or some of its hunks, by number or id.
        `review`: the editor asks the user of each change; what he leaves out stays pending. None: as
        the settings say, but for hunks, which he has looked at, and for editors that cannot.

        Raises: RunError, WorkspaceError, TextError.
        """
        async with self._applying:
            run = self._ended(id)
            if review is None:
                is_set = self._host.settings.agent.review
                review = is_set and hunks is None and run.workspace.can_confirm
            if review and hunks is not None:
                raise RunError("a review is of whole files; the editor asks of each change")
            numbers = None if path is None else run.numbers(path, hunks)
            chosen = run.pending if path is None else run.pending.only(path, numbers)
            changes = list(chosen.changes())
            if not changes:
                raise RunError(
                    f"the run {id} has no change{f' of {path}' if path else ''} to accept"
                )
            applied = await self._apply(run, changes, review=review)
            for change in changes:
                run.pending.reject(change.path, numbers)
                if not review:
                    run.note_verdict(change, accepted=True)
            if review:
                await self._keep_left_out(run, applied)
        self._host.pending_changed()

    def reject(
        self, id: str, path: str | None = None, hunks: Sequence[int | str] | None = None
    ) -> None:
        """Leave what a run changed. Raises: RunError."""
        run = self._ended(id)
        numbers = None if path is None else run.numbers(path, hunks)
        chosen = run.pending if path is None else run.pending.only(path, numbers)
        for change in list(chosen.changes()):
            run.pending.reject(change.path, numbers)
            run.note_verdict(change, accepted=False)
        self._host.pending_changed()

    async def undo(self) -> str:
        """Take back what was accepted last; what it was. Raises: RunError, CheckpointError,
        WorkspaceError."""
        async with self._applying:
            paths = self._paths()
            workspace = EditorWorkspace(
                paths, self._host.documents, self._client, self._host.diagnostics
            )
            checkpoints = WindowCheckpoints(paths, state_dir())
            last = await asyncio.to_thread(checkpoints.last)
            if last is None:
                raise RunError("there is nothing to undo")
            changes = await asyncio.to_thread(checkpoints.reversed, last.id)
            await workspace.apply(changes, label=f"Undo: {last.label}")
            await asyncio.to_thread(checkpoints.drop, last.id)
        self._host.pending_changed()
        return last.label

    def pending_in(self, document: Document) -> Sequence[PendingFile]:
        """What runs that have ended would change in an open document."""
        path = local_path(document.uri)
        if path is None:
            return ()
        return [
            self._placed_in(run, change, document)
            for run in self._runs.values()
            if run.task.done() and (place := run.workspace.paths.of_absolute(path)) is not None
            for change in run.pending.changes()
            if place.path == (change.moved_from or change.path)
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

    def _agent(self, workspace: EditorWorkspace) -> Agent:
        try:
            return configured_agent(
                self._host.settings,
                state_dir(),
                workspace=workspace,
                model=self._model,
                index=self._host.code_index,
                ask_user=self._host.confirm,
                permissions=self._permissions_of(workspace.paths.roots[0]),
                server_approver=self._approver if self._host.can_ask else None,
            )
        except RuleError as error:
            raise RunError(f"the setting agent.commandRules: {error}") from error

    def _permissions_of(self, root: str) -> Permissions:
        """The user's answers hold for the window's commands in the same workspace."""
        if root not in self._permissions:
            file = RulesFile.of(state_dir(), Path(root))
            self._permissions[root] = Permissions(file, self._approver)
        return self._permissions[root]

    def _rewriter(self, workspace: EditorWorkspace) -> SelectionEditor:
        return SelectionEditor(workspace=workspace, model=self._model, transcripts=_transcripts())

    async def _work(
        self,
        work: Work,
        request: Request,
        emit: Callable[[Event], None],
        context: ToolContext,
    ) -> Finished:
        try:
            with self._host.thinking():
                name = self.model_name = await self._model.name()
                return await work(request, emit, model_name=name, context=context)
        finally:
            # After the task has ended: what is pending of a run that goes on is not shown.
            asyncio.get_running_loop().call_soon(self._host.pending_changed)

    async def _apply_pending(self, run: Run) -> None:
        """For a command that sees the disk alone. An editor changes its buffers, and only the user
        saves them. Raises: WorkspaceError."""
        async with self._applying:
            changes = list(run.pending.changes())
            applied = await self._apply(run, changes, review=False)
            for change in changes:
                run.pending.reject(change.path)
        while unsaved := await self._unsaved(run, applied):
            question = f"Save {', '.join(unsaved)}, so that the command sees the changes."
            if await self._host.ask(question, _SAVED, _NOT_SAVED) != _SAVED:
                raise WorkspaceError(f"the changes are made, but {', '.join(unsaved)} not saved")

    async def _unsaved(self, run: Run, changes: Sequence[FileChange]) -> list[str]:
        found: list[str] = []
        for change in changes:
            place = run.workspace.paths.locate(change.path)
            on_disk = (await asyncio.to_thread(read_snapshot, place)).file
            if (on_disk.text if on_disk else None) != change.after:
                found.append(change.path)
        return found

    async def _apply(
        self, run: Run, changes: Sequence[FileChange], *, review: bool
    ) -> Sequence[FileChange]:
        """With a checkpoint of it; what was asked of the editor."""
        carried = await run.workspace.carried_over(changes)
        label = run.request.text.split("\n", 1)[0][:60]
        checkpoint = new_id()
        checkpoints = WindowCheckpoints(run.workspace.paths, state_dir())
        await asyncio.to_thread(checkpoints.save, checkpoint, label, carried)
        try:
            await run.workspace.apply(
                carried, label=f"Composer: {label}", needs_confirmation=review
            )
        except BaseException:
            await asyncio.to_thread(checkpoints.drop, checkpoint)
            raise
        if review:
            made = await self._made(run, carried)
            await asyncio.to_thread(checkpoints.drop, checkpoint)
            if made:
                await asyncio.to_thread(checkpoints.save, checkpoint, label, made)
        return carried

    async def _made(self, run: Run, asked: Sequence[FileChange]) -> list[FileChange]:
        """What of the changes the user let happen."""
        made: list[FileChange] = []
        for change in asked:
            now = await run.workspace.read(run.workspace.paths.locate(change.path))
            text = now.file.text if now.file else None
            was = None if change.before is None else change.before.text
            if text != was or (change.moved_from and now.file is not None):
                made.append(replace(change, after=text))
        return made

    async def _keep_left_out(self, run: Run, asked: Sequence[FileChange]) -> None:
        """What the user left out in a review is pending still."""
        for change in asked:
            now = await run.workspace.read(run.workspace.paths.locate(change.path))
            text = now.file.text if now.file else None
            if change.moved_from is not None and now.file is None:
                run.pending.add(change)
            elif text != change.after:
                left = replace(change, before=now.file, version=now.version)
                run.pending.add(left if change.moved_from is None else _unmoved(left, now))

    def _placed_in(self, run: Run, change: FileChange, document: Document) -> PendingFile:
        key, of = (run.id, change.path), (document.version, change.after)
        known = self._placed.get(key)
        if known is None or known[0] != of:
            text = document.buffer.text
            known = self._placed[key] = of, pending_file(run.id, change, text)
        return known[1]

    def _paths(self) -> Paths:
        roots = self._host.roots()
        if not roots:
            raise RunError("this window has no folder open; the agent works on folders")
        return Paths([Path(root) for root in roots], self._host.settings.index.include_secret)

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


def _unmoved(change: FileChange, now: Snapshot) -> FileChange:
    """What is left of a change whose move was made."""
    return replace(change, moved_from=None, mode=now.mode, link=now.link)


def _transcripts() -> Path:
    return transcripts_in(state_dir())

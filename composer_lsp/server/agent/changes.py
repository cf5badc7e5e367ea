"""What a window's runs changed, on its way into the editor and back."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace

from composer_inference.environment import state_dir
from composer_lsp.agent.edits.change_set import FileChange, Snapshot
from composer_lsp.agent.transcript import new_id
from composer_lsp.agent.window_checkpoints import WindowCheckpoints
from composer_lsp.agent.workspace.directory import read_snapshot
from composer_lsp.agent.workspace.workspace import WorkspaceError
from composer_lsp.server.agent.host import AgentHost
from composer_lsp.server.agent.window_run import Run, RunError
from composer_lsp.server.agent.workspace import EditorWorkspace

_SAVED = "They are saved"
_NOT_SAVED = "Do not run it"


class Changes:
    """One application at a time. Event loop only."""

    def __init__(self, host: AgentHost) -> None:
        self._host = host
        self._applying = asyncio.Lock()

    async def accept(
        self,
        run: Run,
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
            if review is None:
                is_set = self._host.settings.agent.review
                review = is_set and hunks is None and run.workspace.can_confirm
            if review and hunks is not None:
                raise RunError("a review is of whole files; the editor asks of each change")
            changes, numbers = run.chosen(path, hunks)
            if not changes:
                what = f"change of {path}" if path else "change"
                raise RunError(f"the run {run.id} has no {what} to accept")
            applied = await self._apply(run, changes, review=review)
            for change in changes:
                run.pending.reject(change.path, numbers)
                if not review:
                    run.note_verdict(change, accepted=True)
            if review:
                await self._keep_left_out(run, applied)
        self._host.pending_changed()

    def reject(
        self, run: Run, path: str | None = None, hunks: Sequence[int | str] | None = None
    ) -> None:
        """Leave what a run changed. Raises: RunError."""
        changes, numbers = run.chosen(path, hunks)
        for change in changes:
            run.pending.reject(change.path, numbers)
            run.note_verdict(change, accepted=False)
        self._host.pending_changed()

    async def undo(self, workspace: EditorWorkspace) -> str:
        """Take back what was accepted last; what it was. Raises: RunError, CheckpointError,
        WorkspaceError."""
        async with self._applying:
            checkpoints = WindowCheckpoints(workspace.paths, state_dir())
            last = await asyncio.to_thread(checkpoints.last)
            if last is None:
                raise RunError("there is nothing to undo")
            changes = await asyncio.to_thread(checkpoints.reversed, last.id)
            await workspace.apply(changes, label=f"Undo: {last.label}")
            await asyncio.to_thread(checkpoints.drop, last.id)
        self._host.pending_changed()
        return last.label

    async def apply_pending(self, run: Run) -> None:
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


def _unmoved(change: FileChange, now: Snapshot) -> FileChange:
    """What is left of a change whose move was made."""
    return replace(change, moved_from=None, mode=now.mode, link=now.link)

"""What a window's runs changed, on its way into the editor and back."""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from composer_inference.environment import state_dir
from composer_lsp.agent.edits.anchor import AnchorError, carry_over
from composer_lsp.agent.edits.change_set import FileChange, Snapshot
from composer_lsp.agent.transcript import TranscriptError, new_id
from composer_lsp.agent.window_checkpoints import WindowCheckpoints
from composer_lsp.agent.workspace.directory import read_snapshot
from composer_lsp.agent.workspace.workspace import WorkspaceError
from composer_lsp.server.agent.host import AgentHost
from composer_lsp.server.agent.turns import ANSWER_LIMIT_S, TURN_LIMIT_S, Turn, Turns
from composer_lsp.server.agent.window_run import Run, RunError
from composer_lsp.server.agent.workspace import EditorWorkspace

logger = logging.getLogger(__name__)

_MAX_LABEL_CHARS = 60
_SAVED = "They are saved"
_NOT_SAVED = "Do not run it"
_UNANSWERED = (
    "the editor has not answered whether it made the changes of “{}”; what it made of them counts, and "
    "the rest can be tried again"
)


class Changes:
    """One at a time is made. Event loop only."""

    def __init__(
        self,
        host: AgentHost,
        *,
        answer_limit_s: float = ANSWER_LIMIT_S,
        turn_limit_s: float = TURN_LIMIT_S,
    ) -> None:
        """Limits: as `Turns` has them."""
        self._host = host
        self._turns = Turns(host.log, answer_limit_s=answer_limit_s, turn_limit_s=turn_limit_s)

    def give_up(self) -> bool:
        """Wait no longer for an editor's answer; whether one was waited for. What it has made counts
        as accepted or undone."""
        return self._turns.give_up()

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
        Cancelled: what was sent to the editor already is accepted when it answers.

        Raises: RunError, WorkspaceError, TextError.
        """

        async def doing(turn: Turn) -> None:
            is_reviewed = review
            if is_reviewed is None:
                is_set = self._host.settings.agent.review
                is_reviewed = is_set and hunks is None and run.workspace.can_confirm
            if is_reviewed and hunks is not None:
                raise RunError("a review is of whole files; the editor asks of each change")
            changes, numbers = run.chosen(path, hunks)
            if not changes:
                what = f"change of {path}" if path else "change"
                raise RunError(f"the run {run.id} has no {what} to accept")
            await self._apply(turn, run, changes, numbers, review=is_reviewed)
            if not is_reviewed:
                self._note(run, changes, accepted=True)

        await self._turns.take(doing)

    def reject(
        self, run: Run, path: str | None = None, hunks: Sequence[int | str] | None = None
    ) -> None:
        """Leave what a run changed. Raises: RunError."""
        changes, numbers = run.chosen(path, hunks)
        for change in changes:
            run.pending.reject(change.path, numbers)
        self._note(run, changes, accepted=False)
        self._host.pending_changed()

    async def undo(self, workspace: EditorWorkspace) -> str:
        """Take back what was accepted last; what it was. Raises: RunError, CheckpointError,
        WorkspaceError."""

        async def doing(turn: Turn) -> str:
            checkpoints = WindowCheckpoints(workspace.paths, state_dir())
            last = await asyncio.to_thread(checkpoints.last)
            if last is None:
                raise RunError("there is nothing to undo")
            changes = await asyncio.to_thread(checkpoints.reversed, last.id)
            label = f"Undo: {last.label}"
            carried = await workspace.carried_over(changes)
            turn.begin(label, is_limited=True)
            applying = self._turns.started(workspace.apply(carried, label=label))
            if not await turn.answered(applying):
                self._when_answered(applying, lambda: asyncio.to_thread(checkpoints.drop, last.id))
                if len(await _made_by_us(workspace, carried)) < len(carried):
                    raise WorkspaceError(_UNANSWERED.format(label))
            await asyncio.to_thread(checkpoints.drop, last.id)
            self._host.pending_changed()
            return last.label

        return await self._turns.take(doing)

    async def apply_pending(self, run: Run) -> None:
        """For a command that sees the disk alone. An editor changes its buffers, and only the user
        saves them. Raises: WorkspaceError."""

        async def doing(turn: Turn) -> Sequence[FileChange]:
            changes = list(run.pending.changes())
            return await self._apply(turn, run, changes, None, review=False)

        applied = await self._turns.take(doing)
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
        self,
        turn: Turn,
        run: Run,
        changes: Sequence[FileChange],
        numbers: frozenset[int] | None,
        *,
        review: bool,
    ) -> Sequence[FileChange]:
        """With a checkpoint of it, and pending no longer; what was asked of the editor. `numbers`: as
        `Run.chosen` has them."""
        carried = await run.workspace.carried_over(changes)
        label = _label(run.request.text)
        sent = _Sent(
            run=run,
            label=label,
            changes=changes,
            carried=carried,
            numbers=numbers,
            checkpoint=new_id(),
            checkpoints=WindowCheckpoints(run.workspace.paths, state_dir()),
        )
        turn.begin(label, is_limited=not review)
        try:
            await sent.keep(carried)
            applying = self._turns.started(
                run.workspace.apply(carried, label=f"Composer: {label}", needs_confirmation=review)
            )
            is_answered = await turn.answered(applying)
        except Exception:
            await sent.drop()
            raise
        if not is_answered:
            await self._settle_unanswered(sent, applying)
        elif review:
            await sent.drop()
            await sent.keep(await _made(run.workspace, carried))
            for change in changes:
                run.pending.reject(change.path, numbers)
            await self._keep_left_out(run, carried)
        else:
            for change in changes:
                run.pending.reject(change.path, numbers)
        self._host.pending_changed()
        return carried

    async def _settle_unanswered(self, sent: "_Sent", applying: "asyncio.Task[None]") -> None:
        """What was made nevertheless counts as accepted, and so does what is made later. Raises:
        WorkspaceError for the rest."""
        await sent.drop()
        is_all = await self._settle(sent)
        later = replace(sent, checkpoint=new_id())

        async def settle_later(turn: Turn) -> None:
            turn.begin(sent.label, is_limited=True)
            await self._settle(later)

        self._when_answered(applying, lambda: self._turns.take(settle_later), sent.drop)
        if not is_all:
            raise WorkspaceError(_UNANSWERED.format(sent.label))

    async def _settle(self, sent: "_Sent") -> bool:
        """Of what is pending still, by what the files are now; whether all was made."""
        asked = [each for each in sent.carried if sent.is_pending(each.path)]
        made = await _made_by_us(sent.run.workspace, asked)
        await sent.keep(made)
        for change in made:
            sent.run.pending.reject(change.path, sent.numbers)
        self._host.pending_changed()
        return len(made) == len(asked)

    def _when_answered(
        self,
        applying: "asyncio.Task[None]",
        made: Callable[[], Coroutine[Any, Any, object]],
        refused: Callable[[], Coroutine[Any, Any, object]] | None = None,
    ) -> None:
        """After it was given up. `refused`: what was made on the disk was taken back."""

        def answered(task: "asyncio.Task[None]") -> None:
            then = None if task.cancelled() else refused if task.exception() else made
            if then is not None:
                self._turns.started(then()).add_done_callback(self._turns.tell_failure)

        applying.add_done_callback(answered)

    def _note(self, run: Run, changes: Sequence[FileChange], *, accepted: bool) -> None:
        """In the run's transcript, as far as it can be written."""
        for change in changes:
            try:
                run.note_verdict(change, accepted=accepted)
            except (OSError, TranscriptError) as error:
                logger.warning("the verdict on %s is not kept: %s", change.path, error)

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


@dataclass(frozen=True, kw_only=True, slots=True)
class _Sent:
    """What of a run's changes the editor was asked to make."""

    run: Run
    label: str
    changes: Sequence[FileChange]
    carried: Sequence[FileChange]
    """The same, made to what the files were then."""
    numbers: frozenset[int] | None
    checkpoint: str
    checkpoints: WindowCheckpoints

    async def keep(self, made: Sequence[FileChange]) -> None:
        """Raises: OSError, TextError."""
        if made:
            await asyncio.to_thread(self.checkpoints.save, self.checkpoint, self.label, made)

    async def drop(self) -> None:
        await asyncio.to_thread(self.checkpoints.drop, self.checkpoint)

    def is_pending(self, path: str) -> bool:
        pending = self.run.pending.only(path, self.numbers).changes()
        return any(each in self.changes for each in pending)


async def _made(workspace: EditorWorkspace, asked: Sequence[FileChange]) -> list[FileChange]:
    """What of the changes the user let happen."""
    made: list[FileChange] = []
    for change in asked:
        now = await workspace.read(workspace.paths.locate(change.path))
        text = now.file.text if now.file else None
        was = None if change.before is None else change.before.text
        if text != was or (change.moved_from and now.file is not None):
            made.append(replace(change, after=text))
    return made


async def _made_by_us(workspace: EditorWorkspace, asked: Sequence[FileChange]) -> list[FileChange]:
    """What of the changes has happened, whatever else the user changed meanwhile."""
    made: list[FileChange] = []
    for change in asked:
        now = (await workspace.read(workspace.paths.locate(change.path))).file
        if now is None or change.after is None:
            is_made = now is None and change.after is None
        elif change.before is None or change.moved_from is not None:
            is_made = True
        else:
            is_made = _is_carried(change.before.text, change.after, now.text)
        if is_made:
            made.append(change)
    return made


def _label(request: str) -> str:
    """Its first line, cut where it is long."""
    line = request.split("\n", 1)[0]
    return line if len(line) <= _MAX_LABEL_CHARS else f"{line[: _MAX_LABEL_CHARS - 1]}…"


def _is_carried(before: str, after: str, now: str) -> bool:
    if before == now:
        return False
    with suppress(AnchorError):
        carry_over(after, before, now)
        return True
    return False


def _unmoved(change: FileChange, now: Snapshot) -> FileChange:
    """What is left of a change whose move was made."""
    return replace(change, moved_from=None, mode=now.mode, link=now.link)

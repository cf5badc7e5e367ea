"""A run of the agent in a terminal: to its end, its plan carried out, its changes applied."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, TypeVar

from composer_lsp.agent.agent import Agent, Finished
from composer_lsp.agent.edits.change_set import FileChange
from composer_lsp.agent.events import Event, NoticeEvent
from composer_lsp.agent.prompt.system import Request
from composer_lsp.agent.run import Outcome
from composer_lsp.agent.tools.context import ToolContext
from composer_lsp.agent.transcript import Transcript, new_id
from composer_lsp.agent.workspace.paths import PathError
from composer_lsp.agent.workspace.workspace import WorkspaceError
from composer_lsp.cli.agent_output import Output
from composer_lsp.cli.terminal import can_ask, confirmed

_FINISHED = 0
_NOT_FINISHED = 1
_FAILED = 2
_NOT_APPLIED = 3

_HINT = 'To go on: composer-lsp transcript resume {} "what to do next"'

_T = TypeVar("_T")


@dataclass(frozen=True, kw_only=True, slots=True)
class Beginning:
    """Of a run, or of going on with one."""

    id: str
    """The transcript's."""
    label: str
    """What its changes are applied under."""
    start: Callable[[Agent, ToolContext, Callable[[Event], None], str], Awaitable[Finished]]
    """The text is the model's name."""
    asks_model: bool = True


def of_request(request: Request) -> Beginning:
    id = new_id()

    async def start(
        agent: Agent, context: ToolContext, emit: Callable[[Event], None], model: str
    ) -> Finished:
        return await agent.run(request, emit, model_name=model, context=context, id=id)

    return Beginning(id=id, label=request.text, start=start)


def carrying_out(planned: Transcript, steps: Sequence[str]) -> Beginning:
    """What a run has planned, and the user has approved."""
    return of_request(Request(mode="edit", text=planned.header.request, plan=steps))


def steps_of(transcript: Transcript) -> Sequence[str]:
    """Of the plan, of a run that made one to be carried out and finished; none of any other."""
    end, state = transcript.last("end"), transcript.last("state")
    has_planned = (
        end is not None and end["status"] == "finished" and transcript.header.mode == "plan"
    )
    steps: Sequence[Mapping[str, Any]] = state["plan"] if has_planned and state else ()
    return [step["text"] for step in steps]


@dataclass(kw_only=True)
class TerminalRun:
    agent: Agent
    model: str
    """Its name."""
    output: Output
    applies: bool
    """Changes are applied without asking."""
    carries_out: bool
    """So is a plan carried out."""
    _id: str = ""
    _context: ToolContext | None = field(default=None)
    """Of what is not applied yet."""

    async def run(self, beginning: Beginning) -> int:
        """The exit code. Cancelled, it says what becomes of the changes, and how to go on.

        Raises: EngineError, WorkspaceError, ResumeError, TranscriptError, OSError.
        """
        try:
            finished, code = await self._run(beginning)
            steps = steps_of(finished.transcript) if code == _FINISHED else ()
            if steps and await self._may_carry_out(finished.transcript, steps):
                _, code = await self._run(carrying_out(finished.transcript, steps))
            return code
        except asyncio.CancelledError:
            # Whoever hung up reads nothing any more.
            with suppress(OSError):
                self._tell_stopped()
            raise

    async def _run(self, beginning: Beginning) -> tuple[Finished, int]:
        context = self.agent.context()
        context.apply_pending = lambda: self._apply_pending(context, beginning.label)
        self._id, self._context = beginning.id, context
        finished = await beginning.start(self.agent, context, self.output.event, self.model)
        id = _id_of(finished.transcript)
        pending = [change.path for change in finished.context.changes.changes()]
        self.output.outcome(finished.outcome, id, pending)
        is_applied = await self._apply(finished)
        if is_applied and id and finished.outcome.status != "finished":
            self._notice(_HINT.format(id))
        match finished.outcome.status:
            case "finished":
                return finished, _FINISHED if is_applied else _NOT_APPLIED
            case "failed":
                return finished, _FAILED
            case _:
                return finished, _NOT_FINISHED

    async def _may_carry_out(self, planned: Transcript, steps: Sequence[str]) -> bool:
        count = f"{len(steps)} steps" if len(steps) > 1 else "one step"
        if self.carries_out or await confirmed(f"Carry out the plan of {count}?"):
            return True
        if id := _id_of(planned):
            self._notice(f"To carry the plan out: composer-lsp transcript resume {id} --carry-out")
        return False

    async def _apply(self, finished: Finished) -> bool:
        """Whether nothing is left to apply. Raises: TranscriptError."""
        changes = list(finished.context.changes.changes())
        if not changes:
            return True
        with finished.transcript.held():
            self.output.changes(changes)
            is_agreed = self.applies or await confirmed(f"Apply the changes to {_files(changes)}?")
            if is_agreed:
                return await _to_its_end(self._apply_agreed(finished, changes))
            if can_ask():
                finished.transcript.add_verdicts(changes, is_accepted=False)
        self._notice(f"Nothing was changed. {_way_on(finished.transcript)}")
        return False

    async def _apply_agreed(self, finished: Finished, changes: Sequence[FileChange]) -> bool:
        try:
            await self.agent.workspace.apply(changes, label=finished.transcript.header.request)
        except (WorkspaceError, PathError, OSError) as error:
            self.output.error(f"{error}. {_way_on(finished.transcript)}")
            return False
        self._context = None
        finished.transcript.add_verdicts(changes, is_accepted=True)
        self.output.applied(changes)
        return True

    async def _apply_pending(self, context: ToolContext, label: str) -> None:
        """Before a command that sees the disk alone. Raises: WorkspaceError."""
        changes = list(context.changes.changes())
        self.output.changes(changes)
        await _to_its_end(self.agent.workspace.apply(changes, label=label))
        for change in changes:
            context.changes.reject(change.path)
        self.output.applied(changes)

    def _tell_stopped(self) -> None:
        changes = self._context.changes.changes() if self._context else ()
        pending = [change.path for change in changes]
        is_kept = (self.agent.transcripts / f"{self._id}.jsonl").is_file()
        text = "Stopped."
        if pending:
            text += f" The changes of {', '.join(pending)} were not made."
        if is_kept:
            text += f" {_HINT.format(self._id)}"
        outcome = Outcome(status="stopped", text=text)
        self.output.stopped(outcome, self._id if is_kept else "", pending)

    def _notice(self, text: str) -> None:
        self.output.event(NoticeEvent(text, "information"))


def _way_on(transcript: Transcript) -> str:
    id = _id_of(transcript)
    return _HINT.format(id) if id else "Its transcript was not kept; ask again."


def _id_of(transcript: Transcript) -> str:
    """Empty where it is not kept."""
    return transcript.header.id if transcript.path is not None else ""


def _files(changes: Sequence[FileChange]) -> str:
    return "one file" if len(changes) == 1 else f"{len(changes)} files"


async def _to_its_end(doing: Coroutine[Any, Any, _T]) -> _T:
    """Also when it is cancelled: what is half done is done wholly, and then the caller is."""
    task = asyncio.ensure_future(doing)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await task
        raise

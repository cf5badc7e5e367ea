"""A run that goes on from another one of the window: with what it said and read, and with its changes."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from composer_lsp.agent.agent import Agent, Finished
from composer_lsp.agent.conversation import answer_of, said_in
from composer_lsp.agent.events import EditsEvent, Event, NoticeEvent
from composer_lsp.agent.model import Message
from composer_lsp.agent.prompt.system import Request
from composer_lsp.agent.state import restore_reads
from composer_lsp.agent.tools.context import ToolContext
from composer_lsp.agent.transcript import Transcript
from composer_lsp.agent.workspace.workspace import ConflictError
from composer_lsp.server.agent.window_run import Run
from composer_lsp.server.agent.workspace import EditorWorkspace

_CUT_OFF = "(The run was cut off.)"


@dataclass(frozen=True, kw_only=True, slots=True)
class GoingOn:
    """Implements `Worker`. What is pending of the earlier run is pending in the new one instead, once that
    has begun."""

    agent: Agent
    earlier: Run
    """It has ended."""
    transcript: Transcript
    """The earlier one's."""
    workspace: EditorWorkspace
    pending_changed: Callable[[], None]

    def context(self) -> ToolContext:
        return self.agent.context()

    async def run(
        self,
        request: Request,
        emit: Callable[[Event], None],
        *,
        model_name: str,
        context: ToolContext,
        id: str,
    ) -> Finished:
        past = await self._hand_over(context, emit)
        self.pending_changed()
        return await self.agent.run(
            request, emit, model_name=model_name, context=context, id=id, past=past
        )

    async def _hand_over(
        self, context: ToolContext, emit: Callable[[Event], None]
    ) -> Sequence[Message]:
        """Fill the new run's context. Returns what was said, with what became of the changes."""
        conflicts = await self._hand_changes_over(context)
        unread = await restore_reads(self.transcript, context)
        context.plan = self.earlier.context.plan
        for path, why in conflicts.items():
            emit(NoticeEvent(f"the change to {path} stays with the run {self.earlier.id}: {why}"))
        if paths := [change.path for change in context.changes.changes()]:
            emit(EditsEvent(tuple(paths)))
        answer = answer_of(self.transcript) or _CUT_OFF
        told = (*self._verdicts(), *_told(conflicts, unread))
        return said_in(self.transcript, "\n\n".join((answer, *told)))

    async def _hand_changes_over(self, context: ToolContext) -> Mapping[str, str]:
        """What could not be, and why: its lines are others now."""
        pending, conflicts = self.earlier.pending, dict[str, str]()
        for change in list(pending.changes()):
            try:
                (now,) = await self.workspace.carried_over([change])
            except ConflictError as error:
                conflicts |= error.conflicts
                continue
            # The user may have taken or left it meanwhile.
            if change in pending.changes():
                pending.reject(change.path)
                context.changes.add(now)
        if context.changes:
            context.ledger.edited()
        return conflicts

    def _verdicts(self) -> Sequence[str]:
        """What the user made of its changes, as its transcript tells it."""
        paths: dict[str, set[str]] = {"accepted": set(), "rejected": set()}
        for entry in self.transcript.entries:
            if entry["kind"] == "verdict":
                for name, found in paths.items():
                    found.update([entry["path"]] if entry[name] else ())
        return [
            f"(The user {name} changes of {', '.join(sorted(found))}.)"
            for name, found in paths.items()
            if found
        ]


def _told(conflicts: Mapping[str, str], unread: Sequence[str]) -> Sequence[str]:
    told = [f"(The changes of {path} are lost: {why}.)" for path, why in conflicts.items()]
    if unread:
        told.append(f"(These files are others now: {', '.join(sorted(unread))}.)")
    return told

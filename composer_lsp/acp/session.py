"""One session: a conversation about some folders, of which one prompt runs at a time."""

import asyncio
import logging
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol

from acp import schema

from composer_lsp.acp.client import SessionClient
from composer_lsp.acp.commands import Command, read_command
from composer_lsp.acp.paths import ClientPaths
from composer_lsp.acp.prompt import Block, Prompt, read_prompt
from composer_lsp.acp.questions import Questions
from composer_lsp.acp.saved import SavedSession, SavedSessions
from composer_lsp.acp.updates import Narrator, Updates
from composer_lsp.acp.workspace import ClientWorkspace
from composer_lsp.agent.command_rules import Permissions, RulesFile
from composer_lsp.agent.configured import configured_agent
from composer_lsp.agent.conversation import Conversation
from composer_lsp.agent.edits.change_set import FileChange
from composer_lsp.agent.mcp.configuration import Named
from composer_lsp.agent.model import ChatModel
from composer_lsp.agent.prompt.system import Mode, Request
from composer_lsp.agent.run import Outcome
from composer_lsp.agent.tools.context import ToolContext
from composer_lsp.agent.transcript import Transcript, new_id
from composer_lsp.agent.window_checkpoints import WindowCheckpoints
from composer_lsp.agent.workspace.workspace import CodeIndex, ConflictError
from composer_lsp.config import Settings

logger = logging.getLogger(__name__)

_STOP_REASONS: dict[str, schema.StopReason] = {
    "finished": "end_turn",
    # It ends with a question.
    "stuck": "end_turn",
    "limit": "max_turn_requests",
}


class NamedModel(ChatModel, Protocol):
    async def name(self) -> str:
        """Raises: EngineError."""
        ...


class BusyError(Exception):
    """A prompt came while another one runs."""


class FailedError(Exception):
    """A run failed; the text says why, for the user."""


@dataclass(kw_only=True)
class Session:
    """For the event loop."""

    id: str
    cwd: str
    additional: tuple[str, ...]
    paths: ClientPaths
    client: SessionClient
    model: NamedModel
    index: CodeIndex | None
    settings: Settings
    state: Path
    """The user's state folder: transcripts, checkpoints, rules, saved sessions."""
    saved: SavedSessions
    mode: Mode
    tool_servers: Named
    """Those that the client offers."""
    conversation: Conversation = field(default_factory=Conversation)
    transcripts: list[str] = field(default_factory=list[str])
    title: str = ""

    def __post_init__(self) -> None:
        self.updates = Updates(self.client)
        self._workspace = ClientWorkspace(self.paths, self.client)
        self._questions = Questions(self.client, self.updates, self.paths)
        rules = RulesFile.of(self.state, Path(self.paths.roots[0]))
        self._permissions = Permissions(rules, self._questions)
        # Those of editors' windows: either can take back what the other did.
        self._checkpoints = WindowCheckpoints(self.paths, self.state)
        self._running: asyncio.Task[schema.StopReason] | None = None
        self._is_cancelled = False

    async def prompt(self, blocks: Sequence[Block]) -> schema.StopReason:
        """Raises: BusyError, PromptError, CommandError, FailedError, EngineError, WorkspaceError,
        CheckpointError, OSError."""
        if self._running is not None:
            raise BusyError("this session is still answering another prompt; cancel it first")
        self._is_cancelled = False
        self._running = asyncio.ensure_future(self._prompt(blocks))
        try:
            await asyncio.wait([self._running])
            if self._running.cancelled():
                return "cancelled"
            stop_reason = self._running.result()
            # It may have been too late: changes that are half made are made wholly.
            return "cancelled" if self._is_cancelled else stop_reason
        finally:
            # The client has gone, if it still runs.
            self._running.cancel()
            self._running = None
            await self.updates.flush()

    def cancel(self) -> None:
        """End the prompt that runs, if one does."""
        if self._running is not None:
            self._is_cancelled = True
            self._running.cancel()

    async def close(self) -> None:
        if self._running is not None:
            self._running.cancel()
            await asyncio.wait([self._running])
        await self.updates.close()

    async def _prompt(self, blocks: Sequence[Block]) -> schema.StopReason:
        prompt = await asyncio.to_thread(read_prompt, blocks, self.paths)
        command = read_command(prompt.text)
        self._tell([f"Left out: {each}." for each in prompt.left_out])
        if command is not None and command.name == "undo":
            await self._undo()
            return "end_turn"
        return await self._answer(prompt, command)

    async def _answer(self, prompt: Prompt, command: Command | None) -> schema.StopReason:
        mode = self.mode if command is None or command.mode is None else command.mode
        text = prompt.text if command is None else command.text
        words = f"{text}\n\n{prompt.attached}" if prompt.attached else text
        self.title = self.title or text.split("\n", 1)[0][:80]
        outcome, context = await self._run(Request(mode=mode, text=words))
        if mode == "plan" and outcome.status == "finished" and context.plan:
            if not await self._questions.carry_out():
                return "end_turn"
            steps = [step.text for step in context.plan]
            outcome, _ = await self._run(Request(mode="edit", text=words, plan=steps))
        if outcome.status == "failed":
            raise FailedError(outcome.text)
        return _STOP_REASONS[outcome.status]

    async def _run(self, request: Request) -> tuple[Outcome, ToolContext]:
        agent = configured_agent(
            self.settings,
            self.state,
            workspace=self._workspace,
            model=self.model,
            index=self.index,
            ask_user=self._questions.confirm,
            permissions=self._permissions,
            server_approver=self._questions,
            more_servers=[self.tool_servers],
        )
        context = agent.context()
        await self.conversation.restore_reads(context)
        context.apply_pending = lambda: self._apply_pending(request, context)
        narrator = Narrator(self.updates, context, self.paths)
        self._questions.current_call = narrator.current_call
        name = await self.model.name()
        try:
            finished = await agent.run(
                request,
                narrator,
                model_name=name,
                context=context,
                past=self.conversation.messages,
            )
        except asyncio.CancelledError:
            narrator.stopped()
            self._told_of_loss(context)
            self.conversation.stopped(request.text)
            raise
        if finished.outcome.status != "failed":
            narrator.outcome(finished.outcome)
        answer = finished.outcome.text
        try:
            changes = list(context.changes.changes())
            answer += await self._change(request, changes, finished.transcript)
        finally:
            # What was said stays said, whatever becomes of the changes.
            self.conversation.add(finished.transcript, answer)
            if finished.transcript.path is not None:
                self.transcripts.append(finished.transcript.header.id)
            await self._save()
        return finished.outcome, context

    def _told_of_loss(self, context: ToolContext) -> None:
        paths = ", ".join(change.path for change in context.changes.changes())
        if paths:
            self._tell([f"Stopped. The changes of {paths} were not made."])

    async def _change(
        self, request: Request, changes: Sequence[FileChange], transcript: Transcript
    ) -> str:
        """Ask whether the changes may be made, and make them. What became of them, for the
        conversation. Raises: WorkspaceError, OSError."""
        if not changes:
            return ""
        listed = ", ".join(change.path for change in changes)
        id = await self._questions.may_change(changes)
        if id is None:
            transcript.add_verdicts(changes, is_accepted=False)
            return f"\n\n(The user rejected the changes of {listed}.)"
        try:
            await self._apply(request, changes)
        except ConflictError as error:
            self._questions.settle(id, "failed", str(error))
            self._tell([f"The changes were not made: {error}."])
            return f"\n\n(The changes were not made: {error})"
        except BaseException as error:
            self._questions.settle(id, "failed", str(error) or "Stopped: nothing was changed.")
            raise
        self._questions.settle(id, "completed")
        transcript.add_verdicts(changes, is_accepted=True)
        return f"\n\n(The changes of {listed} were made.)"

    async def _apply_pending(self, request: Request, context: ToolContext) -> None:
        """Before a command that sees the disk alone; the user has agreed. Raises: WorkspaceError,
        OSError."""
        changes = list(context.changes.changes())
        id = self._questions.show(changes)
        try:
            await self._apply(request, changes)
        except BaseException as error:
            self._questions.settle(id, "failed", str(error) or "Stopped: nothing was changed.")
            raise
        for change in changes:
            context.changes.reject(change.path)
        self._questions.settle(id, "completed")

    async def _apply(self, request: Request, changes: Sequence[FileChange]) -> None:
        label = request.text.split("\n", 1)[0][:60]
        checkpoint = new_id()
        await asyncio.to_thread(self._checkpoints.save, checkpoint, label, changes)
        try:
            await self._workspace.apply(changes, label=f"Composer: {label}")
        except BaseException:
            await asyncio.to_thread(self._checkpoints.drop, checkpoint)
            raise

    async def _undo(self) -> None:
        """Raises: WorkspaceError, CheckpointError."""
        last = await asyncio.to_thread(self._checkpoints.last)
        if last is None:
            self._tell(["There is nothing to undo."])
            return
        changes = await asyncio.to_thread(self._checkpoints.reversed, last.id)
        await self._workspace.apply(changes, label=f"Undo: {last.label}")
        await asyncio.to_thread(self._checkpoints.drop, last.id)
        paths = ", ".join(change.path for change in changes)
        self._tell([f"Undone: {last.label} ({paths})."])

    def _tell(self, notices: Sequence[str]) -> None:
        for each in notices:
            self.updates.text(f"*{each}*\n\n")

    async def _save(self) -> None:
        saved = SavedSession(
            id=self.id,
            cwd=self.cwd,
            additional=self.additional,
            mode=self.mode,
            title=self.title,
            updated=datetime.now(UTC).isoformat(timespec="seconds"),
            transcripts=tuple(self.transcripts),
        )
        with suppress(asyncio.CancelledError):
            try:
                await asyncio.to_thread(self.saved.write, saved)
            except OSError as error:
                logger.warning("the session %s cannot be saved: %s", self.id, error)

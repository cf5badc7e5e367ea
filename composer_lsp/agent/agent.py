"""Puts a run together: the prompt, the tools, the transcript."""

import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from composer_lsp.agent.checks import make_checks
from composer_lsp.agent.events import CallEvent, Event, NoticeEvent, OutputEvent, current_call
from composer_lsp.agent.git import GitState, read_git
from composer_lsp.agent.guidance import is_led
from composer_lsp.agent.led import LedRun
from composer_lsp.agent.mcp.servers import ToolServers
from composer_lsp.agent.model import ChatModel, Message
from composer_lsp.agent.prompt.rules import read_rules
from composer_lsp.agent.prompt.system import (
    CHANGING,
    Mode,
    Request,
    led_system_message,
    request_message,
    system_message,
)
from composer_lsp.agent.run import AgentRun, Limits, Outcome
from composer_lsp.agent.run_commands import CommandSettings, RunCommands
from composer_lsp.agent.tools.code import likely
from composer_lsp.agent.tools.context import ToolContext
from composer_lsp.agent.tools.sets import few_tools_for, tools_for
from composer_lsp.agent.transcript import Header, Transcript, new_id
from composer_lsp.agent.workspace.workspace import CodeIndex, Workspace
from composer_lsp.config import Guidance

_NO_SERVERS = (
    "Tool servers are not used: the model is led (composer.agent.guidance), and would lose itself in "
    "more tools."
)
_LED_SEARCH = {"num_results": 5, "max_lines": 100, "max_chars": 7000}


@dataclass(kw_only=True)
class Finished:
    """A run that has ended, with what it changed."""

    outcome: Outcome
    context: ToolContext
    transcript: Transcript


@dataclass(frozen=True, kw_only=True, slots=True)
class Agent:
    """Starts runs on one workspace. What they change is in their `Finished`; applying it is the
    caller's."""

    workspace: Workspace
    model: ChatModel
    transcripts: Path
    """The folder that they are kept in."""
    index: CodeIndex | None = None
    ask_user: Callable[[str], Awaitable[bool]] | None = None
    """A yes-or-no question; None: nobody can answer, and the answer is no."""
    commands: CommandSettings = field(default_factory=CommandSettings)
    guidance: Guidance = "auto"
    limits: Limits | None = None
    tool_servers: Callable[[Callable[[Event], None]], Awaitable[ToolServers]] | None = None
    """Makes a run's tool servers; None: there are none."""

    async def run(
        self,
        request: Request,
        emit: Callable[[Event], None],
        *,
        model_name: str = "",
        context: ToolContext | None = None,
        id: str | None = None,
        past: Sequence[Message] = (),
    ) -> Finished:
        """`context` (see `context()`): what the run changes is seen in it while it goes on, and what is
        in it already was changed before. `id`: the transcript's, a new one by default. `past`: what was
        said before the request, from another request on; the transcript holds it as its first `context`.
        """
        git = await self._git()
        context = context or self.context()
        leads = self._leads(model_name, request.mode)
        if not leads or request.mode not in CHANGING:  # `LedRun` looks by itself
            found = await likely(context, request.text, **(_LED_SEARCH if leads else {}))
            request = replace(
                request,
                git_status=request.git_status or git.status,
                likely_code=found.code,
                likely_tests=found.tests,
            )
        system, asked = await self._messages(request, leads=leads)
        header = Header(
            id=id or new_id(),
            mode=request.mode,
            request=request.text,
            roots=tuple(self.workspace.paths.roots),
            model=model_name,
            began=time.time(),
            base_commit=git.commit,
            dirty_diff=git.diff,
        )
        transcript = Transcript.begin(
            self.transcripts, header, on_loss=lambda text: emit(NoticeEvent(text))
        )
        begun = [system, *past] if past else []
        if begun:
            transcript.add("context", messages=begun)
        if context.changes:
            transcript.add_changes(list(context.changes.changes()))
        try:
            outcome = await self.converse(
                request.mode,
                context,
                transcript,
                emit,
                [asked] if begun else [system, asked],
                past=begun,
                has_diagnostics=bool(request.diagnostics),
            )
        finally:
            transcript.close()
        return Finished(outcome=outcome, context=context, transcript=transcript)

    async def converse(
        self,
        mode: Mode,
        context: ToolContext,
        transcript: Transcript,
        emit: Callable[[Event], None],
        messages: Sequence[Message],
        *,
        past: Sequence[Message] = (),
        has_diagnostics: bool = False,
    ) -> Outcome:
        """From the first question, or where `past` ended, to the outcome, with the mode's tools. What
        they started has ended when it returns or raises."""
        emit = _noting_calls(emit)
        async with self._commands(emit) as context.commands, AsyncExitStack() as stack:
            checks = make_checks(self.workspace, self.index, None, emit)
            leads = self._leads(transcript.header.model, mode)
            if leads and mode != "plan" and self.tool_servers is not None:
                (await self.tool_servers(emit)).leave_out(_NO_SERVERS)
            if leads and mode in CHANGING:
                led = LedRun(
                    model=self.model,
                    context=context,
                    transcript=transcript,
                    emit=emit,
                    checks=checks,
                    limits=self.limits,
                    mode=mode,
                )
                return await led.run(messages, past=past)
            if leads:
                tools = list(few_tools_for(mode))
            else:
                tools = list(
                    tools_for(
                        mode,
                        has_index=self.index is not None,
                        has_diagnostics=has_diagnostics,
                        lint=checks.diagnostics,
                    )
                )
            if self.tool_servers is not None and tools:
                servers = await stack.enter_async_context(await self.tool_servers(emit))
                tools += await servers.tools()
            run = AgentRun(
                model=self.model,
                tools=tools,
                context=context,
                transcript=transcript,
                emit=emit,
                checks=checks,
                limits=self.limits,
                always_calls=leads,
            )
            return await run.run(messages, past=past)

    def context(self) -> ToolContext:
        context = ToolContext(workspace=self.workspace, index=self.index)
        if self.ask_user is not None:
            context.ask_user = self.ask_user
        return context

    @asynccontextmanager
    async def _commands(self, emit: Callable[[Event], None]) -> AsyncGenerator[RunCommands, None]:
        def watcher() -> Callable[[str], None]:
            call = current_call.get()
            return lambda text: emit(OutputEvent(call, text))

        commands = RunCommands(
            self.commands,
            [Path(root) for root in self.workspace.paths.roots],
            watcher=watcher,
            notice=lambda text: emit(NoticeEvent(text)),
        )
        try:
            yield commands
        finally:
            await commands.aclose()

    def _leads(self, model: str, mode: Mode) -> bool:
        """Whether the model is led by the hand. Without an index no code can be found for it."""
        return is_led(model, self.guidance) and (mode != "ask" or self.index is not None)

    async def _messages(self, request: Request, *, leads: bool) -> tuple[Message, Message]:
        """The system's and the request."""
        rules = await read_rules(self.workspace, request.active_path, request.text)
        if leads:
            return (led_system_message(request.mode, rules), request_message(request))
        names = [self.workspace.paths.at(root, "").path for root in self.workspace.paths.roots]
        return (system_message(request.mode, rules, names), request_message(request))

    async def _git(self) -> GitState:
        """Of the first root: what a transcript needs to start from the same state."""
        return await read_git(self.workspace.paths.roots[0])


def _noting_calls(emit: Callable[[Event], None]) -> Callable[[Event], None]:
    """A call's tool runs in the context in which the call was announced."""

    def tell(event: Event) -> None:
        if isinstance(event, CallEvent):
            current_call.set(event.id)
        emit(event)

    return tell

"""The agent's loop: ask the model, run what it calls, until it is done."""

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, Literal

from composer_lsp.agent.arguments import canonical
from composer_lsp.agent.calls import CallRunner, Result
from composer_lsp.agent.compaction import Compactor
from composer_lsp.agent.doubtful_answer import doubts
from composer_lsp.agent.events import EditsEvent, Event, NoticeEvent, PlanEvent, TextEvent
from composer_lsp.agent.evidence import Problem, check_claims, places_of_names
from composer_lsp.agent.formats.cursor import WrittenCall
from composer_lsp.agent.formats.splitter import Splitter
from composer_lsp.agent.model import ChatModel, Message, Reply
from composer_lsp.agent.repetition import is_endless
from composer_lsp.agent.state import StateLog
from composer_lsp.agent.tools.context import ToolContext
from composer_lsp.agent.tools.tool import Tool
from composer_lsp.agent.transcript import Transcript
from composer_lsp.engine.errors import (
    EngineError,
    OverloadedError,
    TruncatedStreamError,
    UnreachableError,
)
from composer_lsp.index.client import WorkerError

logger = logging.getLogger(__name__)

Status = Literal["finished", "stuck", "limit", "failed", "stopped"]

MAX_SUMMARY_LINES = 8
"""Of what is said at the end of a run that has changed something."""

_RETRIED = (TruncatedStreamError, UnreachableError, OverloadedError)
"""The engine died or is busy; the same question may be answered by the next one."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Limits:
    max_turns: int = 50
    """Questions to the model in one run."""
    max_reply_tokens: int = 4096
    """Of one answer."""
    num_tries: int = 3
    """Of a malformed call, of an engine that breaks off, before the user is told."""
    max_repeats: int = 3
    """The same calls so many times in a row end the run."""
    max_refused: int = 5
    """So many turns in a row of whose edits and commands none could be done end the run."""
    max_reply_chars: int = 500_000
    """Of one answer, for a server that keeps to no number of tokens."""
    retry_s: float = 1.0
    """Before an engine that broke off is asked again; twice as long the next time."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Outcome:
    status: Status
    text: str
    """The answer or the summary; of a run that did not finish, why, and what to do."""
    problems: tuple[Problem, ...] = ()
    """Claims of the text that do not hold."""


Checks = Callable[[ToolContext], Awaitable[str]]
"""Looks at what was changed since it was last called; what the model should know, or nothing."""


async def no_checks(context: ToolContext) -> str:
    return ""


GOES_ON = "Go on."
"""What a run is told that goes on as it was."""


@dataclass(frozen=True, slots=True)
class Question:
    """What the model is asked next."""

    messages: Sequence[Message]
    tools: Sequence[Tool]
    must_call: bool
    """One of them, where the engine can see to that."""


class AgentRun:
    """One request, from the first question to the outcome. For one event loop.

    Cancelling `run` ends what runs; what was changed stays in the context, as it does when the run
    fails.
    """

    def __init__(
        self,
        *,
        model: ChatModel,
        tools: Sequence[Tool],
        context: ToolContext,
        transcript: Transcript,
        emit: Callable[[Event], None],
        checks: Checks = no_checks,
        limits: Limits | None = None,
        always_calls: bool = False,
    ) -> None:
        """`always_calls`: each answer is to be a call, where the engine can see to that."""
        self._model = model
        self._always_calls = always_calls
        self._tools = tools
        definitions = [tool.definition for tool in tools]
        self._context = context
        self._transcript = transcript
        self._emit = emit
        self._checks = checks
        self._limits = limits or Limits()
        self._calls = CallRunner(tools, context, emit)
        self._compactor = Compactor(model, definitions, self._limits.max_reply_tokens)
        self._state = StateLog(context, transcript)
        self._messages: list[Message] = []
        self._request: Message | None = None
        """What the user asked last."""
        self._was_mended = False
        self._told_of: set[str] = set()
        self._num_malformed = 0
        self._num_cut = 0
        self._past: list[str] = []
        self._num_refused = 0

    async def run(self, messages: Sequence[Message], *, past: Sequence[Message] = ()) -> Outcome:
        """`messages` begin the conversation, the system's and the request, or go on with one whose
        `past` is in the transcript already."""
        self._messages = list(past)
        self._transcript.add("tools", definitions=[tool.definition for tool in self._tools])
        for message in messages:
            self._add(message)
        self._request = messages[-1] if messages else None
        try:
            room = await self._model.context_tokens()
            # A third of the context or less, in code.
            self._context.max_result_chars = min(self._context.max_result_chars, room)
            outcome = await self._loop()
            await self._state.note()
        except EngineError as error:
            outcome = Outcome(status="failed", text=str(error))
        except asyncio.CancelledError:
            self._end(Outcome(status="stopped", text="The run was stopped."))
            raise
        self._end(outcome)
        return outcome

    async def _loop(self) -> Outcome:
        for _ in range(self._limits.max_turns):
            await self._make_room()
            reply = await self._reply(self._question())
            self._add(reply.message, reply)
            if reply.calls:
                outcome = await self._after_calls(reply)
            else:
                outcome = await self._after_text(reply)
            if outcome is not None:
                return outcome
        text = f"The run was ended after {self._limits.max_turns} turns. It can be continued."
        return Outcome(status="limit", text=text)

    async def _make_room(self) -> None:
        fitted = await self._compactor.fitted(self._messages, self._request)
        if fitted != self._messages:
            self._messages = fitted
            self._transcript.add("context", messages=list(fitted))

    def _question(self) -> Question:
        must_call = bool(self._tools) and (self._always_calls or not self._has_looked_up)
        return Question(self._messages, self._tools, must_call)

    async def _reply(self, question: Question) -> Reply:
        for num_tries in range(1, self._limits.num_tries + 1):
            try:
                return await self._stream(question)
            except _RETRIED as error:
                if num_tries == self._limits.num_tries:
                    raise
                self._emit(NoticeEvent(f"{error}; asking again"))
                await asyncio.sleep(self._limits.retry_s * 2 ** (num_tries - 1))
        raise AssertionError("the last try returns or raises")

    async def _stream(self, question: Question) -> Reply:
        reply = Reply()
        deltas = self._model.reply(
            question.messages,
            [tool.definition for tool in question.tools],
            max_tokens=self._limits.max_reply_tokens,
            must_call=question.must_call,
        )
        offered = {tool.name: tool.parameters for tool in question.tools}
        splitter = Splitter(offered, [tool.name for tool in question.tools if tool.only_reads])
        async with aclosing(deltas):
            async for delta in deltas:
                reply.written += delta.text
                reply.add_unshown(delta)
                self._show(reply, splitter.feed(delta.text))
                if splitter.is_over or self._is_too_long(reply):
                    break
        self._show(reply, splitter.flush())
        reply.take_written_calls()
        reply.unknown_tools = splitter.unknown
        reply.doubtful_tools = splitter.doubtful
        return reply

    @property
    def _has_looked_up(self) -> bool:
        """Some models answer from memory what they should look up."""
        return any(message["role"] == "tool" for message in self._messages)

    def _show(self, reply: Reply, pieces: Sequence[str | WrittenCall]) -> None:
        for piece in pieces:
            if isinstance(piece, WrittenCall):
                reply.written_calls.append(piece)
            else:
                reply.text += piece
                self._emit(TextEvent(piece))

    def _is_too_long(self, reply: Reply) -> bool:
        is_over = is_endless(reply.written) or reply.num_chars > self._limits.max_reply_chars
        if is_over:
            reply.finish_reason = "length"
        return is_over

    async def _after_calls(self, reply: Reply) -> Outcome | None:
        num_edits, plan = self._context.ledger.num_edits, self._context.plan
        results = await self._calls.run(reply.calls)
        for result in results:
            self._add_result(result)
        if self._context.plan != plan:
            self._emit(PlanEvent(self._context.plan))
        if self._context.ledger.num_edits != num_edits:
            await self._after_edits()
        await self._state.note()
        if self._context.summary is not None:
            return await self._judged(self._context.summary, max_lines=MAX_SUMMARY_LINES)
        if reply.finish_reason == "length" and results[-1].is_malformed:
            self._tell(
                "Your answer was cut before the call had ended. Do it in smaller steps: a part of a "
                "file, then the next."
            )
        return self._malformed(results) or self._repeated(reply, results) or self._refused(results)

    async def _after_edits(self) -> None:
        self._note_changes()
        if found := await self._checks(self._context):
            self._tell(f"[checks] {found}")

    def _note_changes(self) -> None:
        changes = list(self._context.changes.changes())
        self._transcript.add_changes(changes)
        self._emit(EditsEvent(tuple(change.path for change in changes)))

    async def _after_text(self, reply: Reply) -> Outcome | None:
        if reply.finish_reason == "length":
            return self._cut()
        self._num_cut = 0
        if not reply.text.strip():
            self._num_malformed += 1
            if self._num_malformed >= self._limits.num_tries:
                return Outcome(status="failed", text="The model answers with nothing.")
            self._tell("Your answer was empty. Call a tool or answer.")
            return None
        for doubt in doubts(reply, [tool.name for tool in self._tools]):
            if doubt.kind not in self._told_of:
                self._told_of.add(doubt.kind)
                self._tell(doubt.text)
                return None
        return await self._judged(reply.text.strip())

    def _cut(self) -> Outcome | None:
        self._num_cut += 1
        if self._num_cut >= self._limits.num_tries:
            text = f"The model's answers did not come to an end, {self._num_cut} times in a row."
            return Outcome(status="failed", text=text)
        self._tell("Your answer was cut. Do not repeat it: go on, more briefly.")
        return None

    async def _judged(self, text: str, *, max_lines: int | None = None) -> Outcome | None:
        """The outcome, unless something is wrong with it that the model was not told of yet: claims
        that do not hold, or after changes more lines than a summary has. `max_lines`: more are cut."""
        problems = await check_claims(text, self._context)
        num_lines = len(text.splitlines())
        is_long = self._context.ledger.num_edits > 0 and num_lines > MAX_SUMMARY_LINES
        if self._was_mended or not (problems or is_long):
            for problem in problems:
                self._emit(NoticeEvent(f"not shown to be true: {problem.claim} ({problem.why})"))
            if max_lines is not None and num_lines > max_lines:
                text = "\n".join([*text.splitlines()[:max_lines], "…"])
            text += await self._places(text)
            return Outcome(status="finished", text=text, problems=tuple(problems))
        self._was_mended = True
        self._context.summary = None
        told: list[str] = []
        if problems:
            listed = "\n".join(f"- {problem.claim}: {problem.why}" for problem in problems)
            told.append(
                "These claims do not hold. Look it up or run it, or leave the claim out, and answer "
                f"again:\n{listed}"
            )
        if is_long:
            told.append(
                f"Your summary has {num_lines} lines. The user sees the changes themselves: say what was "
                f"done in a few lines, at most {MAX_SUMMARY_LINES}."
            )
        self._tell("\n\n".join(told))
        return None

    async def _places(self, text: str) -> str:
        """What is added to an answer that names code and cites no line of it."""
        try:
            places = await places_of_names(text, self._context)
        except WorkerError as error:
            logger.warning("an answer stays without its places: %s", error)
            return ""
        added = f"\n\nDefined: {', '.join(places)}." if places else ""
        if added:
            self._emit(TextEvent(added))
        return added

    def _malformed(self, results: Sequence[Result]) -> Outcome | None:
        if not all(result.is_malformed for result in results):
            self._num_malformed = 0
            return None
        self._num_malformed += 1
        if self._num_malformed < self._limits.num_tries:
            return None
        error = results[-1].text
        text = (
            f"The model called a tool wrongly {self._num_malformed} times; the last time: {error}"
        )
        return Outcome(status="failed", text=text)

    def _refused(self, results: Sequence[Result]) -> Outcome | None:
        changing = [result for result in results if not self._only_reads(result.call.name)]
        if not changing:
            return None
        self._num_refused += 1
        if not all(result.is_error for result in changing):
            self._num_refused = 0
        if self._num_refused < self._limits.max_refused:
            return None
        text = (
            f"None of the model's last {self._num_refused} tries could be done; the last time: "
            f"{changing[-1].text}. What should it do differently? Say so, and the run goes on."
        )
        return Outcome(status="stuck", text=text)

    def _only_reads(self, name: str) -> bool:
        return all(tool.only_reads for tool in self._tools if tool.name == name)

    def _repeated(self, reply: Reply, results: Sequence[Result]) -> Outcome | None:
        calls = [(call.name, canonical(call.arguments)) for call in reply.calls]
        self._past.append(json.dumps(calls))
        last = self._past[-self._limits.max_repeats :]
        if len(last) < self._limits.max_repeats or len(set(last)) > 1:
            if results[-1].is_error and self._past[-1] in self._past[-2:-1]:
                self._tell("You have made this very call before. Do something else.")
            return None
        names = ", ".join(call.name for call in reply.calls)
        text = (
            f"The model does the same again and again ({names}). What should it do differently? "
            "Say so, and the run goes on."
        )
        return Outcome(status="stuck", text=text)

    def _tell(self, content: str) -> None:
        """The model, by the harness."""
        self._add({"role": "user", "content": content})

    def _add(self, message: Message, reply: Reply | None = None) -> None:
        self._messages.append(message)
        self._transcript.add_message(message, reply)

    def _add_result(self, result: Result) -> None:
        message: dict[str, Any] = {
            "role": "tool",
            "tool_call_id": result.call.id,
            "name": result.call.name,
            "content": f"Error: {result.text}" if result.is_error else result.text,
        }
        self._messages.append(message)
        self._transcript.add_message(message)
        self._transcript.add(
            "result",
            id=result.call.id,
            is_error=result.is_error,
            duration_s=round(result.duration_s, 4),
        )

    def _end(self, outcome: Outcome) -> None:
        self._transcript.add_changes(list(self._context.changes.changes()))
        self._transcript.add(
            "end",
            status=outcome.status,
            text=outcome.text,
            problems=[[problem.claim, problem.why] for problem in outcome.problems],
        )

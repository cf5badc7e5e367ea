"""Runs the calls of one turn: those that only read at the same time, the others in their order."""

import asyncio
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from composer_lsp.agent.arguments import canonical, read_arguments
from composer_lsp.agent.edits.change_set import EditError
from composer_lsp.agent.events import CallEvent, Event, ResultEvent
from composer_lsp.agent.model import ToolCall
from composer_lsp.agent.tools.context import ToolContext
from composer_lsp.agent.tools.schema import ArgumentError
from composer_lsp.agent.tools.tool import Tool, ToolError
from composer_lsp.agent.workspace.paths import PathError
from composer_lsp.agent.workspace.workspace import WorkspaceError
from composer_lsp.index.client import WorkerError

MAX_RESULT_CHARS = 30_000
"""Of one result: some 10,000 tokens."""
TIME_LIMIT_S = 60.0
"""Of a call that only reads. Commands have a limit of their own."""
MAX_AT_ONCE = 8
MAX_CALLS = 64
"""Of one turn that are done."""

_MAX_ERROR_CHARS = 300
"""Of an error that no tool foresaw."""

logger = logging.getLogger(__name__)

_REFUSALS = (ToolError, ArgumentError, EditError, PathError, WorkspaceError, WorkerError)


@dataclass(frozen=True, kw_only=True, slots=True)
class Result:
    call: ToolCall
    text: str
    is_error: bool
    duration_s: float = 0.0
    is_malformed: bool = False
    """The call itself was wrong, not what it asked for: JSON, tool, arguments."""


class CallRunner:
    def __init__(
        self, tools: Sequence[Tool], context: ToolContext, emit: Callable[[Event], None]
    ) -> None:
        self._tools = {tool.name: tool for tool in tools}
        self._context = context
        self._emit = emit
        self._slots = asyncio.Semaphore(MAX_AT_ONCE)

    async def run(self, calls: Sequence[ToolCall]) -> list[Result]:
        """The results in the order of the calls. Cancelling it cancels what runs."""
        results: list[Result] = []
        for only_reads, some in groupby(calls[:MAX_CALLS], self._only_reads):
            if only_reads:
                results += await self._at_once(list(some))
            else:
                results += [await self._one(call) for call in some]
        return results + [self._dropped(call) for call in calls[MAX_CALLS:]]

    def _dropped(self, call: ToolCall) -> Result:
        self._emit(CallEvent(call.id, call.name, call.arguments))
        text = f"not done: {MAX_CALLS} calls are done at a time; make it again if you need it still"
        return self._ended(call, text, 0.0, is_error=True)

    def _only_reads(self, call: ToolCall) -> bool:
        tool = self._tools.get(call.name)
        return tool is None or tool.only_reads

    async def _at_once(self, calls: Sequence[ToolCall]) -> list[Result]:
        # The same question twice in one turn is asked once.
        tasks: dict[tuple[str, str], asyncio.Task[Result]] = {}
        async with asyncio.TaskGroup() as group:
            for call in calls:
                if _key(call) not in tasks:
                    tasks[_key(call)] = group.create_task(self._limited(call))
        return [self._as(call, tasks[_key(call)].result()) for call in calls]

    def _as(self, call: ToolCall, result: Result) -> Result:
        if result.call is call:
            return result
        text = f"The same as the call {result.call.id}."
        self._emit(CallEvent(call.id, call.name, call.arguments))
        self._emit(ResultEvent(call.id, text, False, 0.0))
        return Result(call=call, text=text, is_error=result.is_error)

    async def _limited(self, call: ToolCall) -> Result:
        async with self._slots:
            try:
                async with asyncio.timeout(TIME_LIMIT_S):
                    return await self._one(call)
            except TimeoutError:
                text = f"{call.name} did not end within {TIME_LIMIT_S:.0f} s; ask for less"
                return self._ended(call, text, TIME_LIMIT_S, is_error=True)

    async def _one(self, call: ToolCall) -> Result:
        self._emit(CallEvent(call.id, call.name, call.arguments))
        began = time.monotonic()
        is_malformed = False
        try:
            tool, arguments = self._understood(call)
            text, is_error = await tool.call(self._context, arguments), False
        except _REFUSALS as error:
            text, is_error = str(error), True
            is_malformed = isinstance(error, ArgumentError)
        except Exception as error:
            # Whatever a tool meets that it did not foresee, the run goes on without it.
            logger.exception("the tool %s failed", call.name)
            text, is_error = f"{call.name} failed: {_told(error)}", True
        return self._ended(
            call, text, time.monotonic() - began, is_error=is_error, is_malformed=is_malformed
        )

    def _ended(
        self,
        call: ToolCall,
        text: str,
        duration_s: float,
        *,
        is_error: bool,
        is_malformed: bool = False,
    ) -> Result:
        # A file's name can hold bytes that are no text.
        text = cut_middle(text, MAX_RESULT_CHARS).encode("utf-8", "replace").decode()
        self._emit(ResultEvent(call.id, text, is_error, duration_s))
        return Result(
            call=call,
            text=text,
            is_error=is_error,
            duration_s=duration_s,
            is_malformed=is_malformed,
        )

    def _understood(self, call: ToolCall) -> tuple[Tool, object]:
        """Raises: ArgumentError."""
        tool = self._tools.get(call.name)
        if tool is None:
            raise ArgumentError(f"there is no tool {call.name!r}; there are {_names(self._tools)}")
        try:
            return tool, read_arguments(call.arguments)
        except ValueError as error:
            raise ArgumentError(str(error)) from error


def cut_middle(text: str, max_chars: int) -> str:
    """The text, or its begin and end with a note in between of what is left out."""
    if len(text) <= max_chars:
        return text
    half = max_chars // 2
    num_cut = len(text) - 2 * half
    return f"{text[:half]}\n[cut: {num_cut:,} characters are left out here]\n{text[-half:]}"


def _key(call: ToolCall) -> tuple[str, str]:
    return call.name, canonical(call.arguments)


def _told(error: Exception) -> str:
    lines = str(error).splitlines() or [""]
    return f"{type(error).__name__}: {lines[0][:_MAX_ERROR_CHARS]}"


def _names(tools: Mapping[str, Tool]) -> str:
    return ", ".join(tools)

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from composer_lsp.agent import calls as calls_module
from composer_lsp.agent.calls import (
    MAX_AT_ONCE,
    MAX_CALLS,
    MAX_RESULT_CHARS,
    CallRunner,
    Result,
)
from composer_lsp.agent.events import CallEvent, Event, ResultEvent
from composer_lsp.agent.model import ToolCall
from composer_lsp.agent.tools.context import ToolContext
from composer_lsp.agent.tools.tool import Tool, tool

ERRORS = {
    "value": ValueError("embedded null byte"),
    "os": OSError(7, "Argument list too long"),
    "group": ExceptionGroup("two failed", [KeyError("a"), KeyError("b")]),
    "empty": RuntimeError(),
    "assertion": AssertionError("line one\nline two"),
}


@tool(only_reads=True)
async def look(context: ToolContext, what: str) -> str:
    """Fails as it is asked to."""
    if what == "cancelled":
        raise asyncio.CancelledError
    if what in ERRORS:
        raise ERRORS[what]
    return f"saw {what}"


@tool(only_reads=False)
async def change(context: ToolContext, what: str) -> str:
    """Fails as it is asked to."""
    raise ERRORS[what]


def call(tool: Tool, what: str, number: int = 0) -> ToolCall:
    return ToolCall(id=f"{number}", name=tool.name, arguments=f'{{"what": "{what}"}}')


def ignore(event: Event) -> None:
    pass


def run(
    context: ToolContext, calls: Sequence[ToolCall], emit: Callable[[Event], None] = ignore
) -> list[Result]:
    return asyncio.run(CallRunner([look, change], context, emit).run(calls))


@pytest.mark.parametrize("failing", [look, change], ids=["reads", "changes"])
@pytest.mark.parametrize(
    ("what", "told"),
    [
        ("value", "ValueError: embedded null byte"),
        ("os", "OSError: [Errno 7] Argument list too long"),
        ("group", "ExceptionGroup: two failed (2 sub-exceptions)"),
        ("empty", "RuntimeError: "),
        ("assertion", "AssertionError: line one"),
    ],
)
def test_a_tool_that_fails_ends_no_run(
    context: ToolContext, caplog: pytest.LogCaptureFixture, failing: Tool, what: str, told: str
) -> None:
    first, second = run(context, [call(failing, what), call(look, "it", 1)])
    assert (first.text, first.is_error) == (f"{failing.name} failed: {told}", True)
    assert not first.is_malformed
    assert second.text == "saw it"
    (record,) = [each for each in caplog.records if each.levelno == logging.ERROR]
    assert record.exc_info is not None and record.exc_info[1] is ERRORS[what]


def test_cancellation_is_no_failure(context: ToolContext) -> None:
    with pytest.raises(asyncio.CancelledError):
        run(context, [call(look, "cancelled")])


def test_calls_over_the_limit_are_answered_and_not_done(context: ToolContext) -> None:
    events: list[Event] = []
    calls = [call(look, f"number {each}", each) for each in range(MAX_CALLS + 2)]
    results = run(context, calls, events.append)
    assert [result.call.id for result in results] == [each.id for each in calls]
    assert not any(result.is_error for result in results[:MAX_CALLS])
    for result in results[MAX_CALLS:]:
        assert result.is_error and result.text.startswith("not done: 64 calls")
    told = [event.id for event in events if isinstance(event, ResultEvent)]
    assert sorted(told) == sorted(each.id for each in calls)


# --- At the same time, in order, once, and no longer than may be ---------------------------------


class Meeting:
    """Tools that note when they begin and end, and begin to end when `num_expected` have begun."""

    def __init__(self, num_expected: int = 1) -> None:
        self.log: list[str] = []
        self.num_running = self.most_at_once = self.num_begun = 0
        self._num_expected = num_expected
        self._all_there = asyncio.Event()

    def tool(self, name: str, *, only_reads: bool) -> Tool:
        @tool(only_reads=only_reads)
        async def meet(context: ToolContext, what: str, more: int = 0) -> str:
            """Waits for the others."""
            self.log.append(f"{what} begins")
            self.num_begun += 1
            self.num_running += 1
            self.most_at_once = max(self.most_at_once, self.num_running)
            if self.num_begun >= self._num_expected:
                self._all_there.set()
            await self._all_there.wait()
            # Others would run here, if they could.
            await asyncio.sleep(0)
            self.num_running -= 1
            self.log.append(f"{what} ends")
            return what

        return replace(meet, name=name)

    def run(self, context: ToolContext, *calls: ToolCall) -> list[Result]:
        tools = [self.tool("read", only_reads=True), self.tool("write", only_reads=False)]

        async def within() -> list[Result]:
            async with asyncio.timeout(60):
                return await CallRunner(tools, context, ignore).run(calls)

        return asyncio.run(within())


def named(name: str, what: str) -> ToolCall:
    return ToolCall(id=what, name=name, arguments=f'{{"what": "{what}"}}')


def test_calls_that_read_run_at_the_same_time(context: ToolContext) -> None:
    meeting = Meeting(3)
    results = meeting.run(context, *(named("read", what) for what in "abc"))
    assert [result.text for result in results] == ["a", "b", "c"]


def test_no_more_run_at_once_than_may(context: ToolContext) -> None:
    meeting = Meeting(MAX_AT_ONCE)
    meeting.run(context, *(named("read", str(number)) for number in range(3 * MAX_AT_ONCE)))
    assert meeting.most_at_once == MAX_AT_ONCE


def test_writes_keep_their_order_among_reads(context: ToolContext) -> None:
    meeting = Meeting()
    calls = [named("read", "a"), named("write", "b"), named("write", "c"), named("read", "d")]
    meeting.run(context, *calls)
    assert meeting.log == [f"{what} {how}" for what in "abcd" for how in ("begins", "ends")]


def test_the_same_question_is_asked_once(context: ToolContext) -> None:
    meeting = Meeting()
    written = ('{"what": "a", "more": 1}', '{"more":1,"what":"a"}', '{"what": "a"}')
    calls = [
        ToolCall(id=f"{number}", name="read", arguments=arguments)
        for number, arguments in enumerate(written)
    ]
    results = meeting.run(context, *calls)
    assert [result.text for result in results] == ["a", "The same as the call 0.", "a"]
    assert meeting.num_begun == 2


def test_what_changes_is_done_each_time(context: ToolContext) -> None:
    meeting = Meeting()
    meeting.run(context, named("write", "a"), named("write", "a"))
    assert meeting.num_begun == 2


def test_a_call_that_reads_too_long_is_ended(
    context: ToolContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(calls_module, "TIME_LIMIT_S", 0.01)
    never = Meeting(2)
    (result,) = never.run(context, named("read", "a"))
    assert (result.is_error, result.text) == (True, "read did not end within 0 s; ask for less")
    assert never.log == ["a begins"]


def test_a_long_result_is_cut_in_the_middle(context: ToolContext) -> None:
    events: list[Event] = []
    (result,) = run(context, [call(look, "x" * 2 * MAX_RESULT_CHARS)], events.append)
    assert result.text.startswith("saw xxx") and result.text.endswith("xxx")
    assert "\n[cut: 30,004 characters are left out here]\n" in result.text
    begun, ended = events
    assert isinstance(begun, CallEvent) and isinstance(ended, ResultEvent)
    assert ended.text == result.text

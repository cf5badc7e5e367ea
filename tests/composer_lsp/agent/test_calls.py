import asyncio
import logging
from collections.abc import Callable, Sequence

import pytest

from composer_lsp.agent.calls import MAX_CALLS, CallRunner, Result
from composer_lsp.agent.events import Event, ResultEvent
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

"""What a run tells, as session updates: text, tool calls, plans."""

import asyncio
import json
import re
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any, cast

from acp import helpers, schema

from composer_lsp.acp.client import SessionClient, Update
from composer_lsp.acp.paths import ClientPaths
from composer_lsp.agent.calls import cut_middle
from composer_lsp.agent.edits.change_set import FileChange
from composer_lsp.agent.events import (
    CallEvent,
    EditsEvent,
    Event,
    NoticeEvent,
    OutputEvent,
    PlanEvent,
    ResultEvent,
    TextEvent,
    current_call,
)
from composer_lsp.agent.run import Outcome
from composer_lsp.agent.tools.context import PlanState, ToolContext
from composer_lsp.agent.workspace.paths import PathError

_MAX_RESULT_CHARS = 8_000
"""Of a tool's result that the client shows."""
_MAX_TITLE_CHARS = 120

_KINDS: Mapping[str, schema.ToolKind] = {
    "read_file": "read",
    "list_files": "read",
    "find_files": "search",
    "grep": "search",
    "semantic_search": "search",
    "symbols": "search",
    "references": "search",
    "diagnostics": "read",
    "edit_file": "edit",
    "write_file": "edit",
    "move_file": "move",
    "delete_file": "delete",
    "run_command": "execute",
    "read_output": "execute",
    "stop_command": "execute",
}
_SUBJECTS = ("path", "line", "command", "pattern", "query", "name")
"""Arguments that say what a call is about."""
_MAX_OUTPUT_CHARS = 4_000
"""Of a command's output while it runs."""
_OUTPUT_PAUSE_S = 0.2
"""Between two pieces of it."""
_SHOWN_OTHERWISE = ("update_plan", "finish")
"""Their outcome is a plan and a text."""
_PLAN_STATUS: Mapping[PlanState, schema.PlanEntryStatus] = {
    "todo": "pending",
    "doing": "in_progress",
    "done": "completed",
}


class Updates:
    """Sends updates in the order that they were given; for one session."""

    def __init__(self, client: SessionClient) -> None:
        self._client = client
        self._queue: asyncio.Queue[Update] = asyncio.Queue()
        self._sending = asyncio.ensure_future(self._send_all())
        self._ids = count(1)

    def send(self, update: Update) -> None:
        self._queue.put_nowait(update)

    def text(self, text: str) -> None:
        self.send(helpers.update_agent_message_text(shown(text)))

    async def flush(self) -> None:
        """Until all is on its way."""
        await self._queue.join()

    def new_id(self) -> str:
        """Of a tool call. A model's own ids come again in every turn."""
        return f"call-{next(self._ids)}"

    async def close(self) -> None:
        await self.flush()
        self._sending.cancel()

    async def _send_all(self) -> None:
        while True:
            update = await self._queue.get()
            try:
                await self._client.update(update)
            finally:
                self._queue.task_done()


@dataclass(slots=True)
class _Call:
    id: str
    """The client's."""
    event: CallEvent
    output: str = ""
    shown_at: float = 0.0
    """When its output was last sent, by the monotonic clock."""


class Narrator:
    """Takes the events of one run."""

    def __init__(self, updates: Updates, context: ToolContext, paths: ClientPaths) -> None:
        self._updates = updates
        self._paths = paths
        self._context = context
        self._calls: dict[str, list[_Call]] = {}
        """By the model's id, which comes again in every turn, or twice in one."""
        self._said = ""

    def __call__(self, event: Event) -> None:
        match event:
            case TextEvent(text=text):
                self._said += text
                self._updates.text(text)
            case CallEvent():
                self._called(event)
            case OutputEvent():
                self._wrote(event)
            case ResultEvent():
                self._returned(event)
            case PlanEvent(steps=steps):
                entries = [
                    helpers.plan_entry(shown(step.text), status=_PLAN_STATUS[step.state])
                    for step in steps
                ]
                self._updates.send(helpers.update_plan(entries))
            case NoticeEvent(text=text):
                self._paragraph(f"*{text}*")
            case EditsEvent():
                pass  # each call shows its own

    def current_call(self) -> str | None:
        """The tool call in whose course this is called."""
        call = self._open(current_call.get())
        return None if call is None else call.id

    def outcome(self, outcome: Outcome) -> None:
        """The answer, as far as it was not streamed."""
        if not self._said.strip().endswith(outcome.text.strip()):
            self._paragraph(outcome.text)

    def stopped(self) -> None:
        """The calls that were running run no more."""
        for call in (call for calls in self._calls.values() for call in calls):
            if call.event.name not in _SHOWN_OTHERWISE:
                self._updates.send(helpers.update_tool_call(call.id, status="failed"))
        self._calls.clear()

    def _paragraph(self, text: str) -> None:
        self._updates.text(f"\n\n{text}\n\n" if self._said else f"{text}\n\n")
        self._said = ""

    def _called(self, event: CallEvent) -> None:
        if self._said:
            self._updates.text("\n\n")
            self._said = ""
        id = self._updates.new_id()
        self._calls.setdefault(event.id, []).append(_Call(id, event))
        if event.name in _SHOWN_OTHERWISE:
            return
        self._updates.send(
            helpers.start_tool_call(
                id,
                call_title(event.name, event.arguments),
                kind=call_kind(event.name),
                status="in_progress",
                locations=call_locations(self._paths, event.arguments),
            )
        )

    def _returned(self, event: ResultEvent) -> None:
        started = self._calls.get(event.id)
        if not started:
            return
        each = started.pop(0)
        call = each.event
        if call.name in _SHOWN_OTHERWISE:
            return
        content = [] if event.is_error else self._staged(call)
        self._updates.send(
            helpers.update_tool_call(
                each.id,
                status="failed" if event.is_error else "completed",
                content=content or [text_content(event.text)],
            )
        )

    def _wrote(self, event: OutputEvent) -> None:
        """Show the end of the output so far. The result, which comes last, has what counts."""
        if (call := self._open(event.id)) is None:
            return
        call.output = (call.output + event.text)[-_MAX_OUTPUT_CHARS:]
        now = time.monotonic()
        if now - call.shown_at >= _OUTPUT_PAUSE_S:
            call.shown_at = now
            self._updates.send(
                helpers.update_tool_call(call.id, content=[text_content(call.output)])
            )

    def _open(self, id: str) -> "_Call | None":
        return next(iter(self._calls.get(id, ())), None)

    def _staged(self, call: CallEvent) -> list[helpers.ToolCallContentVariant]:
        """What the run has done to the file of an editing call so far."""
        if call_kind(call.name) not in ("edit", "delete", "move"):
            return []
        paths = self._paths
        wanted = {location.path for location in call_locations(paths, call.arguments)}
        return diffs(
            paths,
            (
                change
                for change in self._context.changes.changes()
                if paths.given(paths.locate(change.path)) in wanted
            ),
        )


def call_kind(name: str) -> schema.ToolKind:
    return _KINDS.get(name, "other")


def call_title(name: str, arguments: str) -> str:
    fields = _fields(arguments)
    subject = next((fields[each] for each in _SUBJECTS if each in fields), "")
    line = " ".join(f"{name} {shown(subject)}".split())
    return line if len(line) <= _MAX_TITLE_CHARS else f"{line[: _MAX_TITLE_CHARS - 1]}…"


def call_locations(paths: ClientPaths, arguments: str) -> list[schema.ToolCallLocation]:
    fields = _fields(arguments)
    named = [fields[each] for each in ("path", "target") if each in fields]
    return [schema.ToolCallLocation(path=path) for path in _absolute(paths, named)]


def diffs(
    paths: ClientPaths, changes: Iterable[FileChange]
) -> list[helpers.ToolCallContentVariant]:
    """A file that moved is shown as one that leaves and one that comes."""
    found: list[helpers.ToolCallContentVariant] = []
    for change in changes:
        if change.moved_from is not None:
            found.append(_diff(paths, change.moved_from, change.before_text, ""))
        before = None if change.before is None or change.moved_from else change.before_text
        found.append(_diff(paths, change.path, before, change.after or ""))
    return found


def text_content(text: str) -> schema.ContentToolCallContent:
    return helpers.tool_content(helpers.text_block(shown(cut_middle(text, _MAX_RESULT_CHARS))))


def shown(text: str) -> str:
    """Without lone surrogates, which the protocol's types refuse."""
    return re.sub("[\ud800-\udfff]", "\ufffd", text)


def _diff(
    paths: ClientPaths, path: str, before: str | None, after: str
) -> schema.FileEditToolCallContent:
    absolute = paths.given(paths.locate(path))
    old = None if before is None else shown(before)
    return helpers.tool_diff_content(shown(absolute), shown(after), old)


def _absolute(paths: ClientPaths, named: Sequence[str]) -> Iterator[str]:
    for each in named:
        try:
            yield shown(paths.given(paths.locate(each)))
        except PathError:
            continue


def _fields(arguments: str) -> dict[str, str]:
    """The arguments that are texts; none of arguments that are no JSON object."""
    try:
        value: object = json.loads(arguments or "{}")
    except (ValueError, RecursionError):
        return {}
    if not isinstance(value, dict):
        return {}
    return {
        name: each for name, each in cast("dict[str, Any]", value).items() if isinstance(each, str)
    }

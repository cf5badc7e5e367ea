"""Keeps a conversation within the model's context: old results go first, then old turns, of which a
line each is left.

What stays is a prefix of what was there for as long as possible, so that the engine's cache of the
prompt holds: nothing is touched before the window is full, and then enough is taken at once.
"""

import json
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from composer_lsp.agent.calls import cut_middle
from composer_lsp.agent.model import ChatModel, Message

_ROOM = 0.6
"""Of the budget that is filled after something was taken out."""
_KEPT_RESULT_CHARS = 200
_NUM_RECENT = 6
"""Last messages that are shortened only when nothing else is left."""
_SHORTENED = "[shortened: call the tool again if you need it]"
_MESSAGE_TOKENS = 8
"""That a template puts around a message, about."""
_NOTE = "[earlier turns, in short; what they found is not here any more]"
"""Begins the message that stands for the turns that left, behind the first two."""
_NOTE_SHARE = 0.1
"""Of the budget that this message may take."""
_LINE_CHARS = 160


class Compactor:
    def __init__(
        self, model: ChatModel, tools: Sequence[Mapping[str, Any]], max_reply_tokens: int
    ) -> None:
        self._model = model
        self._tools = json.dumps(tools)
        self._max_reply_tokens = max_reply_tokens
        self._counts: dict[str, int] = {}

    async def fitted(
        self, messages: Sequence[Message], request: Message | None = None
    ) -> list[Message]:
        """The messages, shortened if they would leave no room for a reply. The first two, system
        and request, and what is asked now stay whole. Raises: EngineError."""
        budget = await self._budget()
        sizes = [await self._size(message) for message in messages]
        kept = list(messages)
        if sum(sizes) <= budget:
            return kept
        goal = int(budget * _ROOM)
        noted = _lines_of_note(kept)
        first = 3 if noted else 2
        order = range(first, len(kept) - _NUM_RECENT)
        results = [index for index in order if kept[index]["role"] == "tool"]
        others = [index for index in order if kept[index]["role"] != "tool"]
        recent = range(max(first, len(kept) - _NUM_RECENT), len(kept))
        for index in (*results, *others, *recent):
            if sum(sizes) <= goal:
                break
            if kept[index] is request:
                continue
            kept[index] = _shortened(kept[index])
            sizes[index] = await self._size(kept[index])
        if sum(sizes) <= budget:
            return kept
        # Whole turns, an assistant's message with its results, leave last.
        del kept[2:first], sizes[2:first]
        room = int(budget * _NOTE_SHARE)
        for limit, num_spared in ((goal, _NUM_RECENT), (budget, 0)):
            while sum(sizes) + room > limit:
                turn = _first_turn(kept[: len(kept) - num_spared], request)
                if turn is None:
                    break
                noted += _lines_of_turn(kept[turn])
                del kept[turn], sizes[turn]
        note = await self._note(noted, min(room, budget - sum(sizes)))
        return [*kept[:2], *note, *kept[2:]]

    async def _note(self, lines: Sequence[str], room: int) -> Sequence[Message]:
        """The newest of the lines, as many as the room (tokens) is for. Raises: EngineError."""
        for first in range(len(lines)):
            message = {"role": "user", "content": "\n".join([_NOTE, *lines[first:]])}
            if await self._size(message) <= room:
                return [message]
        return []

    async def _budget(self) -> int:
        context = await self._model.context_tokens()
        tools = await self._count(self._tools)
        reply = min(self._max_reply_tokens, context // 4)
        return max(context // 4, context - tools - reply)

    async def _size(self, message: Message) -> int:
        text = str(message.get("content") or "")
        for call in message.get("tool_calls", ()):
            text += call["function"]["name"] + call["function"]["arguments"]
        return await self._count(text) + _MESSAGE_TOKENS

    async def _count(self, text: str) -> int:
        if text not in self._counts:
            self._counts[text] = await self._model.num_tokens(text)
        return self._counts[text]


def _shortened(message: Message) -> Message:
    content = str(message.get("content") or "")
    if len(content) > _KEPT_RESULT_CHARS + len(_SHORTENED):
        content = f"{cut_middle(content, _KEPT_RESULT_CHARS)}\n{_SHORTENED}"
    shortened = {**message, "content": content}
    if "tool_calls" in message:
        shortened["tool_calls"] = [_without_texts(call) for call in message["tool_calls"]]
    return shortened


def _without_texts(call: Mapping[str, Any]) -> Mapping[str, Any]:
    """A past call whose long arguments are cut, and which is JSON still."""
    function = call["function"]
    try:
        arguments = _cut(json.loads(function["arguments"]))
    except ValueError:
        arguments = {}
    return {**call, "function": {**function, "arguments": json.dumps(arguments)}}


def _cut(value: Any) -> Any:
    match value:
        case str():
            return cut_middle(value, _KEPT_RESULT_CHARS)
        case dict():
            return {name: _cut(each) for name, each in value.items()}  # pyright: ignore[reportUnknownVariableType]
        case list():
            return [_cut(each) for each in value]  # pyright: ignore[reportUnknownVariableType]
        case _:
            return value


def _lines_of_note(messages: Sequence[Message]) -> list[str]:
    """Of the message that stands for turns that left before; empty if there is none."""
    content = str(messages[2].get("content") or "") if len(messages) > 2 else ""
    head, *lines = content.split("\n")
    return lines if head == _NOTE else []


def _lines_of_turn(messages: Sequence[Message]) -> list[str]:
    """What was said, and each call with what came of it."""
    results = {each.get("tool_call_id"): each for each in messages if each["role"] == "tool"}
    lines: list[str] = []
    for message in messages:
        if message["role"] != "tool" and (text := _line(message.get("content"))):
            who = "you said" if message["role"] == "assistant" else "you were told"
            lines.append(f"- {who}: {text}")
        for call in message.get("tool_calls", ()):
            function = call["function"]
            line = f"{function['name']} {_line(function['arguments'])}"
            result = _line(results.get(call["id"], {}).get("content"))
            lines.append(f"- you called {line}: {result}")
    return lines


def _line(text: object) -> str:
    """The first line that says something, cut."""
    lines = (line.strip() for line in str(text or "").splitlines())
    line = next((line for line in lines if line), "")
    return line if len(line) <= _LINE_CHARS else f"{line[:_LINE_CHARS]}…"


def _first_turn(messages: Sequence[Message], request: Message | None) -> slice | None:
    """The first turn behind the first two messages that may leave, which the last may not."""
    starts = [
        index
        for index in range(2, len(messages))
        if messages[index]["role"] in ("assistant", "user")
    ]
    turns = (slice(start, end) for start, end in pairwise(starts))
    return next((turn for turn in turns if messages[turn.start] is not request), None)

"""Reads tool calls out of a text that no grammar held to them: all that a backend without grammars
can offer. What is no call of a known tool stays text."""

import json
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any, cast

from composer_inference.backends.base import GenerateChunk
from composer_inference.chat.calls import CallDelta
from composer_inference.chat.decode import Part
from composer_inference.chat.tools import Opening, OpeningScanner, Tools

_DECODER = json.JSONDecoder()


async def read_calls(
    chunks: AsyncGenerator[GenerateChunk, None], tools: Tools
) -> AsyncGenerator[Part, None]:
    """The parts of one answer: text as it comes, and from the first call on everything at the end.
    Text behind a call is dropped."""
    scanner = OpeningScanner(tools)
    rest: str | None = None
    async with aclosing(chunks):
        async for chunk in chunks:
            if rest is not None:
                rest += chunk.text
                yield Part(token_ids=chunk.token_ids)
            elif isinstance(found := scanner.feed(chunk.text), Opening):
                rest = found.rest
                yield _part(found.text_before, chunk)
            else:
                found += scanner.flush() if chunk.finish_reason is not None else ""
                yield _part(found, chunk)
            if chunk.finish_reason is not None:
                calls = _parse(rest or "", tools)
                for delta in calls:
                    yield Part(call=delta)
                yield Part(
                    text="" if calls else rest or "",
                    finish_reason="tool_calls" if calls else chunk.finish_reason,
                    timings=chunk.timings,
                    weights_version=chunk.weights_version,
                )


def _part(text: str, chunk: GenerateChunk) -> Part:
    return Part(text=text, logprobs=chunk.logprobs, token_ids=chunk.token_ids)


def _parse(text: str, tools: Tools) -> list[CallDelta]:
    """The calls at whose opening the text begins."""
    calls: list[CallDelta] = []
    found: str | Opening = Opening("", text)
    while isinstance(found, Opening):
        start = found.rest.find("{")
        try:
            value, end = _DECODER.raw_decode(found.rest, start) if start >= 0 else (None, 0)
        except ValueError:
            break
        fields = cast(dict[str, Any], value if isinstance(value, dict) else {})
        name, arguments = fields.get("name"), fields.get("arguments", {})
        if name not in tools.names or not isinstance(arguments, dict):
            break
        written = json.dumps(arguments, ensure_ascii=False)
        calls.append(CallDelta(index=len(calls), name=name, arguments=written))
        found = OpeningScanner(tools).feed(found.rest[end:])
    return calls

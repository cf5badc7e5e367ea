"""Server-sent events, the part of them that OpenAI-compatible servers use."""

import json
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Any, cast

from composer_lsp.engine.errors import NotAnEngineError, TruncatedStreamError

_DONE = b"[DONE]"

_MAX_LINE_BYTES = 4 * 2**20
"""Longer than any event of a completion, with log-probabilities and all."""


async def read_events(
    server: str, body: AsyncIterator[bytes]
) -> AsyncGenerator[dict[str, Any], None]:
    """The JSON objects of a stream's `data:` lines, to `[DONE]` or the stream's end.

    Raises: NotAnEngineError for a line that is no JSON object or does not end; TruncatedStreamError
    for a stream that ends before an event said that the answer is complete.
    """
    is_final = False
    async for line, is_whole in _lines(server, body):
        field, _, value = line.partition(b":")
        if field != b"data":
            continue  # comments keep the connection alive; other fields are not used
        data = value.strip()
        if data == _DONE:
            return
        event = _object(data)
        if event is None and not is_whole:
            is_final = False
            break
        if event is None:
            text = data[:100].decode("utf-8", errors="replace")
            raise NotAnEngineError(f"{server} streamed something other than a JSON object: {text}")
        is_final = _is_final(event)
        yield event
    if not is_final:
        raise TruncatedStreamError(f"{server} broke off in the middle of its answer")


def first_choice(event: dict[str, Any]) -> dict[str, Any]:
    """The only choice of a completion's event, empty where there is none (usage alone)."""
    choices: object = event.get("choices")
    if isinstance(choices, list) and choices and isinstance(choices[0], dict):
        return cast(dict[str, Any], choices[0])
    return {}


async def _lines(
    server: str, body: AsyncIterator[bytes]
) -> AsyncGenerator[tuple[bytes, bool], None]:
    """Each with whether its end came; the last one may be cut."""
    # Not httpx's own splitting: it takes U+2028 and form feeds, which JSON may hold, for line ends.
    begun = bytearray()
    async for piece in body:
        *ends, rest = piece.split(b"\n")
        for end in ends:
            line = bytes(begun) + end
            begun.clear()
            yield line.rstrip(b"\r"), True
        begun += rest
        if len(begun) > _MAX_LINE_BYTES:
            raise NotAnEngineError(
                f"{server} streamed a line of more than {_MAX_LINE_BYTES} bytes, which is no event"
            )
    if begun:
        yield bytes(begun), False


def _is_final(event: dict[str, Any]) -> bool:
    # llama.cpp's own endpoints say `stop`; usage may follow the choice that ended the answer.
    is_usage = not event.get("choices") and "usage" in event
    return bool(first_choice(event).get("finish_reason")) or event.get("stop") is True or is_usage


def _object(data: bytes) -> dict[str, Any] | None:
    try:
        value: object = json.loads(data)
    except (ValueError, RecursionError):
        return None
    return cast(dict[str, Any], value) if isinstance(value, dict) else None

"""Answers that end when their reader leaves: server-sent events, and whole ones watched meanwhile."""

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable
from contextlib import aclosing, suppress
from typing import Any, TypeVar

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from composer_inference.api.errors import ApiError, as_api_error
from composer_inference.api.service import EngineError
from composer_inference.backends.base import BackendError

T = TypeVar("T")


class ClientGoneError(Exception):
    """The client closed the connection; nobody waits for the answer."""


async def while_connected(request: Request, work: Awaitable[T]) -> T:
    """The result of `work`, which is cancelled when the client leaves. The body has been read.

    Raises: ClientGoneError, and what `work` raises.
    """
    task = asyncio.ensure_future(work)
    gone = asyncio.ensure_future(_disconnected(request))
    try:
        await asyncio.wait([task, gone], return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise ClientGoneError
        return task.result()
    finally:
        for future in (task, gone):
            future.cancel()
            with suppress(asyncio.CancelledError, Exception):
                await future


async def event_stream(request: Request, events: AsyncGenerator[dict[str, Any], None]) -> Response:
    """The events as `text/event-stream`. An error before the first event is an error's status;
    a later one is an event of its own.

    Raises: ClientGoneError, and what `events` raises before its first event.
    """
    try:
        first = await while_connected(request, anext(events))
    except BaseException:
        await events.aclose()
        raise
    return StreamingResponse(_encoded(first, events), media_type="text/event-stream")


async def _encoded(
    first: dict[str, Any], events: AsyncGenerator[dict[str, Any], None]
) -> AsyncIterator[str]:
    # Starlette cancels this generator when the client leaves, and `aclosing` ends the work.
    async with aclosing(events):
        yield _data(first)
        try:
            async for event in events:
                yield _data(event)
        except (ApiError, EngineError, BackendError) as error:
            yield _data(as_api_error(error).body())
            return
        yield "data: [DONE]\n\n"


def _data(event: dict[str, Any]) -> str:
    return f"data: {json.dumps(event, separators=(',', ':'))}\n\n"


async def _disconnected(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass

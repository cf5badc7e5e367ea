"""Answers that end when their reader leaves: server-sent events, and whole ones watched meanwhile."""

import asyncio
import json
from collections.abc import AsyncGenerator, Awaitable
from contextlib import aclosing, suppress
from typing import Any, TypeVar

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from composer_inference.api.errors import ApiError, as_api_error
from composer_inference.api.service import EngineError
from composer_inference.backends.base import BackendError

T = TypeVar("T")
Events = AsyncGenerator[dict[str, Any], None]


class ClientGoneError(Exception):
    """The client closed the connection; nobody waits for the answer."""


async def while_connected(request: Request, work: Awaitable[T]) -> T:
    """The result of `work`, which is cancelled when the client leaves. The body has been read.

    Raises: ClientGoneError, and what `work` raises.
    """
    return await _until_gone(request.receive, work)


async def event_stream(request: Request, events: Events) -> Response:
    """The events as `text/event-stream`. An error before the first event is an error's status;
    a later one is an event of its own.

    Raises: ClientGoneError, and what `events` raises before its first event.
    """
    try:
        first = await while_connected(request, anext(events))
    except BaseException:
        await events.aclose()
        raise
    return _EventStream(first, events)


class _EventStream(Response):
    """Starlette's own streaming response leaves it to the server whether a client that left is
    noticed between two events; a decode may be minutes from its next one."""

    media_type = "text/event-stream"

    def __init__(self, first: dict[str, Any], events: Events) -> None:
        super().__init__(headers={"Cache-Control": "no-cache"})
        del self.headers["content-length"]
        self._first = first
        self._events = events

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        # Closed here as well: a generator that was cancelled elsewhere than in its own code is not.
        async with aclosing(self._events):
            with suppress(ClientGoneError):
                await _until_gone(receive, self._send_all(send))

    async def _send_all(self, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        await _send_data(send, self._first)
        try:
            async for event in self._events:
                await _send_data(send, event)
        except (ApiError, EngineError, BackendError) as error:
            await _send_data(send, as_api_error(error).body())
        else:
            await _send_body(send, b"data: [DONE]\n\n")
        await _send_body(send, b"", more=False)


async def _send_data(send: Send, event: dict[str, Any]) -> None:
    data = json.dumps(event, separators=(",", ":"))
    await _send_body(send, f"data: {data}\n\n".encode())


async def _send_body(send: Send, body: bytes, *, more: bool = True) -> None:
    await send({"type": "http.response.body", "body": body, "more_body": more})


async def _until_gone(receive: Receive, work: Awaitable[T]) -> T:
    task = asyncio.ensure_future(work)
    gone = asyncio.ensure_future(_disconnected(receive))
    try:
        await asyncio.wait((task, gone), return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise ClientGoneError
        return task.result()
    finally:
        await _end(task)
        await _end(gone)


async def _end(task: asyncio.Future[Any]) -> None:
    task.cancel()
    await asyncio.wait((task,))
    if not task.cancelled():
        task.exception()  # Told to the caller, or to nobody when the client left.


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass

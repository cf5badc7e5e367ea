"""Small OpenAI-compatible servers that behave, or misbehave, as a test asks."""

import asyncio
import json
import socket
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

Answer = Callable[["FakeServer", dict[str, Any]], Response]


@dataclass
class Seen:
    path: str
    body: dict[str, Any]
    headers: dict[str, str]


@dataclass
class FakeServer:
    """Answers completions with `answer`; records what it was asked."""

    answer: Answer
    models: Sequence[str] = ("first-qwen", "second")
    list_data: list[object] | None = None
    """What is listed in place of `models`."""
    seen: list[Seen] = field(default_factory=list[Seen])
    closed_by_client: asyncio.Event = field(default_factory=asyncio.Event)
    num_sent: int = 0

    def app(self) -> Starlette:
        posts = ("/v1/completions", "/v1/chat/completions", "/infill", "/composer/load")
        return Starlette(
            routes=[
                Route("/v1/models", self._list_models),
                *(Route(path, self._post, methods=["POST"]) for path in posts),
            ]
        )

    async def _list_models(self, request: Request) -> Response:
        named = [{"id": name} for name in self.models]
        return JSONResponse({"object": "list", "data": self.list_data or named})

    async def _post(self, request: Request) -> Response:
        body = await request.json()
        self.seen.append(Seen(request.url.path, body, dict(request.headers)))
        if request.url.path == "/composer/load":
            return JSONResponse({"model": "qwen2.5-coder-0.5b"})
        return self.answer(self, body)


def text_event(text: str, finish_reason: str | None = None, **more: Any) -> dict[str, Any]:
    return {"choices": [{"text": text, "index": 0, "finish_reason": finish_reason}], **more}


def streamed(*events: dict[str, Any] | str, done: bool = True) -> Answer:
    """An event stream; a string stands for a raw line."""

    async def lines() -> AsyncIterator[str]:
        for event in events:
            yield (
                f"{event}\n"
                if isinstance(event, str)
                else f"data: {json.dumps(event, ensure_ascii=False)}\n\n"
            )
        if done:
            yield "data: [DONE]\n\n"

    return lambda server, body: StreamingResponse(lines(), media_type="text/event-stream")


def endless(server: FakeServer, body: dict[str, Any]) -> Response:
    """Streams until its client goes away."""

    async def lines() -> AsyncIterator[str]:
        try:
            while True:
                server.num_sent += 1
                yield f"data: {json.dumps(text_event('word '))}\n\n"
                await asyncio.sleep(0.01)
        finally:
            server.closed_by_client.set()

    return StreamingResponse(lines(), media_type="text/event-stream")


def refused(status: int, body: object, media_type: str = "application/json") -> Answer:
    text = body if isinstance(body, str) else json.dumps(body)
    return lambda server, request: Response(text, status, media_type=media_type)


@asynccontextmanager
async def serving(app: Starlette, listener: socket.socket) -> AsyncGenerator[None, None]:
    """The app behind a listening socket, in this event loop."""
    config = uvicorn.Config(app, log_config=None, lifespan="off", timeout_graceful_shutdown=1)
    server = uvicorn.Server(config)
    task = asyncio.create_task(server.serve(sockets=[listener]))
    try:
        yield
    finally:
        server.should_exit = True
        await task


@asynccontextmanager
async def on_port(server: FakeServer) -> AsyncGenerator[str, None]:
    """The server's URL without `/v1`."""
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen()
    async with serving(server.app(), listener):
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"

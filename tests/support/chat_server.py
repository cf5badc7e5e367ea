"""A server of OpenAI's `/v1/chat/completions` that answers with what a test wrote down: the model's
side of the protocol and nothing else."""

import json
import threading
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass(frozen=True)
class Cut:
    """A text that ends because it got too long."""

    text: str


@dataclass(frozen=True)
class Refusal:
    """An error answer."""

    status: int
    body: str


Said = str | list[tuple[str, Any]] | Cut | Refusal
"""A text, or calls as (tool, arguments)."""

DIES = "\1"
"""A text in the middle of which the connection ends, as when the engine dies."""
HANG = "\0"
"""A text at which nothing comes any more, until the client leaves."""


@dataclass
class FakeChat:
    replies: list[Said]
    requests: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    hanging: threading.Event = field(default_factory=threading.Event)
    left: threading.Event = field(default_factory=threading.Event)
    """The client closed a stream that hung."""
    url: str = ""


@contextmanager
def fake_chat(*replies: Said) -> Generator[FakeChat, None, None]:
    chat = FakeChat(list(replies))

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            data = {"object": "list", "data": [{"id": "played", "object": "model"}]}
            self._answer("application/json", json.dumps(data).encode())

        def do_POST(self) -> None:
            length = int(self.headers["Content-Length"])
            chat.requests.append(json.loads(self.rfile.read(length)))
            said = chat.replies.pop(0)
            if said == HANG:
                self._hang()
                return
            if said == DIES:
                self._answer("text/event-stream", b'data: {"choices": [{"delta": {"con')
                return
            if isinstance(said, Refusal):
                self._answer("application/json", said.body.encode(), said.status)
                return
            finish = "length" if isinstance(said, Cut) else "stop"
            last: dict[str, Any] = {"choices": [{"delta": {}, "finish_reason": finish}]}
            events = [*_events(said), last]
            body = "".join(f"data: {json.dumps(event)}\n\n" for event in events)
            self._answer("text/event-stream", body.encode() + b"data: [DONE]\n\n")

        def log_message(self, format: str, *args: object) -> None: ...

        def _answer(self, kind: str, body: bytes, status: int = 200) -> None:
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def _hang(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream")
            self.end_headers()
            chat.hanging.set()
            self.rfile.read(1)  # ends when the client leaves
            chat.left.set()

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    chat.url = f"http://127.0.0.1:{server.server_port}/v1"
    try:
        yield chat
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _events(said: str | list[tuple[str, Any]] | Cut) -> Sequence[dict[str, Any]]:
    if isinstance(said, Cut):
        said = said.text
    if isinstance(said, str):
        return [_event({"content": part}) for part in said.split("|")]
    return [
        _event({"tool_calls": [{"index": index, "id": f"call{index}", "function": function}]})
        for index, (name, arguments) in enumerate(said)
        for function in [{"name": name, "arguments": json.dumps(arguments)}]
    ]


def _event(delta: dict[str, Any]) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": None}]}

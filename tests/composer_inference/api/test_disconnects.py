"""A client that leaves stops the work at once: streamed or not, before the first token or after."""

import json
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from composer_inference.backends.base import GenerateRequest
from tests.support.played import HANG, PlayedBackend, PlayedLoader

LIMIT_S = 60.0
TOOLS = [{"type": "function", "function": {"name": "grep"}}]
CHAT = {"messages": [{"role": "user", "content": "hi"}]}


def hang_in_call(request: GenerateRequest) -> str:
    return f'{{"name": "grep", "arguments": {{{HANG}' if request.json_schema else "<tool_call>"


@pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])
@pytest.mark.parametrize(
    ("path", "body", "answer"),
    [
        pytest.param("/v1/completions", {"prompt": "x"}, HANG, id="prefill"),
        pytest.param("/v1/completions", {"prompt": "x"}, f"abc{HANG}", id="decode"),
        pytest.param("/v1/chat/completions", CHAT, HANG, id="chat-prefill"),
        pytest.param("/v1/chat/completions", CHAT, f"abc{HANG}", id="chat-decode"),
        pytest.param("/v1/chat/completions", {**CHAT, "tools": TOOLS}, f"a{HANG}", id="chat-tools"),
        pytest.param("/v1/chat/completions", {**CHAT, "tools": TOOLS}, hang_in_call, id="call"),
    ],
)
def test_the_backend_is_closed(
    serve: Callable[..., Path], path: str, body: dict, answer, stream: bool
):
    backend = PlayedBackend(answer)
    content = json.dumps({**body, "stream": stream}).encode()
    head = f"POST {path} HTTP/1.1\r\nHost: engine\r\nContent-Length: {len(content)}\r\n\r\n"
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(str(serve(loader=PlayedLoader(backend))))
        client.sendall(head.encode() + content)
        assert backend.hanging.wait(LIMIT_S)
        assert not backend.closed.is_set() or "tools" in body  # A call is decoded in two parts.
        backend.closed.clear()
    assert backend.closed.wait(LIMIT_S), "the backend works for nobody"

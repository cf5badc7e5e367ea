"""Prompts that have more tokens than the engine's context, though their estimate fits."""

from contextlib import aclosing
from typing import Any

import pytest
from starlette.responses import JSONResponse, Response

from composer_lsp.completion.templates import FimPrompt
from composer_lsp.config import RoleSettings
from composer_lsp.engine.client import remote_client
from composer_lsp.engine.errors import RequestRefusedError
from composer_lsp.engine.tab import Forcing, stream_completion
from tests.composer_lsp.engine.servers import Answer, FakeServer, on_port, streamed, text_event


def with_context(num_chars: int, code: str = "context_length_exceeded") -> Answer:
    """A server that refuses a longer prompt, markers apart."""

    def answer(server: FakeServer, body: dict[str, Any]) -> Response:
        if body["prompt"].count("a") + body["prompt"].count("b") > num_chars:
            error = {"message": "too long", "type": "invalid_request_error", "code": code}
            return JSONResponse({"error": error}, status_code=400)
        return streamed(text_event("c", "stop"))(server, body)

    return answer


async def ask(server: FakeServer) -> str:
    async with on_port(server) as url:
        client = remote_client(RoleSettings(url=url), "tab")
        chunks = stream_completion(
            client,
            FimPrompt(prefix="a" * 80 + "(", suffix=")" + "b" * 40),
            model="qwen",
            fim_template="auto",
            forcing=Forcing.NONE,
            max_tokens=8,
            stop=(),
        )
        try:
            async with aclosing(chunks):
                return "".join([chunk.text async for chunk in chunks])
        finally:
            await client.aclose()


async def test_the_nearer_half_is_asked_for() -> None:
    server = FakeServer(with_context(60))
    assert await ask(server) == "c"
    assert [seen.body["prompt"].count("a") for seen in server.seen] == [80, 40]
    assert server.seen[1].body["prompt"].endswith("(")
    assert ")b" in server.seen[1].body["prompt"]


async def test_it_is_halved_once() -> None:
    server = FakeServer(with_context(50))
    with pytest.raises(RequestRefusedError, match="too long"):
        await ask(server)
    assert len(server.seen) == 2


async def test_another_refusal_is_no_reason_to_ask_again() -> None:
    server = FakeServer(with_context(60, code="bad_request"))
    with pytest.raises(RequestRefusedError):
        await ask(server)
    assert len(server.seen) == 1

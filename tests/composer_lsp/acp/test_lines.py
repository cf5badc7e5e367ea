"""What goes over the wire: bad lines, the protocol's version, the end with the client."""

import asyncio
import json
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.composer_lsp.acp.conftest import LIMIT_S, spawn
from tests.support.chat_server import HANG, fake_chat

INITIALIZE = {"protocolVersion": 1, "clientCapabilities": {}}


class Wire:
    """Lines to the process and from it."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process

    def send(self, line: bytes) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(line + b"\n")

    async def receive(self) -> dict[str, Any]:
        """The next message; each line of stdout must be one."""
        assert self.process.stdout is not None
        async with asyncio.timeout(LIMIT_S):
            return json.loads(await self.process.stdout.readline())

    async def answer(self, line: bytes) -> dict[str, Any]:
        self.send(line)
        return await self.receive()

    async def call(self, id: Any, method: str, params: Any = None) -> dict[str, Any]:
        message = {"jsonrpc": "2.0", "id": id, "method": method, "params": params}
        return await self.answer(json.dumps(message).encode())

    async def ended(self) -> int:
        async with asyncio.timeout(LIMIT_S):
            return await self.process.wait()


Connect = Callable[..., AbstractAsyncContextManager[Wire]]


@pytest.fixture
def connect(home: Path) -> Connect:
    @asynccontextmanager
    async def connected(*arguments: str) -> AsyncGenerator[Wire]:
        process = await spawn(home, "--no-index", *arguments)
        try:
            yield Wire(process)
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()

    return connected


async def test_bad_lines_are_answered_and_the_next_good_one_too(connect: Connect) -> None:
    async with connect() as wire:
        for line, code, text in [
            (b"this is no JSON", -32700, "a line is no JSON"),
            (b'{"jsonrpc": "2.0", "id": 1, "method"', -32700, "a line is no JSON"),
            (b"\xff\xfe\x00", -32700, "a line is no JSON"),
            (b"[" * 100_000, -32700, "a line is no JSON"),
            (b"[]", -32600, "a message is an object"),
            (b"3", -32600, "a message is an object"),
            (b"{}", -32600, "a message has a method or an id"),
            (b'{"id": [1], "method": "initialize"}', -32600, "an id is a number or a text"),
            (b'{"id": true, "method": "initialize"}', -32600, "an id is a number or a text"),
            (b'{"id": 1, "method": ["initialize"]}', -32600, "a method is a text"),
        ]:
            answer = await wire.answer(line)
            assert answer["error"]["code"] == code, line[:40]
            assert text in answer["error"]["message"]
        wire.send(b"")
        # Answers to nothing that was asked, and notifications that nobody knows.
        wire.send(b'{"jsonrpc": "2.0", "id": 99, "result": {}}')
        wire.send(b'{"jsonrpc": "2.0", "id": "x", "error": 3}')
        wire.send(b'{"jsonrpc": "2.0", "method": "no/such", "params": {}}')
        answer = await wire.call(2, "initialize", INITIALIZE)
        assert (answer["id"], answer["result"]["protocolVersion"]) == (2, 1)


async def test_wrong_calls_are_answered_in_words(connect: Connect, tmp_path: Path) -> None:
    async with connect() as wire:
        early = await wire.call(1, "session/new", {"cwd": str(tmp_path), "mcpServers": []})
        assert early["error"]["message"] == "initialize comes before the first session"
        await wire.call("two", "initialize", INITIALIZE)
        for method, params, code, text in [
            ("no/such", {}, -32601, "Method not found: no/such"),
            ("authenticate", {"methodId": "x"}, -32601, "Method not found: authenticate"),
            ("session/fork", {"sessionId": "x", "cwd": "/"}, -32601, "Method not found"),
            ("session/new", None, -32602, "Invalid params: params: Input should be"),
            ("session/new", {"cwd": 3, "mcpServers": []}, -32602, "Invalid params: cwd: Input"),
            ("session/prompt", {"sessionId": "x"}, -32602, "Invalid params: prompt: Field req"),
            ("session/prompt", {"sessionId": "x", "prompt": []}, -32002, "there is no session"),
            ("session/prompt", {"sessionId": "x", "prompt": [{}]}, -32602, "Invalid params"),
            ("session/load", {"sessionId": "x", "cwd": "/", "mcpServers": []}, -32002, "'x'"),
        ]:
            answer = await wire.call(method, method, params)
            assert answer["id"] == method
            assert answer["error"]["code"] == code, answer
            assert text in answer["error"]["message"]


async def test_what_was_sent_is_not_said_again_in_errors(connect: Connect) -> None:
    async with connect() as wire:
        await wire.call(1, "initialize", INITIALIZE)
        params = {"sessionId": 3, "prompt": [{"type": "text", "text": "my secret plan"}]}
        answer = await wire.call(2, "session/prompt", params)
        assert answer["error"]["code"] == -32602
        assert "my secret plan" not in json.dumps(answer)


async def test_one_version_is_spoken(connect: Connect) -> None:
    async with connect() as wire:
        answer = await wire.call(1, "initialize", {**INITIALIZE, "protocolVersion": 9})
        assert answer["result"]["protocolVersion"] == 1


async def test_what_is_declared_is_there(connect: Connect) -> None:
    async with connect() as wire:
        result = (await wire.call(1, "initialize", INITIALIZE))["result"]
        assert result["agentInfo"]["name"] == "composer"
        assert result["authMethods"] == []
        assert result["agentCapabilities"] == {
            "loadSession": True,
            "promptCapabilities": {"image": False, "audio": False, "embeddedContext": True},
            "mcpCapabilities": {"http": True, "sse": True},
            "sessionCapabilities": {
                "list": {},
                "resume": {},
                "close": {},
                "additionalDirectories": {},
            },
        }


async def test_a_line_that_is_too_long_is_skipped(connect: Connect) -> None:
    async with connect() as wire:
        answer = await wire.answer(b"x" * (65 << 20))
        assert "a line has more than" in answer["error"]["message"]
        answer = await wire.call(1, "initialize", INITIALIZE)
        assert answer["id"] == 1


async def test_it_ends_when_the_client_closes_the_input(connect: Connect) -> None:
    async with connect() as wire:
        await wire.call(1, "initialize", INITIALIZE)
        assert wire.process.stdin is not None
        wire.process.stdin.close()
        assert await wire.ended() == 0


async def test_it_ends_in_the_middle_of_a_prompt_with_all_it_started(
    connect: Connect, tmp_path: Path
) -> None:
    with fake_chat(HANG) as chat:
        async with connect("--url", chat.url) as wire:
            await wire.call(1, "initialize", INITIALIZE)
            opened = await wire.call(2, "session/new", {"cwd": str(tmp_path), "mcpServers": []})
            session = opened["result"]["sessionId"]
            prompt = [{"type": "text", "text": "/ask What?"}]
            params = {"sessionId": session, "prompt": prompt}
            message = {"jsonrpc": "2.0", "id": 3, "method": "session/prompt", "params": params}
            wire.send(json.dumps(message).encode())
            assert await asyncio.to_thread(chat.hanging.wait, LIMIT_S)
            children = psutil.Process(wire.process.pid).children(recursive=True)
            assert wire.process.stdin is not None
            wire.process.stdin.close()
            await wire.ended()
            assert await asyncio.to_thread(chat.left.wait, LIMIT_S)
            assert not any(child.is_running() for child in children)


async def test_a_client_that_reads_no_more_ends_it(connect: Connect, tmp_path: Path) -> None:
    async with connect() as wire:
        await wire.call(1, "initialize", INITIALIZE)
        wire.process._transport.get_pipe_transport(1).close()  # pyright: ignore
        wire.send(b"this is no JSON")
        await wire.ended()


async def test_lone_surrogates_do_no_harm(connect: Connect) -> None:
    async with connect() as wire:
        await wire.call(1, "initialize", INITIALIZE)
        answer = await wire.answer(
            b'{"jsonrpc": "2.0", "id": "\\ud800", "method": "\\ud800", "params": {}}'
        )
        assert (answer["id"], answer["error"]["code"]) == ("\ud800", -32601)

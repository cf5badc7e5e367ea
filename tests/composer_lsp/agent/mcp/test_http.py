"""Servers with a URL, on a loopback port."""

import asyncio
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest

from composer_lsp.agent.tools.tool import ToolError
from tests.composer_lsp.agent.mcp.bench import HERE, Bench

Start = Callable[..., "subprocess.Popen[bytes]"]


@pytest.fixture
def port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


@pytest.fixture
def start(port: int) -> Iterator[Start]:
    running: list[subprocess.Popen[bytes]] = []

    def run(kind: str) -> "subprocess.Popen[bytes]":
        command = [sys.executable, str(HERE / "sdk_server.py"), kind, str(port)]
        running.append(subprocess.Popen(command))
        return running[-1]

    yield run
    for process in running:
        process.kill()
        process.wait()


async def listens(port: int) -> None:
    async with asyncio.timeout(60):
        while True:
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", port)
            except OSError:
                await asyncio.sleep(0.05)
            else:
                writer.close()
                return


def url(kind: str, port: int) -> dict[str, str]:
    path = "sse" if kind == "sse" else "mcp"
    return {"type": kind, "url": f"http://127.0.0.1:{port}/{path}"}


@pytest.mark.parametrize("kind", ["http", "sse"])
async def test_a_server_is_called(kind: str, bench: Bench, start: Start, port: int) -> None:
    start(kind)
    await listens(port)
    async with bench.servers({"s": url(kind, port)}) as servers:
        assert await bench.call(servers, "mcp__s__echo", text="a") == "a"
    assert f"URL: http://127.0.0.1:{port}/" in bench.asked.questions[0].text
    assert "is sent there" in bench.asked.questions[0].text


async def test_another_url_by_the_same_name_is_asked_again(
    bench: Bench, start: Start, port: int
) -> None:
    bench.asked.answers |= {"start": "always", "tools": "always"}
    start("http")
    await listens(port)
    async with bench.servers({"s": url("http", port)}) as servers:
        assert await servers.tools()
    bench.asked.answers["start"] = "deny"
    async with bench.servers({"s": {"url": f"http://localhost:{port}/mcp"}}) as servers:
        assert await servers.tools() == []
    assert f"Before: URL: http://127.0.0.1:{port}/mcp" in bench.asked.questions[-1].text


async def test_nobody_listens(bench: Bench, port: int) -> None:
    async with bench.servers({"s": url("http", port), "old": url("sse", port)}) as servers:
        assert await servers.tools() == []
    assert "The tool server s is not used: ConnectError" in bench.notices
    assert "The tool server old is not used: ConnectError" in bench.notices


async def test_a_server_that_was_started_anew_is_connected_to_again(
    bench: Bench, start: Start, port: int
) -> None:
    process = start("http")
    await listens(port)
    async with bench.servers({"s": url("http", port)}) as servers:
        tools = {tool.name: tool for tool in await servers.tools()}
        echo = tools["mcp__s__echo"]
        process.kill()
        process.wait()
        with pytest.raises(ToolError, match=r"the server of mcp__s__echo is gone"):
            await echo.call(bench.context, {"text": "a"})
        start("http")
        await listens(port)
        assert await echo.call(bench.context, {"text": "b"}) == "b"

"""Servers that do what they must not: a clear notice or a `ToolError`, and nothing left behind."""

import asyncio
from collections.abc import Iterator

import pytest

from composer_lsp.agent.mcp.connection import Limits
from composer_lsp.agent.mcp.launch import Process
from composer_lsp.agent.mcp.link import Link
from composer_lsp.agent.mcp.stdio import stdio_transport
from composer_lsp.agent.tools.tool import ToolError
from tests.composer_lsp.agent.mcp.bench import Bench, raw
from tests.support.processes import children


@pytest.fixture(autouse=True)
def nothing_is_left() -> Iterator[None]:
    yield
    assert children() == []


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("exits", "it ended with the exit status 1; the end of its stderr: no such license"),
        ("garbage", "what it writes to its standard output are no messages of the protocol"),
        ("silent", "it did not answer within 5 s"),
    ],
)
async def test_a_server_that_does_not_come_up(fault: str, said: str, bench: Bench) -> None:
    bench.limits = Limits(start_s=5 if fault == "silent" else 60)
    async with bench.servers({"bad": raw(fault)}) as servers:
        assert await servers.tools() == []
    assert f"The tool server bad is not used: {said}" in bench.notices


async def test_one_that_does_not_come_up_does_not_keep_the_others(bench: Bench) -> None:
    async with bench.servers({"bad": raw("exits"), "good": raw("none")}) as servers:
        assert [tool.name for tool in await servers.tools()] == ["mcp__good__echo"]


async def test_a_server_that_cannot_be_executed(bench: Bench) -> None:
    program = bench.root / "serve"
    program.write_bytes(b"\x7fELF nothing of the kind")
    program.chmod(0o755)
    async with bench.servers({"bad": {"command": "./serve"}}) as servers:
        assert await servers.tools() == []
    assert "The tool server bad is not used: OSError" in bench.notices


@pytest.mark.parametrize("fault", ["greets", "stderr"])
async def test_what_a_server_says_besides_is_harmless(fault: str, bench: Bench) -> None:
    async with bench.servers({"s": raw(fault)}) as servers:
        assert await bench.call(servers, "mcp__s__echo", text="a") == "a"


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("flood", "it wrote more than 20,000 messages unasked"),
        ("flood_of_logs", "it wrote more than 20,000 messages unasked"),
        ("long_line", "it wrote a message of more than 8,000,000 bytes"),
        ("no_result", "its answer is none: ValidationError"),
    ],
)
async def test_a_server_that_answers_a_call_badly(fault: str, said: str, bench: Bench) -> None:
    async with bench.servers({"s": raw(fault)}) as servers:
        with pytest.raises(ToolError, match=said):
            await bench.call(servers, "mcp__s__echo", text="a")


async def test_a_server_that_never_answers_a_call(bench: Bench) -> None:
    bench.limits = Limits(call_s=0.5)
    async with bench.servers({"s": raw("stops_talking")}) as servers:
        with pytest.raises(ToolError, match="mcp__s__echo: it did not answer in time"):
            await bench.call(servers, "mcp__s__echo", text="a")


async def test_tools_that_do_not_fit_are_named_and_left_out(bench: Bench) -> None:
    async with bench.servers({"s": raw("bad_tools")}) as servers:
        assert [tool.name for tool in await servers.tools()] == ["mcp__s__echo"]
    assert "a tool deep that is left out: its schema is nested more than 24 deep" in bench.notices
    assert "a tool large that is left out: its schema has" in bench.notices
    assert "a tool echo that is left out: twice" in bench.notices


async def test_tools_without_end_are_bounded(bench: Bench) -> None:
    async with bench.servers({"s": raw("many_tools")}) as servers:
        names = [tool.name for tool in await servers.tools()]
    assert names == [f"mcp__s__t{number}" for number in range(64)]
    assert "has more than 64 tools" in bench.notices


async def test_a_schema_of_the_server_cannot_hold_us_up(bench: Bench) -> None:
    """Its pattern would take longer than the universe."""
    async with bench.servers({"s": raw("evil_schema")}) as servers:
        assert "aaa!" in await bench.call(servers, "mcp__s__echo", text="a")


async def test_a_server_that_floods_stderr_does_not_hold_us_up(bench: Bench) -> None:
    async with bench.servers({"s": raw("stderr")}) as servers:
        tools = await servers.tools()
        for number in range(20):
            assert await tools[0].call(bench.context, {"text": str(number)}) == str(number)
            await asyncio.sleep(0)


async def test_cancelling_over_and_over_leaves_no_process(bench: Bench) -> None:
    server = raw("silent")
    process = Process(argv=(server["command"], *server["args"]), cwd=bench.root, env={})
    is_open = asyncio.Event()

    async def hold() -> None:
        async with stdio_transport(process, Link()):
            is_open.set()
            await asyncio.Event().wait()

    task = asyncio.create_task(hold())
    await is_open.wait()
    while not task.done():
        task.cancel()
        await asyncio.sleep(0.01)
    assert task.cancelled()

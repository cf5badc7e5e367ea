"""Tool servers (MCP) that a client offers for a session, and that its user is asked about."""

import asyncio
import json
from pathlib import Path

import pytest
from acp import schema

from composer_lsp.acp.tool_servers import McpServer, named_by_client
from composer_lsp.agent.mcp.configuration import HttpServer, StdioServer, configured_servers
from tests.composer_lsp.acp.conftest import Start
from tests.composer_lsp.agent.mcp.started import CALL, DONE, marking, offered, results, was_started


@pytest.fixture
def mark(tmp_path: Path) -> Path:
    return tmp_path / "started"


def docs(mark: Path) -> schema.McpServerStdio:
    return schema.McpServerStdio(name="docs", env=[], **marking(mark))


async def test_what_the_user_allows_is_called(start: Start, root: Path, mark: Path) -> None:
    async with start(CALL, DONE) as (editor, chat):
        session = await editor.start_session(root, mcp_servers=[docs(mark)])
        assert await editor.say(session, "Say it.") == "end_turn"
        assert results(chat) == ["hello"]
        assert was_started(mark)
        (server, choices), (tools, _), (call, call_choices) = editor.asked
        assert server.title == "Use the tool server docs? The editor offers it for this session."
        assert "/sh -c 'touch " in server.content[0].content.text
        assert [each.option_id for each in choices] == ["once", "always", "deny"]
        assert "echo(text): Say it again." in tools.content[0].content.text
        assert [each.option_id for each in call_choices] == ["once", "session", "always", "deny"]
        (started,) = [
            each
            for each in editor.of(session, schema.ToolCallStart)
            if each.title.startswith("mcp__docs__echo")
        ]
        assert call.tool_call_id == started.tool_call_id


async def test_what_the_user_refuses_is_not_started(start: Start, root: Path, mark: Path) -> None:
    (root / ".mcp.json").write_text(json.dumps({"mcpServers": {"docs": marking(mark)}}))
    async with start(DONE) as (editor, chat):
        editor.choice = "deny"
        session = await editor.start_session(root)
        await editor.say(session, "Say it.")
        ((server, _),) = editor.asked
        assert "The file .mcp.json names it" in server.title
        assert offered(chat) == []
        assert "the user did not allow it" in editor.said(session)
        (update,) = editor.of(session, schema.ToolCallProgress)
        assert (update.tool_call_id, update.status) == (server.tool_call_id, "failed")
    assert not was_started(mark)


async def test_a_question_that_is_not_answered_ends_with_the_prompt(
    start: Start, root: Path, mark: Path
) -> None:
    async with start() as (editor, _):
        editor.choice = None
        session = await editor.start_session(root, mcp_servers=[docs(mark)])
        asking = asyncio.ensure_future(editor.say(session, "Say it."))
        await editor.is_asked.wait()
        await editor.agent.cancel(session_id=session)
        assert await asking == "cancelled"
        ((server, _),) = editor.asked
        (update,) = editor.of(session, schema.ToolCallProgress)
        assert (update.tool_call_id, update.status) == (server.tool_call_id, "failed")
    assert not was_started(mark)


async def test_a_loaded_session_has_the_servers_that_come_with_it(
    start: Start, root: Path, mark: Path
) -> None:
    async with start(DONE, CALL, DONE) as (editor, chat):
        session = await editor.start_session(root)
        await editor.say(session, "Nothing.")
        await editor.agent.load_session(cwd=str(root), session_id=session, mcp_servers=[docs(mark)])
        await editor.say(session, "Say it.")
        assert "hello" in results(chat)


def test_a_client_s_servers_are_read_as_a_configuration(tmp_path: Path) -> None:
    header = schema.HttpHeader(name="X-Key", value="k")
    offered: list[McpServer] = [
        schema.McpServerStdio(
            name="docs",
            command="/bin/docs",
            args=["-v"],
            env=[schema.EnvVariable(name="KEY", value="v")],
        ),
        schema.HttpMcpServer(name="web", type="http", url="https://a/mcp", headers=[header]),
        schema.SseMcpServer(name="old", type="sse", url="https://a/sse", headers=[]),
        schema.AcpMcpServer(name="own", type="acp", server_id="1"),
    ]
    configured = configured_servers([named_by_client(offered)], [tmp_path])
    assert configured.servers == (
        StdioServer(
            name="docs",
            source="client",
            folder=tmp_path,
            command="/bin/docs",
            args=("-v",),
            env={"KEY": "v"},
        ),
        HttpServer(name="web", source="client", url="https://a/mcp", headers={"X-Key": "k"}),
        HttpServer(name="old", source="client", url="https://a/sse", kind="sse"),
    )
    (problem,) = configured.problems
    assert problem == (
        "the editor's list: the tool server 'own' is left out: `type` is 'acp'; there are `stdio`, "
        "`http` and `sse`"
    )

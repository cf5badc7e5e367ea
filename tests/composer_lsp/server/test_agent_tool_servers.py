"""Tool servers (MCP) in a window: named by the settings or the folder, asked about by the editor."""

import json
from pathlib import Path
from typing import Any

import pytest

from composer_lsp.agent.mcp.approval import MAX_SUMMARY_CHARS, ServerQuestion
from composer_lsp.server.agent.approver import ALWAYS, DENY, ONCE, SESSION, EditorApprover
from tests.composer_lsp.agent.mcp.started import CALL, DONE, marking, offered, results, was_started
from tests.composer_lsp.server.agent_window import EDITOR, OpenWindow
from tests.composer_lsp.server.conftest import StartFake
from tests.composer_lsp.server.test_agent_approvals import Editor
from tests.support.lsp import LspClient

ASK = "window/showMessageRequest"


@pytest.fixture
def root(directory: Path) -> Path:
    folder = directory / "shop"
    folder.mkdir()
    return folder


@pytest.fixture
def open_window(start_fake: StartFake, root: Path) -> OpenWindow:
    return OpenWindow(start_fake, root)


@pytest.fixture
def mark(directory: Path) -> Path:
    return directory / "started"


def notices(client: LspClient) -> str:
    return "\n".join(each.get("text", "") for each in client.all("composer/agent"))


async def test_what_the_user_allows_is_called(
    open_window: OpenWindow, root: Path, mark: Path
) -> None:
    servers = {"mcpServers": {"docs": marking(mark)}}
    async with open_window(CALL, DONE, settings=servers) as (client, chat):
        client.answers[ASK] = lambda params: {"title": ONCE}
        assert (await client.command("composer.edit", "Say it."))["text"] == "Done."
        assert results(chat) == ["hello"]
        assert was_started(mark)
        start, tools, call = client.all(ASK)
    assert "Use the tool server docs? The settings name it" in start["message"]
    assert [each["title"] for each in start["actions"]] == [ONCE, ALWAYS, DENY]
    assert "Offer the tools of docs to the model?" in tools["message"]
    assert 'with\n{"text": "hello"} ?' in call["message"]
    assert [each["title"] for each in call["actions"]] == [ONCE, SESSION, ALWAYS, DENY]


async def test_what_the_user_refuses_is_not_started(
    open_window: OpenWindow, root: Path, mark: Path
) -> None:
    (root / ".mcp.json").write_text(json.dumps({"mcpServers": {"docs": marking(mark)}}))
    async with open_window(DONE) as (client, chat):
        client.answers[ASK] = lambda params: {"title": DENY}
        await client.command("composer.edit", "Say it.")
        (asked,) = client.all(ASK)
        assert "The file .mcp.json names it, which came with this workspace." in asked["message"]
        assert offered(chat) == []
        assert "the user did not allow it" in notices(client)
    assert not was_started(mark)


async def test_what_is_always_allowed_is_not_asked_in_the_next_window(
    open_window: OpenWindow, mark: Path
) -> None:
    servers = {"mcpServers": {"docs": marking(mark)}}
    for num_asked in (3, 0):
        async with open_window(CALL, DONE, settings=servers) as (client, chat):
            client.answers[ASK] = lambda params: {"title": ALWAYS}
            await client.command("composer.edit", "Say it.")
            assert results(chat) == ["hello"]
            assert len(client.all(ASK)) == num_asked


async def test_an_editor_that_cannot_ask_starts_none(open_window: OpenWindow, mark: Path) -> None:
    silent: dict[str, Any] = {**EDITOR, "window": {}}
    servers = {"mcpServers": {"docs": marking(mark)}}
    async with open_window(DONE, capabilities=silent, settings=servers) as (client, chat):
        await client.command("composer.edit", "Say it.")
        assert "it has to be approved first, and nobody can be asked" in notices(client)
        assert offered(chat) == []
    assert not was_started(mark)


@pytest.mark.parametrize(
    ("chosen", "answer"),
    [(ONCE, "once"), (ALWAYS, "always"), (DENY, "deny"), (SESSION, "deny"), (None, "deny")],
)
async def test_an_answer_is_one_of_the_choices(chosen: str | None, answer: str) -> None:
    editor = Editor(chosen)
    question = ServerQuestion(
        subject="start", server="docs", text="Use it?", choices=("once", "always", "deny")
    )
    assert await EditorApprover(editor).approve_server(question) == answer
    assert editor.asked == [("Use it?", ONCE, ALWAYS, DENY)]
    assert editor.logged == []


async def test_a_question_too_long_for_a_message_is_whole_in_the_log() -> None:
    editor = Editor(ONCE)
    text = "begin" + "x" * MAX_SUMMARY_CHARS + "end"
    question = ServerQuestion(subject="tools", server="docs", text=text, choices=("once", "deny"))
    await EditorApprover(editor).approve_server(question)
    assert "characters are left out here" in editor.asked[0][0]
    assert text in editor.logged[0]

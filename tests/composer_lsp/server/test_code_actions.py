"""Code actions of the agent."""

from pathlib import Path
from typing import Any

import pytest

from tests.composer_lsp.server.agent_window import (
    CODE_ACTIONS,
    EDITOR,
    PLAIN,
    OpenWindow,
    span,
)
from tests.composer_lsp.server.conftest import StartFake
from tests.support.chat_server import Said
from tests.support.lsp import LspClient

TEXT = "def price():\n    return 1\n"
HERE, SELECTED = span(1, 4, 1, 4), span(1, 0, 2, 0)
PROBLEM: dict[str, Any] = {
    "range": span(1, 4, 1, 12),
    "severity": 2,
    "message": "too cheap",
    "source": "ruff",
    "code": "S1",
    "tags": [1],
}
INVOKED, AUTOMATIC = 1, 2


@pytest.fixture
def root(directory: Path) -> Path:
    folder = directory / "shop"
    folder.mkdir()
    for name in ("shop.py", ".env", "hidden.py"):
        (folder / name).write_text(TEXT)
    (folder / ".composerignore").write_text("hidden.py\n")
    return folder


@pytest.fixture
def open_window(start_fake: StartFake, root: Path) -> OpenWindow:
    return OpenWindow(start_fake, root)


async def actions(
    client: LspClient,
    path: Path,
    where: Any = HERE,
    *problems: Any,
    trigger: int = INVOKED,
    only: list[str] | None = None,
) -> Any:
    context: dict[str, Any] = {"diagnostics": list(problems), "triggerKind": trigger}
    if only is not None:
        context["only"] = only
    return await client.request(
        "textDocument/codeAction",
        {"textDocument": {"uri": path.as_uri()}, "range": where, "context": context},
    )


def titles(found: Any) -> list[str]:
    return [each["title"].removeprefix("Composer: ") for each in found]


async def test_what_is_offered(open_window: OpenWindow, root: Path) -> None:
    path = root / "shop.py"
    async with open_window() as (client, _):
        client.open(path.as_uri(), TEXT)
        always = ["Ask about this…", "Edit selection…", "Explain", "Write tests"]
        assert titles(await actions(client, path)) == always
        assert titles(await actions(client, path, SELECTED)) == [*always, "Document"]
        assert titles(await actions(client, path, HERE, PROBLEM))[0] == "Fix this problem"
        two = await actions(client, path, HERE, PROBLEM, PROBLEM | {"message": "no tax"})
        assert titles(two)[0] == "Fix these 2 problems"


async def test_a_move_of_the_cursor_lights_no_lamp_without_a_reason(
    open_window: OpenWindow, root: Path
) -> None:
    path = root / "shop.py"
    async with open_window() as (client, _):
        client.open(path.as_uri(), TEXT)
        assert await actions(client, path, trigger=AUTOMATIC) == []
        fix = await actions(client, path, HERE, PROBLEM, trigger=AUTOMATIC)
        assert titles(fix) == ["Fix this problem"]
        assert len(await actions(client, path, SELECTED, trigger=AUTOMATIC)) == 5


@pytest.mark.parametrize(
    ("only", "expected"),
    [
        (["quickfix"], ["Fix this problem"]),
        (["refactor"], ["Edit selection…", "Document"]),
        (["refactor.rewrite"], ["Edit selection…", "Document"]),
        (["composer"], ["Ask about this…", "Explain", "Write tests"]),
        (["composer.ask", "source"], ["Ask about this…"]),
        (["source.organizeImports"], []),
        (["refactor.re"], []),
        ([], []),
    ],
)
async def test_only_the_kinds_that_are_wanted(
    open_window: OpenWindow, root: Path, only: list[str], expected: list[str]
) -> None:
    path = root / "shop.py"
    async with open_window() as (client, _):
        client.open(path.as_uri(), TEXT)
        found = await actions(client, path, SELECTED, PROBLEM, only=only)
        assert titles(found) == expected


async def test_the_command_comes_when_one_is_chosen(open_window: OpenWindow, root: Path) -> None:
    path = root / "shop.py"
    async with open_window() as (client, _):
        client.open(path.as_uri(), TEXT)
        fix = (await actions(client, path, HERE, PROBLEM))[0]
        assert "command" not in fix
        assert (fix["kind"], fix["diagnostics"][0]["message"]) == ("quickfix", "too cheap")
        resolved = await client.request("codeAction/resolve", fix)
        assert resolved["command"]["command"] == "composer.fix"
        words, options = resolved["command"]["arguments"]
        assert words is None
        assert options["uri"] == path.as_uri()
        assert options["diagnostics"][0]["message"] == "too cheap [S1]"


async def test_clients_that_do_not_ask_again_get_it_at_once(
    open_window: OpenWindow, root: Path
) -> None:
    path = root / "shop.py"
    lacking = {**CODE_ACTIONS, "resolveSupport": {"properties": ["edit"]}}
    capabilities = {**EDITOR, "textDocument": {"codeAction": lacking}}
    async with open_window(capabilities=capabilities) as (client, _):
        client.open(path.as_uri(), TEXT)
        found = await actions(client, path, only=["composer.explain"])
        assert found[0]["command"]["command"] == "composer.explain"
        assert "data" not in found[0]


async def test_old_clients_get_commands_that_need_no_words(
    open_window: OpenWindow, root: Path
) -> None:
    path = root / "shop.py"
    async with open_window(capabilities=PLAIN) as (client, _):
        client.open(path.as_uri(), TEXT)
        found = await actions(client, path, SELECTED)
        assert titles(found) == ["Explain", "Write tests", "Document"]
        assert [each["command"] for each in found] == [
            "composer.explain",
            "composer.test",
            "composer.editSelection",
        ]


@pytest.mark.parametrize("name", [".env", "hidden.py", "../else.py"])
async def test_nothing_for_files_that_the_agent_may_not_see(
    open_window: OpenWindow, root: Path, name: str
) -> None:
    path = (root / name).resolve()
    async with open_window() as (client, _):
        client.open(path.as_uri(), TEXT)
        assert await actions(client, path, HERE, PROBLEM) is None


async def test_nothing_without_a_folder_or_for_what_is_not_open(
    open_window: OpenWindow, root: Path
) -> None:
    path = root / "shop.py"
    async with open_window(roots=[]) as (client, _):
        client.open(path.as_uri(), TEXT)
        assert await actions(client, path, HERE, PROBLEM) is None
    async with open_window() as (client, _):
        assert await actions(client, path, HERE, PROBLEM) is None


async def test_the_problems_go_along(open_window: OpenWindow, root: Path) -> None:
    path = root / "shop.py"
    looks: Said = [("diagnostics", {})]
    async with open_window(looks, [("finish", {"summary": "ok"})]) as (client, chat):
        client.open(path.as_uri(), TEXT)
        fix = (await actions(client, path, HERE, PROBLEM))[0]
        command = (await client.request("codeAction/resolve", fix))["command"]
        await client.command(command["command"], *command["arguments"])
        asked = chat.requests[0]["messages"][1]["content"]
        assert "Known problems:\nshop.py:2: warning: too cheap [S1]" in asked
        (told,) = [each for each in chat.requests[1]["messages"] if each["role"] == "tool"]
        assert told["content"] == "shop.py:2: warning: too cheap [S1] (ruff)"


@pytest.mark.parametrize(
    ("title", "asked"),
    [
        ("Explain", "Explain this code."),
        ("Write tests", "Write tests for this code."),
    ],
)
async def test_what_is_chosen_is_done(
    open_window: OpenWindow, root: Path, title: str, asked: str
) -> None:
    path = root / "shop.py"
    reads: Said = [("read_file", {"path": "shop.py"})]
    async with open_window(reads, "ok") as (client, chat):
        client.open(path.as_uri(), TEXT)
        offered = await actions(client, path, SELECTED)
        chosen = offered[titles(offered).index(title)]
        command = (await client.request("codeAction/resolve", chosen))["command"]
        answer = await client.command(command["command"], *command["arguments"])
        assert (answer["state"], answer["request"]) == ("finished", asked)
        told = chat.requests[0]["messages"][1]["content"]
        assert "has selected shop.py:2-2:\n```\n    return 1\n" in told
        assert told.endswith(asked)
        offered_tools = {each["function"]["name"] for each in chat.requests[0]["tools"]}
        assert ("run_command" in offered_tools) == (title == "Write tests")


async def test_code_is_documented(open_window: OpenWindow, root: Path) -> None:
    path = root / "shop.py"
    new = "    # One.\n    return 1\n"
    async with open_window(new) as (client, chat):
        client.open(path.as_uri(), TEXT)
        document = (await actions(client, path, SELECTED))[-1]
        command = (await client.request("codeAction/resolve", document))["command"]
        answer = await client.command(command["command"], *command["arguments"])
        assert "Document this code as this file documents code" in str(chat.requests[0]["messages"])
        (change,) = answer["changes"]
        assert [(each["old"], each["new"]) for each in change["hunks"]] == [("", "    # One.\n")]


async def test_problems_are_remembered_until_the_text_changes(
    open_window: OpenWindow, root: Path
) -> None:
    path = root / "shop.py"
    reads: Said = [("read_file", {"path": "shop.py"})]
    async with open_window(reads, "ok", reads, "ok", reads, "ok") as (client, chat):
        client.open(path.as_uri(), TEXT)
        await actions(client, path, HERE, PROBLEM)
        await actions(client, path, span(0, 0, 0, 0))
        await client.command("composer.ask", "What?", {"uri": path.as_uri()})
        assert "too cheap" in chat.requests[0]["messages"][1]["content"]
        await actions(client, path, HERE)
        await client.command("composer.ask", "What?", {"uri": path.as_uri()})
        assert "too cheap" not in chat.requests[2]["messages"][1]["content"]
        await actions(client, path, HERE, PROBLEM)
        client.change(path.as_uri(), 2, {"text": "# new\n" + TEXT})
        await client.command("composer.ask", "What?", {"uri": path.as_uri()})
        assert "too cheap" not in chat.requests[4]["messages"][1]["content"]


async def test_without_code_actions_problems_are_remembered_all_the_same(
    open_window: OpenWindow, root: Path
) -> None:
    path = root / "shop.py"
    reads: Said = [("read_file", {"path": "shop.py"})]
    async with open_window(reads, "ok", settings={"codeActions": False}) as (client, chat):
        client.open(path.as_uri(), TEXT)
        assert await actions(client, path, SELECTED, PROBLEM) == []
        await client.command("composer.ask", "What?", {"uri": path.as_uri()})
        assert "too cheap" in chat.requests[0]["messages"][1]["content"]


async def test_a_plain_client_is_shown_the_answer(open_window: OpenWindow, root: Path) -> None:
    path = root / "shop.py"
    reads: Said = [("read_file", {"path": "shop.py"})]
    async with open_window(reads, "It is the price.", capabilities=PLAIN) as (client, chat):
        client.open(path.as_uri(), TEXT)
        explain = (await actions(client, path))[0]
        begun = await client.command(explain["command"], *explain["arguments"])
        assert begun["state"] == "running"
        shown = await client.notification("window/showMessage")
        assert shown["message"] == "Composer: It is the price."
        assert "(The cursor is at shop.py:2.)" in chat.requests[0]["messages"][1]["content"]

"""The agent over LSP, with the model's side of the protocol played."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.composer_lsp.server.conftest import StartFake
from tests.support.chat_server import HANG, FakeChat, Said, fake_chat
from tests.support.lsp import CAPABILITIES, LIMIT_S, LspClient, LspError

TEXT = "def price():\n    return 1\n"
EDIT: Said = [
    ("edit_file", {"path": "shop.py", "edits": [{"old": "return 1", "new": "return 2"}]}),
    ("write_file", {"path": "new.py", "text": "x = 1\n"}),
]
DONE: Said = [("finish", {"summary": "The price is 2 now."})]

OPERATIONS: dict[str, Any] = {
    "documentChanges": True,
    "resourceOperations": ["create", "rename", "delete"],
    "changeAnnotationSupport": {},
}
EDITOR: dict[str, Any] = {
    **CAPABILITIES,
    "workspace": {**CAPABILITIES["workspace"], "applyEdit": True, "workspaceEdit": OPERATIONS},
    "experimental": {"composer": {"agent": True}},
}
PLAIN: dict[str, Any] = {
    **CAPABILITIES,
    "workspace": {**CAPABILITIES["workspace"], "applyEdit": True},
}

Window = tuple[LspClient, FakeChat]
Open = Callable[..., AbstractAsyncContextManager[Window]]


@pytest.fixture
def root(directory: Path) -> Path:
    folder = directory / "shop"
    folder.mkdir()
    (folder / "shop.py").write_text(TEXT)
    (folder / ".env").write_text("TOKEN=1\n")
    return folder


@pytest.fixture
def open_window(start_fake: StartFake, root: Path) -> Open:
    """A window on the folder, whose agent's model says what is played."""

    @asynccontextmanager
    async def start(*replies: Said, capabilities: Any = EDITOR) -> AsyncGenerator[Window]:
        with fake_chat(*replies) as chat:
            async with start_fake() as client:
                await client.initialize(
                    capabilities,
                    workspaceFolders=[{"uri": root.as_uri(), "name": "shop"}],
                    initializationOptions={
                        "agent": {"url": chat.url},
                        "index": {"enabled": False},
                    },
                )
                client.answers["workspace/applyEdit"] = lambda params: {"applied": True}
                yield client, chat

    return start


async def test_answers_a_question(open_window: Open, root: Path) -> None:
    reads: Said = [("read_file", {"path": "shop.py"})]
    async with open_window(reads, "It returns 1| (shop.py:2).") as (client, chat):
        answer = await client.command("composer.ask", "What is the price?", {"token": "t"})
        assert (answer["state"], answer["text"]) == ("finished", "It returns 1 (shop.py:2).")
        assert answer["changes"] == []
        events = client.all("composer/agent")
        kinds = [event["kind"] for event in events]
        assert kinds == ["begin", "call", "result", "text", "text", "end"]
        assert events[-1] == {"run": answer["run"], "kind": "end", "state": "finished"}
        assert [part["value"] for part in client.all("$/progress")] == events
        assert "What is the price?" in chat.requests[0]["messages"][1]["content"]


async def test_unsaved_text_is_the_truth(open_window: Open, root: Path) -> None:
    reads: Said = [("read_file", {"path": "shop.py"}), ("grep", {"pattern": "return"})]
    async with open_window(reads, "ok") as (client, chat):
        client.open((root / "shop.py").as_uri(), TEXT.replace("1", "100"))
        await client.command("composer.ask", "What?", {"uri": (root / "shop.py").as_uri()})
        results = [
            each["content"] for each in chat.requests[1]["messages"] if each["role"] == "tool"
        ]
        assert "2\t    return 100" in results[0]
        assert results[1] == "shop.py:2:    return 100"
        assert "The user is in shop.py." in chat.requests[0]["messages"][1]["content"]


async def test_the_selection_is_sent(open_window: Open, root: Path) -> None:
    async with open_window([("list_files", {})], "ok") as (client, chat):
        uri = (root / "shop.py").as_uri()
        client.open(uri, TEXT)
        chosen = {"start": {"line": 1, "character": 4}, "end": {"line": 1, "character": 12}}
        await client.command("composer.explain", None, {"uri": uri, "range": chosen})
        asked = chat.requests[0]["messages"][1]["content"]
        assert (
            "The user has selected shop.py:2-2:\n```\nreturn 1\n```\n\nExplain this code." in asked
        )


async def test_edits_wait_until_they_are_accepted(open_window: Open, root: Path) -> None:
    async with open_window(EDIT, DONE) as (client, _):
        uri = (root / "shop.py").as_uri()
        client.open(uri, TEXT, version=7)
        answer = await client.command("composer.edit", "Raise the price.")
        assert answer["text"] == "The price is 2 now."
        assert [(each["path"], each["kind"]) for each in answer["changes"]] == [
            ("new.py", "create"),
            ("shop.py", "change"),
        ]
        assert client.all("workspace/applyEdit") == []
        after = await client.command("composer.accept", answer["run"])
        assert after["changes"] == []
        (applied,) = client.all("workspace/applyEdit")
        create, _, edit = applied["edit"]["documentChanges"]
        assert create == {
            "kind": "create",
            "uri": (root / "new.py").as_uri(),
            "annotationId": "composer",
        }
        assert edit["textDocument"] == {"uri": uri, "version": 7}
        assert edit["edits"] == [
            {
                "range": {
                    "start": {"line": 1, "character": 0},
                    "end": {"line": 2, "character": 0},
                },
                "newText": "    return 2\n",
                "annotationId": "composer",
            }
        ]
        assert (root / "shop.py").read_text() == TEXT


async def test_one_file_is_taken_and_the_other_left(open_window: Open, root: Path) -> None:
    async with open_window(EDIT, DONE) as (client, _):
        run = (await client.command("composer.edit", "Raise it."))["run"]
        after = await client.command("composer.accept", run, "shop.py", [0])
        assert [each["path"] for each in after["changes"]] == ["new.py"]
        after = await client.command("composer.reject", run, "new.py")
        assert after["changes"] == []
        with pytest.raises(LspError, match="has no change to accept"):
            await client.command("composer.accept", run)


async def test_a_refusal_of_the_editor_keeps_the_changes(open_window: Open, root: Path) -> None:
    async with open_window(EDIT, DONE) as (client, _):
        client.answers["workspace/applyEdit"] = lambda params: {
            "applied": False,
            "failureReason": "the file is read-only",
        }
        run = (await client.command("composer.edit", "Raise it."))["run"]
        with pytest.raises(LspError, match="did not make the changes: the file is read-only"):
            await client.command("composer.accept", run)
        (listed,) = (await client.command("composer.runs"))["runs"]
        assert len(listed["changes"]) == 2
        with pytest.raises(LspError, match="there is nothing to undo"):
            await client.command("composer.undo")


async def test_a_document_that_moved_on_is_told(open_window: Open, root: Path) -> None:
    async with open_window(EDIT, DONE) as (client, _):
        uri = (root / "shop.py").as_uri()
        client.open(uri, TEXT)
        run = (await client.command("composer.edit", "Raise it."))["run"]
        client.change(uri, 2, {"text": TEXT.replace("1", "9")})
        with pytest.raises(
            LspError, match=r"nothing was changed, because of shop\.py: lines 2 to 2"
        ):
            await client.command("composer.accept", run)
        client.change(uri, 3, {"text": "# new\n" + TEXT})
        await client.command("composer.accept", run)
        edit = client.all("workspace/applyEdit")[-1]["edit"]["documentChanges"][-1]
        assert edit["textDocument"]["version"] == 3
        assert edit["edits"][0]["range"]["start"]["line"] == 2


async def test_a_plain_client_gets_plain_changes_and_the_disk_the_rest(
    open_window: Open, root: Path
) -> None:
    async with open_window(EDIT, DONE, capabilities=PLAIN) as (client, _):
        run = (await client.command("composer.edit", "Raise it."))["run"]
        await client.command("composer.accept", run)
        (applied,) = client.all("workspace/applyEdit")
        assert list(applied["edit"]["changes"]) == [(root / "shop.py").as_uri()]
        assert (root / "new.py").read_text() == "x = 1\n"
        assert client.all("composer/agent") == []


async def test_undo_takes_back_what_was_accepted(open_window: Open, root: Path) -> None:
    async with open_window(EDIT, DONE) as (client, _):
        run = (await client.command("composer.edit", "Raise it."))["run"]
        await client.command("composer.accept", run)
        (root / "shop.py").write_text(TEXT.replace("1", "2"))
        (root / "new.py").write_text("x = 1\n")
        assert await client.command("composer.undo") == {"undone": "Raise it."}
        back = client.all("workspace/applyEdit")[-1]["edit"]["documentChanges"]
        assert back[0]["kind"] == "delete"
        assert back[1]["edits"][0]["newText"] == "    return 1\n"


async def test_stop_ends_a_run_and_the_request(open_window: Open) -> None:
    async with open_window(EDIT, HANG) as (client, chat):
        begun = client.begin(
            "workspace/executeCommand", {"command": "composer.edit", "arguments": ["Raise it."]}
        )
        await asyncio.to_thread(chat.hanging.wait, LIMIT_S)
        assert await client.command("composer.stop") == {"stopped": 1}
        answer = await client.answer(begun)
        assert answer["state"] == "stopped"
        assert len(answer["changes"]) == 2
        assert await asyncio.to_thread(chat.left.wait, LIMIT_S)


async def test_a_cancelled_request_stops_its_run(open_window: Open) -> None:
    async with open_window(HANG) as (client, chat):
        begun = client.begin(
            "workspace/executeCommand", {"command": "composer.ask", "arguments": ["What?"]}
        )
        await asyncio.to_thread(chat.hanging.wait, LIMIT_S)
        client.cancel(begun)
        with pytest.raises(LspError):
            await client.answer(begun)
        assert await asyncio.to_thread(chat.left.wait, LIMIT_S)


@pytest.mark.parametrize(
    ("command", "arguments", "error"),
    [
        ("composer.ask", [], "takes a request in words"),
        ("composer.ask", [" "], "takes a request in words"),
        ("composer.ask", ["x", 3], "takes an object, not 3"),
        ("composer.accept", [], "takes a run; composer.runs lists them"),
        ("composer.accept", ["r", "p", [True]], "takes a path and a list of hunks"),
        ("composer.accept", ["nope"], "there is no run nope in this window; there are none"),
        ("composer.stop", [3], "takes text, not 3"),
    ],
)
async def test_wrong_arguments_are_told(
    open_window: Open, command: str, arguments: list[Any], error: str
) -> None:
    async with open_window() as (client, _):
        with pytest.raises(LspError, match=error):
            await client.command(command, *arguments)


async def test_a_window_without_a_folder_says_so(start_fake: StartFake) -> None:
    async with start_fake() as client:
        await client.initialize()
        with pytest.raises(LspError, match="this window has no folder open"):
            await client.command("composer.ask", "What?")


async def test_an_unreachable_server_is_named(start_fake: StartFake, root: Path) -> None:
    async with start_fake() as client:
        await client.initialize(
            workspaceFolders=[{"uri": root.as_uri(), "name": "shop"}],
            initializationOptions={"agent": {"url": "http://127.0.0.1:9"}},
        )
        with pytest.raises(LspError, match="127.0.0.1:9 cannot be reached"):
            await client.command("composer.ask", "What?")

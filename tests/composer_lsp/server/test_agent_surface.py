"""Rewriting a selection, plans that are carried out, transcripts, the agent's status, failures."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from tests.composer_lsp.server.agent_window import EDITOR, PLAIN, Buffers, OpenWindow, span
from tests.composer_lsp.server.conftest import StartFake
from tests.support.chat_server import DIES, HANG, Cut, Refusal, Said
from tests.support.lsp import LIMIT_S, UNKNOWN_METHOD, LspClient, LspError

TEXT = "import os\n\n\ndef price():\n    return 1\n\n\ndef tax():\n    return 2\n"
NEW = "def price():\n    return 100\n"
PRICE = span(3, 0, 5, 0)
PLAN: Said = [("update_plan", {"steps": ["Change shop.py", "Test it"]})]


@pytest.fixture
def root(directory: Path) -> Path:
    folder = directory / "shop"
    folder.mkdir()
    (folder / "shop.py").write_text(TEXT)
    (folder / ".env").write_text("TOKEN=1\n")
    return folder


@pytest.fixture
def open_window(start_fake: StartFake, root: Path) -> OpenWindow:
    return OpenWindow(start_fake, root)


def text_of(path: str) -> str:
    return Path(path).read_text()


async def test_a_selection_is_rewritten_and_taken_back(open_window: OpenWindow, root: Path) -> None:
    async with open_window(NEW.replace("\n", "|\n", 1)) as (client, chat):
        buffers = Buffers(client)
        uri = buffers.open(root / "shop.py", TEXT)
        options = {"uri": uri, "range": PRICE, "token": 7}
        answer = await client.command("composer.editSelection", "Raise the price.", options)
        assert (answer["state"], answer["text"]) == ("finished", "Rewrote shop.py:4-5.")
        (request,) = chat.requests
        assert "tools" not in request
        assert request["stream"] is True
        assert request["prediction"] == {
            "type": "content",
            "content": "def price():\n    return 1\n",
        }
        parts = [part["value"] for part in client.all("$/progress") if part["token"] == 7]
        assert [part["kind"] for part in parts] == ["begin", "text", "text", "edits", "end"]
        assert "".join(part.get("text", "") for part in parts) == NEW
        assert buffers.texts[uri] == TEXT
        await client.command("composer.accept", answer["run"])
        assert buffers.texts[uri] == TEXT.replace("return 1\n", "return 100\n")
        await client.command("composer.undo")
        assert buffers.texts[uri] == TEXT


async def test_an_answer_that_was_cut_changes_nothing(open_window: OpenWindow, root: Path) -> None:
    async with open_window(Cut("def price():\n")) as (client, _):
        uri = (root / "shop.py").as_uri()
        client.open(uri, TEXT)
        answer = await client.command(
            "composer.editSelection", "Raise it.", {"uri": uri, "range": PRICE}
        )
        assert answer["state"] == "failed"
        assert "was cut" in answer["text"]
        assert answer["changes"] == []


WRONG: list[tuple[dict[str, Any], str]] = [
    ({}, "takes a uri and a range"),
    ({"uri": "file:///else.py", "range": PRICE}, "no file of this window"),
    ({"uri": "ENV", "range": PRICE}, "no file of this window that the agent may see"),
    ({"uri": "FILE", "range": {"start": 1}}, "range is an LSP range"),
    ({"uri": "FILE", "range": span(-1, 0, 0, 0)}, "range is an LSP range"),
    ({"uri": "FILE", "range": PRICE, "token": []}, "token is a string or a number"),
    ({"uri": "FILE", "range": PRICE, "diagnostics": [{}]}, "is no diagnostic of LSP"),
    ({"uri": "FILE", "range": PRICE, "detached": 1}, "detached is true or false"),
]


@pytest.mark.parametrize(("options", "error"), WRONG)
async def test_wrong_options_are_told(
    open_window: OpenWindow, root: Path, options: dict[str, Any], error: str
) -> None:
    async with open_window() as (client, _):
        places = {"FILE": (root / "shop.py").as_uri(), "ENV": (root / ".env").as_uri()}
        for uri in places.values():
            client.open(uri, TEXT)
        if "uri" in options:
            options = {**options, "uri": places.get(options["uri"], options["uri"])}
        with pytest.raises(LspError, match=error):
            await client.command("composer.editSelection", "Raise it.", options)


async def test_a_selection_ends_before_a_line_that_it_only_touches(
    open_window: OpenWindow, root: Path
) -> None:
    async with open_window([("list_files", {})], "ok") as (client, chat):
        uri = (root / "shop.py").as_uri()
        client.open(uri, TEXT)
        await client.command("composer.explain", None, {"uri": uri, "range": PRICE})
        assert "has selected shop.py:4-5:" in chat.requests[0]["messages"][1]["content"]


EDIT: Said = [("edit_file", {"path": "shop.py", "edits": [{"old": "1", "new": "100"}]})]


async def test_an_engine_that_dies_leaves_the_edits_pending(
    open_window: OpenWindow, root: Path
) -> None:
    async with open_window(EDIT, DIES, DIES, DIES) as (client, _):
        buffers = Buffers(client)
        uri = buffers.open(root / "shop.py", TEXT)
        run = await client.command("composer.edit", "Raise the price.")
        assert run["state"] == "failed"
        assert [change["path"] for change in run["changes"]] == ["shop.py"]
        notices = [each for each in client.all("composer/agent") if each["kind"] == "notice"]
        assert len(notices) == 2
        assert all(each["text"].endswith("; asking again") for each in notices)
        await client.command("composer.accept", run["run"])
        assert buffers.texts[uri] == TEXT.replace("1", "100")


async def test_an_engine_that_dies_once_is_asked_again(open_window: OpenWindow, root: Path) -> None:
    async with open_window(EDIT, DIES, [("finish", {"summary": "Raised."})]) as (client, chat):
        run = await client.command("composer.edit", "Raise the price.")
        assert (run["state"], run["text"]) == ("finished", "Raised.")
        assert chat.requests[1]["messages"] == chat.requests[2]["messages"]


async def test_a_plan_is_carried_out(open_window: OpenWindow, root: Path) -> None:
    reads: Said = [("read_file", {"path": "shop.py"})]
    async with open_window(PLAN, "That is the plan.", reads, "ok") as (client, chat):
        plan = await client.command("composer.plan", "Raise the price.")
        assert plan["plan"] == [
            {"text": "Change shop.py", "state": "doing"},
            {"text": "Test it", "state": "todo"},
        ]
        done = await client.command("composer.edit", None, {"plan": plan["run"]})
        assert done["request"] == "Raise the price."
        asked = chat.requests[2]["messages"][1]["content"]
        assert "The user has approved this plan:\n1. Change shop.py\n2. Test it" in asked
        with pytest.raises(LspError, match="has no plan that could be carried out"):
            await client.command("composer.edit", None, {"plan": done["run"]})


async def test_a_transcript_is_found_by_run_and_by_id(open_window: OpenWindow) -> None:
    reads: Said = [("read_file", {"path": "shop.py"})]
    async with open_window(reads, "It is 1.") as (client, _):
        answer = await client.command("composer.ask", "What is the price?")
        by_run = await client.command("composer.transcript", answer["run"])
        header = json.loads(text_of(by_run["path"]).splitlines()[0])
        assert header["request"] == "What is the price?"
        assert by_run["markdown"].startswith("# What is the price?")
    async with open_window() as (client, _):
        by_id = await client.command("composer.transcript", answer["transcript"])
        assert by_id == by_run
        for wrong in ("nope", "../x", ""):
            with pytest.raises(LspError, match="there is no transcript"):
                await client.command("composer.transcript", wrong)


async def test_the_agents_status(open_window: OpenWindow, root: Path) -> None:
    reads: Said = [("read_file", {"path": "shop.py"})]
    async with open_window(reads, "ok") as (client, chat):
        assert "agent" not in await client.command("composer.status")
        before = (await client.command("composer.status", {"agent": True}))["agent"]
        assert before["runs"] == []
        assert before["model"] == {"configured": "auto", "url": chat.url, "answered": None}
        assert before["index"]["why"] == "the setting index.enabled is off"
        assert before["sandbox"]["available"] or before["sandbox"]["why"]
        run = (await client.command("composer.ask", "What?"))["run"]
        after = (await client.command("composer.status", {"agent": True}))["agent"]
        assert after["model"]["answered"] == "played"
        assert after["runs"] == [
            {"run": run, "mode": "ask", "request": "What?", "state": "finished", "numChanges": 0}
        ]


@pytest.mark.parametrize("command", ["composer.ask", "composer.editSelection"])
async def test_the_servers_own_words_reach_the_user_and_the_status_moves_on(
    open_window: OpenWindow, root: Path, command: str
) -> None:
    """Case 17: an error body that is hidden, a status stuck at "thinking"."""
    body = json.dumps({"error": {"message": "the tool parser is off: start with --jinja"}})
    async with open_window(Refusal(400, body)) as (client, _):
        uri = (root / "shop.py").as_uri()
        client.open(uri, TEXT)
        answer = await client.command(command, "What?", {"uri": uri, "range": PRICE})
        assert answer["state"] == "failed"
        assert "the tool parser is off: start with --jinja" in answer["text"]
        assert (await client.command("composer.status"))["state"] == "idle"


async def test_while_a_run_goes_on_the_status_says_so(open_window: OpenWindow) -> None:
    async with open_window(HANG) as (client, _):
        client.begin(
            "workspace/executeCommand", {"command": "composer.ask", "arguments": ["What?"]}
        )
        await client.state("thinking")
        so_far = len(client.received)
        await client.command("composer.stop")
        await client.state("idle", after=so_far)


async def test_a_failure_of_a_run_that_nobody_waits_for_is_shown(
    open_window: OpenWindow, root: Path
) -> None:
    async with open_window(Refusal(400, "no such thing"), capabilities=PLAIN) as (client, _):
        await client.command("composer.ask", "What?", {"detached": True})
        shown = await client.notification("window/showMessage")
        assert "no such thing" in shown["message"]
        assert shown["type"] == 2


async def test_a_long_answer_is_a_document_where_the_client_opens_them(
    open_window: OpenWindow, root: Path
) -> None:
    capabilities = {**PLAIN, "window": {"showDocument": {"support": True}}}
    reads: Said = [("read_file", {"path": "shop.py"})]
    long = "It is long.\n\n" + "word " * 100
    async with open_window(reads, long, reads, long, capabilities=capabilities) as (client, _):
        client.answers["window/showDocument"] = lambda params: {"success": True}
        await client.command("composer.ask", "Why?", {"detached": True})
        shown = await client.notification("window/showDocument")
        text = text_of(shown["uri"].removeprefix("file://"))
        assert text.startswith("# Why?\n\nIt is long.")
        client.answers["window/showDocument"] = lambda params: UNKNOWN_METHOD
        await client.command("composer.ask", "Why?", {"detached": True})
        assert "It is long." in (await client.notification("window/showMessage"))["message"]


async def test_a_progress_bar_that_is_cancelled_stops_the_run(open_window: OpenWindow) -> None:
    capabilities = {**PLAIN, "window": {"workDoneProgress": True}}
    async with open_window(HANG, capabilities=capabilities) as (client, _):
        run = (await client.command("composer.ask", "What?", {"detached": True}))["run"]
        begun = await client.notification(
            "$/progress", lambda part: part["value"]["kind"] == "begin"
        )
        assert begun["value"]["title"] == "Composer: What?"
        client.notify("window/workDoneProgress/cancel", {"token": begun["token"]})
        await client.notification("$/progress", lambda part: part["value"]["kind"] == "end")
        (listed,) = (await client.command("composer.runs"))["runs"]
        assert (listed["run"], listed["state"]) == (run, "stopped")


def bar(client: LspClient, token: str | int) -> list[Any]:
    return [part["value"] for part in client.all("$/progress") if part["token"] == token]


async def test_a_request_has_a_progress_bar_of_its_own(open_window: OpenWindow, root: Path) -> None:
    reads: Said = [("read_file", {"path": "shop.py"})]
    async with open_window(reads, "It\nis| 1.", capabilities=PLAIN) as (client, _):
        offered = client.initialize_result["capabilities"]["executeCommandProvider"]
        assert offered["workDoneProgress"] is True
        answer = await client.request(
            "workspace/executeCommand",
            {"command": "composer.ask", "arguments": ["What?"], "workDoneToken": 7},
        )
        assert answer["text"] == "It\nis 1."
        assert bar(client, 7) == [
            {"kind": "begin", "title": "Composer: What?", "cancellable": True},
            {"kind": "report", "message": "read_file shop.py"},
            {"kind": "report", "message": "is"},
            {"kind": "report", "message": "is 1."},
            {"kind": "end"},
        ]


async def test_a_bar_of_a_request_that_is_cancelled_stops_the_run(open_window: OpenWindow) -> None:
    async with open_window(HANG, capabilities=PLAIN) as (client, chat):
        begun = client.begin(
            "workspace/executeCommand",
            {"command": "composer.ask", "arguments": ["What?"], "workDoneToken": "w"},
        )
        assert await asyncio.to_thread(chat.hanging.wait, LIMIT_S)
        client.notify("window/workDoneProgress/cancel", {"token": "w"})
        assert (await client.answer(begun))["state"] == "stopped"
        assert bar(client, "w")[-1] == {"kind": "end"}


async def test_a_bar_of_a_detached_run_says_what_it_does(
    open_window: OpenWindow, root: Path
) -> None:
    reads: Said = [("read_file", {"path": "shop.py"})]
    capabilities = {**PLAIN, "window": {"workDoneProgress": True}}
    async with open_window(reads, "It is 1.", capabilities=capabilities) as (client, _):
        await client.command("composer.ask", "What?", {"detached": True})
        await client.notification("$/progress", lambda part: part["value"]["kind"] == "end")
        told = [part["value"].get("message") for part in client.all("$/progress")]
        assert "read_file shop.py" in told and "It is 1." in told


async def test_a_client_that_knows_no_progress_gets_its_answer(
    open_window: OpenWindow, root: Path
) -> None:
    """Case 18: a method that the client does not know."""
    capabilities = {**PLAIN, "window": {"workDoneProgress": True}}
    reads: Said = [("read_file", {"path": "shop.py"})]
    async with open_window(reads, "It is 1.", capabilities=capabilities) as (client, _):
        client.answers["window/workDoneProgress/create"] = lambda params: UNKNOWN_METHOD
        await client.command("composer.ask", "What?", {"detached": True})
        shown = await client.notification("window/showMessage")
        assert shown["message"] == "Composer: It is 1."


async def test_open_files_are_named_the_last_used_first(
    open_window: OpenWindow, root: Path
) -> None:
    reads: Said = [("read_file", {"path": "shop.py"})]
    names = [f"file{number}.py" for number in range(40)]
    async with open_window(reads, "ok") as (client, chat):
        for name in names:
            client.open((root / name).as_uri(), "x")
        client.change((root / names[3]).as_uri(), 2, {"text": "y"})
        await client.command("composer.ask", "What?")
        asked = chat.requests[0]["messages"][1]["content"]
        newest = [names[3], *(name for name in reversed(names) if name != names[3])]
        assert f"Open files: {', '.join(newest[:30])}\n" in asked


async def test_secret_files_that_are_open_are_not_named(
    open_window: OpenWindow, root: Path
) -> None:
    reads: Said = [("read_file", {"path": "shop.py"})]
    async with open_window(reads, "ok", capabilities=EDITOR) as (client, chat):
        for name in ("shop.py", ".env"):
            client.open((root / name).as_uri(), "x")
        uri = (root / ".env").as_uri()
        await client.command("composer.ask", "What?", {"uri": uri, "range": span(0, 0, 0, 1)})
        asked = chat.requests[0]["messages"][1]["content"]
        assert "Open files: shop.py\n" in asked
        assert ".env" not in asked

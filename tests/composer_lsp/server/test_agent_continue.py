"""A run that goes on: what the user says next, and what is pending."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from tests.composer_lsp.server.agent_window import Buffers, OpenWindow, span
from tests.composer_lsp.server.conftest import StartFake
from tests.support.chat_server import HANG, FakeChat, Said
from tests.support.lsp import LspClient, LspError

TEXT = "".join(f"x{n} = {n}\n" for n in range(20))
READ: Said = [("read_file", {"path": "shop.py"})]
DONE: Said = [("finish", {"summary": "Done."})]


def edit(path: str, *numbers: int) -> list[tuple[str, Any]]:
    edits = [{"old": f"x{n} = {n}\n", "new": f"x{n} = {n}00\n"} for n in numbers]
    return [("edit_file", {"path": path, "edits": edits})]


def changed(*numbers: int) -> str:
    lines = (f"x{n} = {n}00\n" if n in numbers else f"x{n} = {n}\n" for n in range(20))
    return "".join(lines)


@pytest.fixture
def root(directory: Path) -> Path:
    folder = directory / "shop"
    folder.mkdir()
    (folder / "shop.py").write_text(TEXT)
    (folder / "two.py").write_text(TEXT)
    return folder


@pytest.fixture
def open_window(start_fake: StartFake, root: Path) -> OpenWindow:
    return OpenWindow(start_fake, root)


def said(chat: FakeChat) -> list[tuple[str, str]]:
    """Of the last request, without the system's message."""
    messages: list[Any] = chat.requests[-1]["messages"]
    return [(each["role"], each["content"]) for each in messages[1:]]


async def changes_of(client: LspClient, run: str) -> list[str]:
    runs = (await client.command("composer.runs"))["runs"]
    (found,) = [each["changes"] for each in runs if each["run"] == run]
    return [each["path"] for each in found]


async def transcript(client: LspClient, run: str) -> list[Any]:
    path = Path((await client.command("composer.transcript", run))["path"])
    return [json.loads(line) for line in (await asyncio.to_thread(path.read_text)).splitlines()]


async def until_it_hangs(client: LspClient, chat: FakeChat, *arguments: Any) -> str:
    """The run that hangs at the model; it is stopped."""
    sent = client.begin(
        "workspace/executeCommand", {"command": "composer.edit", "arguments": list(arguments)}
    )
    assert await asyncio.to_thread(chat.hanging.wait, 60)
    await client.command("composer.stop")
    return (await client.answer(sent))["run"]


async def test_who_is_stuck_is_told_what_to_do_differently(open_window: OpenWindow) -> None:
    async with open_window(READ, READ, READ, "x1 is 1 (shop.py:2).") as (client, chat):
        stuck = await client.command("composer.ask", "What is x1?")
        assert stuck["state"] == "stuck"
        assert stuck["text"].endswith("Say so, and the run goes on.")
        answer = await client.command("composer.ask", "Just say it.", {"continue": stuck["run"]})
        assert answer["state"] == "finished"
        assert answer["problems"] == []  # what was read before may be cited
        (_, asked), *_, last, (_, now) = said(chat)
        assert asked.endswith("What is x1?")
        assert last == ("assistant", stuck["text"])
        assert now.endswith("Just say it.")
        assert answer["run"] != stuck["run"]
        header, begun, *_ = await transcript(client, answer["run"])
        assert header["request"] == "Just say it."
        assert begun["messages"][-1] == {"role": "assistant", "content": stuck["text"]}


async def test_what_is_pending_is_the_new_runs(open_window: OpenWindow, root: Path) -> None:
    async with open_window(edit("shop.py", 3), DONE, edit("shop.py", 12), DONE) as (client, _):
        buffers = Buffers(client)
        uri = buffers.open(root / "shop.py", TEXT)
        first = await client.command("composer.edit", "Raise x3.")
        second = await client.command("composer.edit", "And x12.", {"continue": first["run"]})
        (file,) = second["changes"]
        assert [hunk["startLine"] for hunk in file["hunks"]] == [3, 12]
        assert await changes_of(client, first["run"]) == []
        await client.command("composer.accept", second["run"])
        assert buffers.texts[uri] == changed(3, 12)
        await client.command("composer.undo")
        assert buffers.texts[uri] == TEXT


async def test_without_words_it_goes_on(open_window: OpenWindow) -> None:
    async with open_window("One.", "Two.") as (client, chat):
        run = (await client.command("composer.ask", "Count."))["run"]
        answer = await client.command("composer.ask", None, {"continue": run})
        assert (answer["request"], answer["text"]) == ("Go on.", "Two.")
        assert said(chat)[-2] == ("assistant", "One.")


async def test_changes_follow_the_text_and_stay_where_they_cannot(
    open_window: OpenWindow, root: Path
) -> None:
    both = [*edit("shop.py", 3), *edit("two.py", 3)]
    async with open_window(both, DONE, READ, DONE) as (client, chat):
        buffers = Buffers(client)
        one, two = (buffers.open(root / name, TEXT) for name in ("shop.py", "two.py"))
        first = await client.command("composer.edit", "Raise x3.")
        buffers.type(one, f"# new\n{TEXT}")
        buffers.type(two, TEXT.replace("x3 = 3\n", "x3 = 7\n"))
        options = {"continue": first["run"], "token": "t"}
        second = await client.command("composer.edit", "Go on.", options)
        assert [each["path"] for each in second["changes"]] == ["shop.py"]
        assert await changes_of(client, first["run"]) == ["two.py"]
        values = [each["value"] for each in client.all("$/progress") if each["token"] == "t"]
        (notice,) = [each["text"] for each in values if each["kind"] == "notice"]
        assert notice.startswith(f"the change to two.py stays with the run {first['run']}: lines ")
        assert ["shop.py"] in [each["paths"] for each in values if each["kind"] == "edits"]
        told = "".join(text for role, text in said(chat) if role == "assistant")
        assert "(The changes of two.py are lost: lines " in told
        assert "(These files are others now: shop.py, two.py.)" in told
        assert "1\t# new" in said(chat)[-1][1]  # as it is now, with the change
        assert "5\tx3 = 300" in said(chat)[-1][1]
        await client.command("composer.accept", second["run"])
        assert buffers.texts[one] == f"# new\n{changed(3)}"


async def test_a_stopped_run_goes_on(open_window: OpenWindow, root: Path) -> None:
    async with open_window(edit("shop.py", 3), HANG, HANG, "It is 300.") as (client, chat):
        Buffers(client)
        first = await until_it_hangs(client, chat, "Raise x3.")
        chat.hanging.clear()
        second = await until_it_hangs(client, chat, "Well?", {"continue": first})
        assert said(chat)[-2] == ("assistant", "The run was stopped.")
        assert await changes_of(client, second) == ["shop.py"]
        # It changed nothing itself, and what the user makes of the change is in its transcript.
        await client.command("composer.accept", second)
        assert (root / "shop.py").read_text() == changed(3)
        verdict = (await transcript(client, second))[-1]
        assert (verdict["kind"], verdict["accepted"]) == ("verdict", [0])
        await client.command("composer.ask", "And?", {"continue": second})
        assert [text for role, text in said(chat) if role == "assistant"][-1] == (
            "The run was stopped.\n\n(The user accepted changes of shop.py.)"
        )


async def test_what_the_user_rejected_is_told(open_window: OpenWindow, root: Path) -> None:
    async with open_window(edit("shop.py", 3), DONE, "I see.") as (client, chat):
        run = (await client.command("composer.edit", "Raise x3."))["run"]
        await client.command("composer.reject", run)
        answer = await client.command("composer.ask", "Why that?", {"continue": run})
        assert answer["changes"] == []
        told = [text for role, text in said(chat) if role == "assistant"][-1]
        assert told == (
            "Done.\n\n(The user rejected changes of shop.py.)\n\n"
            "(These files are others now: shop.py.)"
        )


async def test_what_cannot_go_on_is_told(open_window: OpenWindow, root: Path) -> None:
    async with open_window(HANG) as (client, chat):
        with pytest.raises(LspError, match="there is no run nope in this window"):
            await client.command("composer.ask", "And?", {"continue": "nope"})
        with pytest.raises(LspError, match="continue is a string, not 7"):
            await client.command("composer.ask", "And?", {"continue": 7})
        uri = Buffers(client).open(root / "shop.py", TEXT)
        options = {"uri": uri, "range": span(0, 0, 1, 0), "continue": "nope"}
        with pytest.raises(LspError, match=r"goes on from no run; composer\.edit does"):
            await client.command("composer.editSelection", "Raise it.", options)
        detached = await client.command("composer.ask", "What?", {"detached": True})
        assert await asyncio.to_thread(chat.hanging.wait, 60)
        with pytest.raises(LspError, match="is still going on; wait for its end, or stop it"):
            await client.command("composer.ask", "And?", {"continue": detached["run"]})
        await client.command("composer.stop")

"""What runs changed, in an editor's buffers: code lenses, reviews, one hunk of several, undo."""

import fcntl
import json
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.composer_lsp.server.agent_window import EDITOR, PLAIN, Buffers, OpenWindow, span
from tests.composer_lsp.server.conftest import StartFake
from tests.support.chat_server import HANG, Refusal, Said
from tests.support.lsp import SILENCE, UNKNOWN_METHOD, LspClient, LspError

LINES = [f"x{number} = {number}\n" for number in range(20)]
TEXT = "".join(LINES)
REFRESH = "workspace/codeLens/refresh"


def edit(path: str, *numbers: int) -> tuple[str, Any]:
    edits = [{"old": f"x{n} = {n}\n", "new": f"x{n} = {n}00\n"} for n in numbers]
    return "edit_file", {"path": path, "edits": edits}


EDIT: Said = [edit("shop.py", 3, 12)]
DONE: Said = [("finish", {"summary": "Done."})]


def lines_of(path: str) -> list[str]:
    return Path(path).read_text().splitlines()


def changed(text: str, *numbers: int) -> str:
    for number in numbers:
        text = text.replace(f"x{number} = {number}\n", f"x{number} = {number}00\n")
    return text


@pytest.fixture
def root(directory: Path) -> Path:
    folder = directory / "shop"
    folder.mkdir()
    (folder / "shop.py").write_text(TEXT)
    return folder


@pytest.fixture
def open_window(start_fake: StartFake, root: Path) -> OpenWindow:
    return OpenWindow(start_fake, root)


async def lenses(client: LspClient, path: Path) -> list[Any]:
    return await client.request("textDocument/codeLens", {"textDocument": {"uri": path.as_uri()}})


def drawn(found: list[Any]) -> list[tuple[int, str]]:
    return [(each["range"]["start"]["line"], each["command"]["title"]) for each in found]


def lens(found: list[Any], line: int, verb: str) -> Any:
    return next(
        each["command"]
        for each in found
        if each["range"]["start"]["line"] == line and each["command"]["title"].startswith(verb)
    )


def is_reviewed(applied: Any) -> bool:
    return applied["edit"]["changeAnnotations"]["composer"]["needsConfirmation"]


ALL = [
    (0, "Accept all of Composer's changes here (2)"),
    (0, "Reject all of Composer's changes here (2)"),
]


def pair(line: int) -> list[tuple[int, str]]:
    return [(line, "Accept this change"), (line, "Reject this change")]


async def test_lenses_stay_with_their_lines_or_vanish(open_window: OpenWindow, root: Path) -> None:
    path = root / "shop.py"
    async with open_window(EDIT, DONE) as (client, _):
        buffers = Buffers(client)
        uri = buffers.open(path, TEXT)
        assert await lenses(client, path) == []
        await client.command("composer.edit", "Raise it.")
        await client.notification(REFRESH)
        assert drawn(await lenses(client, path)) == [*ALL, *pair(3), *pair(12)]
        buffers.type(uri, "# one\n# two\n" + TEXT)
        assert drawn(await lenses(client, path)) == [*ALL, *pair(5), *pair(14)]
        buffers.type(uri, "# one\n" + TEXT.replace("x3 = 3", "x3 = 4"))
        assert drawn(await lenses(client, path)) == [*ALL, *pair(13)]


async def test_a_document_that_was_opened_by_a_link_has_lenses(
    open_window: OpenWindow, root: Path
) -> None:
    link = root / "link.py"
    link.symlink_to("shop.py")
    async with open_window(EDIT, DONE) as (client, _):
        buffers = Buffers(client)
        uri = buffers.open(link, TEXT)
        await client.command("composer.edit", "Raise it.")
        found = await lenses(client, link)
        assert drawn(found) == [*ALL, *pair(3), *pair(12)]
        first = lens(found, 3, "Accept")
        await client.command(first["command"], *first["arguments"])
        assert buffers.texts[uri] == changed(TEXT, 3)
        assert drawn(await lenses(client, link))[2:] == pair(12)


async def test_one_hunk_is_accepted_in_a_document_that_moved_on(
    open_window: OpenWindow, root: Path
) -> None:
    path = root / "shop.py"
    async with open_window(EDIT, DONE) as (client, _):
        buffers = Buffers(client)
        uri = buffers.open(path, TEXT)
        await client.command("composer.edit", "Raise it.")
        moved = "# one\n" + TEXT
        buffers.type(uri, moved)
        first = lens(await lenses(client, path), 4, "Accept")
        after = await client.command(first["command"], *first["arguments"])
        assert buffers.texts[uri] == changed(moved, 3)
        assert [len(each["hunks"]) for each in after["changes"]] == [1]
        left = await lenses(client, path)
        assert drawn(left)[2:] == pair(13)
        # A lens that is still shown does not take the other hunk for its own.
        with pytest.raises(LspError, match="has no pending hunk"):
            await client.command(first["command"], *first["arguments"])
        whole = lens(left, 0, "Accept")
        await client.command(whole["command"], *whole["arguments"])
        assert buffers.texts[uri] == changed(moved, 3, 12)
        assert await lenses(client, path) == []
        assert path.read_text() == TEXT


async def test_a_rejected_hunk_is_forgotten(open_window: OpenWindow, root: Path) -> None:
    path = root / "shop.py"
    async with open_window(EDIT, DONE) as (client, _):
        buffers = Buffers(client)
        uri = buffers.open(path, TEXT)
        await client.command("composer.edit", "Raise it.")
        first = lens(await lenses(client, path), 3, "Reject")
        await client.command(first["command"], *first["arguments"])
        whole = lens(await lenses(client, path), 0, "Accept")
        await client.command(whole["command"], *whole["arguments"])
        assert buffers.texts[uri] == changed(TEXT, 12)


async def test_what_the_user_took_and_left_is_in_the_transcript(
    open_window: OpenWindow, root: Path
) -> None:
    async with open_window([edit("shop.py", 3, 8, 12)], DONE) as (client, _):
        Buffers(client)
        run = (await client.command("composer.edit", "Raise it."))["run"]
        await client.command("composer.accept", run, "shop.py", [1])
        await client.command("composer.reject", run, "shop.py", [1])
        await client.command("composer.accept", run)
        path = (await client.command("composer.transcript", run))["path"]
    entries = [json.loads(line) for line in lines_of(path)]
    verdicts = [entry for entry in entries if entry["kind"] == "verdict"]
    assert [(each["accepted"], each["rejected"]) for each in verdicts] == [
        ([1], []),
        ([], [2]),
        ([0], []),
    ]


async def test_what_was_made_of_a_stopped_run_is_in_its_transcript(
    open_window: OpenWindow, root: Path
) -> None:
    async with open_window([edit("shop.py", 3, 8, 12)], HANG) as (client, _):
        Buffers(client)
        begun = client.begin(
            "workspace/executeCommand", {"command": "composer.edit", "arguments": ["Raise it."]}
        )
        event = await client.notification("composer/agent", lambda each: each["kind"] == "edits")
        run = event["run"]
        with pytest.raises(LspError, match="is running; its transcript is whole when it has ended"):
            await client.command("composer.transcript", run)
        await client.command("composer.stop")
        stopped = await client.answer(begun)
        assert (stopped["state"], stopped["transcript"]) == ("stopped", run)
        await client.command("composer.accept", run, "shop.py", [1])
        await client.command("composer.reject", run)
        path = (await client.command("composer.transcript", run))["path"]
    entries = [json.loads(line) for line in lines_of(path)]
    assert [entry["status"] for entry in entries if entry["kind"] == "end"] == ["stopped"]
    verdicts = [entry for entry in entries if entry["kind"] == "verdict"]
    assert [(each["accepted"], each["rejected"]) for each in verdicts] == [([1], []), ([], [0, 2])]


async def test_a_failed_run_has_a_transcript(open_window: OpenWindow, root: Path) -> None:
    async with open_window([edit("shop.py", 3)], Refusal(400, "too odd")) as (client, _):
        run = await client.command("composer.edit", "Raise it.")
        assert run["state"] == "failed"
        told = await client.command("composer.transcript", run["run"])
        assert "too odd" in told["markdown"]


async def test_lenses_are_off_where_the_settings_say_so(
    open_window: OpenWindow, root: Path
) -> None:
    path = root / "shop.py"
    off = {"agent": {"codeLens": False}}
    async with open_window(EDIT, DONE) as (client, _):
        Buffers(client).open(path, TEXT)
        await client.command("composer.edit", "Raise it.")
        assert await lenses(client, path) != []
        num_refreshed = len(client.all(REFRESH))
        client.answers["workspace/configuration"] = lambda params: [off]
        client.notify("workspace/didChangeConfiguration", {"settings": {"composer": off}})
        await client.wait_for(lambda message: len(client.all(REFRESH)) > num_refreshed)
        assert await lenses(client, path) == []


async def test_clients_that_show_hunks_themselves_get_no_lenses(
    open_window: OpenWindow, root: Path
) -> None:
    path = root / "shop.py"
    capabilities = {**EDITOR, "experimental": {"composer": {"hunks": True}}}
    async with open_window(EDIT, DONE, capabilities=capabilities) as (client, _):
        client.open(path.as_uri(), TEXT)
        await client.command("composer.edit", "Raise it.")
        assert await lenses(client, path) == []


async def test_without_lenses_code_actions_accept_and_reject(
    open_window: OpenWindow, root: Path
) -> None:
    path = root / "shop.py"
    async with open_window(EDIT, DONE, capabilities=PLAIN) as (client, _):
        client.open(path.as_uri(), TEXT)
        await client.command("composer.edit", "Raise it.")
        assert client.all(REFRESH) == []
        found = await client.request(
            "textDocument/codeAction",
            {
                "textDocument": {"uri": path.as_uri()},
                "range": span(3, 1, 3, 1),
                "context": {"diagnostics": [], "only": ["composer.pending"]},
            },
        )
        assert [each["title"] for each in found] == [
            "Composer: Accept this change",
            "Composer: Reject this change",
            "Composer: Accept all changes of this file (2)",
            "Composer: Reject all changes of this file (2)",
        ]
        after = await client.command(found[0]["command"], *found[0]["arguments"])
        assert [len(each["hunks"]) for each in after["changes"]] == [1]


async def test_undo_restores_unsaved_text_to_the_letter(
    open_window: OpenWindow, root: Path
) -> None:
    path = root / "shop.py"
    # Lines that are alike, line ends that are not, no final line end, and never saved.
    unsaved = "\ttax = 1 # é\r\n\n\n" + TEXT + "\n\nx3 = 3\nlast\rend"
    async with open_window([edit("shop.py", 4, 12)], DONE) as (client, _):
        buffers = Buffers(client)
        uri = buffers.open(path, unsaved)
        run = (await client.command("composer.edit", "Raise it."))["run"]
        moved = unsaved.replace("\n\n\n", "\n\n\n\n\n").replace("x9 = 9\n", "")
        buffers.type(uri, moved)
        await client.command("composer.accept", run)
        assert buffers.texts[uri] == changed(moved, 4, 12)
        await client.command("composer.undo")
        assert buffers.texts[uri] == moved
        assert path.read_text() == TEXT


async def test_unsaved_text_that_the_encoding_lacks_is_changed_and_taken_back(
    open_window: OpenWindow, root: Path
) -> None:
    path = root / "shop.py"
    saved = "# coding: latin-1\n# é\n" + TEXT
    path.write_bytes(saved.encode("latin-1"))
    unsaved = saved.replace("é", "→")
    async with open_window([edit("shop.py", 4)], DONE) as (client, _):
        buffers = Buffers(client)
        uri = buffers.open(path, unsaved)
        run = (await client.command("composer.edit", "Raise it."))["run"]
        await client.command("composer.accept", run)
        assert buffers.texts[uri] == changed(unsaved, 4)
        await client.command("composer.undo")
        assert buffers.texts[uri] == unsaved
        assert path.read_bytes() == saved.encode("latin-1")


async def test_a_link_that_was_deleted_is_a_link_again(open_window: OpenWindow, root: Path) -> None:
    link = root / "link.py"
    link.symlink_to("shop.py")
    edits: Said = [edit("shop.py", 3), ("delete_file", {"path": "link.py"})]
    async with open_window(edits, DONE) as (client, _):
        buffers = Buffers(client)
        run = (await client.command("composer.edit", "Raise it."))["run"]
        await client.command("composer.accept", run)
        assert not link.is_symlink()
        client.answers["workspace/applyEdit"] = lambda params: {"applied": False}
        with pytest.raises(LspError, match="the editor did not make the changes"):
            await client.command("composer.undo")
        assert not link.is_symlink()
        client.answers["workspace/applyEdit"] = buffers.apply
        await client.command("composer.undo")
    assert link.is_symlink()
    assert link.samefile(root / "shop.py")
    assert link.read_text() == TEXT


async def test_a_moved_link_leads_to_the_same_file(open_window: OpenWindow, root: Path) -> None:
    (root / "link.py").symlink_to("shop.py")
    move: Said = [("move_file", {"path": "link.py", "target": "deep/link.py"})]
    async with open_window(move, DONE) as (client, _):
        Buffers(client)
        run = (await client.command("composer.edit", "Move it."))["run"]
        with pytest.raises(LspError, match=r"no review can show what becomes of the link"):
            await client.command("composer.accept", run, None, None, {"review": True})
        await client.command("composer.accept", run)
        assert (root / "deep/link.py").samefile(root / "shop.py")
        await client.command("composer.undo")
    assert (root / "link.py").samefile(root / "shop.py")
    assert not (root / "deep/link.py").is_symlink()


async def test_undo_goes_back_one_by_one_and_keeps_what_was_typed(
    open_window: OpenWindow, root: Path
) -> None:
    path = root / "shop.py"
    async with open_window(EDIT, DONE) as (client, _):
        buffers = Buffers(client)
        uri = buffers.open(path, TEXT)
        run = (await client.command("composer.edit", "Raise it."))["run"]
        await client.command("composer.accept", run, "shop.py", [0])
        await client.command("composer.accept", run, "shop.py", [0])
        buffers.type(uri, buffers.texts[uri] + "typed\n")
        await client.command("composer.undo")
        assert buffers.texts[uri] == changed(TEXT, 3) + "typed\n"
        await client.command("composer.undo")
        assert buffers.texts[uri] == TEXT + "typed\n"


async def test_a_review_keeps_what_the_user_left_out(open_window: OpenWindow, root: Path) -> None:
    (root / "other.py").write_text(TEXT)
    edits: Said = [edit("shop.py", 3), edit("other.py", 4)]
    async with open_window(edits, DONE) as (client, _):
        buffers = Buffers(client, skips=lambda uri: uri.endswith("other.py"))
        uri = buffers.open(root / "shop.py", TEXT)
        run = (await client.command("composer.edit", "Raise it."))["run"]
        after = await client.command("composer.accept", run, None, None, {"review": True})
        (applied,) = client.all("workspace/applyEdit")
        annotation = applied["edit"]["changeAnnotations"]["composer"]
        assert annotation["needsConfirmation"] is True
        assert [each["path"] for each in after["changes"]] == ["other.py"]
        assert buffers.texts[uri] == changed(TEXT, 3)
        await client.command("composer.undo")
        assert buffers.texts[uri] == TEXT
        assert (root / "other.py").read_text() == TEXT
        buffers.skips = lambda uri: False
        await client.command("composer.accept", run)
        assert (root / "other.py").read_text() == changed(TEXT, 4)


async def test_the_settings_ask_for_a_review(open_window: OpenWindow, root: Path) -> None:
    async with open_window(EDIT, DONE, settings={"review": True}) as (client, _):
        Buffers(client)
        run = (await client.command("composer.edit", "Raise it."))["run"]
        # One hunk was looked at.
        await client.command("composer.accept", run, "shop.py", [0])
        await client.command("composer.accept", run)
    assert [is_reviewed(each) for each in client.all("workspace/applyEdit")] == [False, True]


async def test_a_command_goes_before_the_settings(open_window: OpenWindow, root: Path) -> None:
    async with open_window(EDIT, DONE, settings={"review": True}) as (client, _):
        Buffers(client)
        run = (await client.command("composer.edit", "Raise it."))["run"]
        await client.command("composer.accept", run, None, None, {"review": False})
    assert [is_reviewed(each) for each in client.all("workspace/applyEdit")] == [False]


async def test_where_no_review_can_be_shown_the_settings_do_not_keep_from_accepting(
    open_window: OpenWindow, root: Path
) -> None:
    settings = {"review": True}
    async with open_window(EDIT, DONE, capabilities=PLAIN, settings=settings) as (client, _):
        run = (await client.command("composer.edit", "Raise it."))["run"]
        assert (await client.command("composer.accept", run))["changes"] == []
        assert len(client.all("workspace/applyEdit")) == 1


async def test_a_review_needs_an_editor_that_can_ask(open_window: OpenWindow, root: Path) -> None:
    async with open_window(EDIT, DONE, capabilities=PLAIN) as (client, _):
        run = (await client.command("composer.edit", "Raise it."))["run"]
        with pytest.raises(LspError, match="cannot show changes for a review"):
            await client.command("composer.accept", run, None, None, {"review": True})
        assert client.all("workspace/applyEdit") == []


@pytest.fixture
def other(directory: Path) -> Path:
    folder = directory / "other"
    folder.mkdir()
    (folder / "shop.py").write_text(TEXT)
    return folder


async def test_checkpoints_are_found_whichever_folder_is_first(
    open_window: OpenWindow, root: Path, other: Path
) -> None:
    edits: Said = [edit("shop/shop.py", 3), edit("other/shop.py", 4)]
    async with open_window(edits, DONE, roots=[root, other]) as (client, _):
        Buffers(client)
        run = (await client.command("composer.edit", "Raise it."))["run"]
        await client.command("composer.accept", run)
    assert (root / "shop.py").read_text() == changed(TEXT, 3)
    async with open_window(roots=[other, root]) as (client, _):
        Buffers(client)
        assert await client.command("composer.undo") == {"undone": "Raise it."}
        with pytest.raises(LspError, match="nothing to undo"):
            await client.command("composer.undo")
    assert (root / "shop.py").read_text() == (other / "shop.py").read_text() == TEXT


async def test_a_long_request_is_cut_where_it_is_named(open_window: OpenWindow, root: Path) -> None:
    async with open_window(EDIT, DONE) as (client, _):
        Buffers(client)
        run = (await client.command("composer.edit", f"{'x' * 61}\nand more"))["run"]
        await client.command("composer.accept", run)
        assert await client.command("composer.undo") == {"undone": f"{'x' * 59}…"}


async def test_a_folder_alone_finds_what_was_done_in_it(
    open_window: OpenWindow, root: Path, other: Path
) -> None:
    async with open_window([edit("other/shop.py", 4)], DONE, roots=[root, other]) as (client, _):
        Buffers(client)
        run = (await client.command("composer.edit", "Raise it."))["run"]
        await client.command("composer.accept", run)
    async with open_window(roots=[root]) as (client, _):
        with pytest.raises(LspError, match="nothing to undo"):
            await client.command("composer.undo")
    async with open_window(roots=[other]) as (client, _):
        Buffers(client)
        await client.command("composer.undo")
    assert (other / "shop.py").read_text() == TEXT


async def test_a_run_that_goes_on_is_not_accepted(open_window: OpenWindow, root: Path) -> None:
    async with open_window(EDIT, HANG) as (client, _):
        client.begin(
            "workspace/executeCommand", {"command": "composer.edit", "arguments": ["Raise it."]}
        )
        edits = await client.notification("composer/agent", lambda event: event["kind"] == "edits")
        with pytest.raises(LspError, match="is still going on"):
            await client.command("composer.accept", edits["run"])
        await client.command("composer.stop")
        Buffers(client)
        await client.command("composer.accept", edits["run"])
        assert (root / "shop.py").read_text() == changed(TEXT, 3, 12)


async def test_files_that_are_not_open_are_not_touched_unasked(
    open_window: OpenWindow, root: Path
) -> None:
    """Case 12 of the faults that users of other tools reported."""
    async with open_window(EDIT, DONE) as (client, _):
        client.open((root / "else.py").as_uri(), "")
        answer = await client.command("composer.edit", "Raise it.")
        assert [each["path"] for each in answer["changes"]] == ["shop.py"]
        methods = {
            message["method"]
            for message in client.received
            if "id" in message and "method" in message
        }
        assert not methods & {"workspace/applyEdit", "window/showDocument"}
        assert (root / "shop.py").read_text() == TEXT


async def test_a_client_that_knows_no_lens_refresh_stays_well(
    open_window: OpenWindow, root: Path
) -> None:
    """Case 18: a method that the client does not know."""
    async with open_window(EDIT, DONE) as (client, _):
        client.answers[REFRESH] = lambda params: UNKNOWN_METHOD
        client.answers["workspace/applyEdit"] = lambda params: UNKNOWN_METHOD
        run = (await client.command("composer.edit", "Raise it."))["run"]
        await client.notification(REFRESH)
        with pytest.raises(LspError, match="did not make the changes: unknown method"):
            await client.command("composer.accept", run)
        (listed,) = (await client.command("composer.runs"))["runs"]
        assert len(listed["changes"]) == 1
        assert (await client.command("composer.status"))["state"] == "idle"
        errors = [each for each in client.all("window/logMessage") if each["type"] == 1]
        assert errors == []


async def test_an_edit_goes_to_the_buffer_that_has_the_file_open_by_a_link(
    open_window: OpenWindow, root: Path
) -> None:
    link = root / "link.py"
    link.symlink_to("shop.py")
    unsaved = "# unsaved\n" + TEXT
    edits: Said = [edit("link.py", 3), edit("shop.py", 12)]
    async with open_window(edits, DONE) as (client, _):
        buffers = Buffers(client)
        uri = buffers.open(link, unsaved)
        run = (await client.command("composer.edit", "Raise it."))["run"]
        await client.command("composer.accept", run)
        assert buffers.texts[uri] == changed(unsaved, 3, 12)
        assert (root / "shop.py").read_text() == TEXT


async def test_a_link_is_deleted_moved_and_replaced_itself(
    open_window: OpenWindow, root: Path
) -> None:
    for name in ("one.py", "two.py", "three.py"):
        (root / name).symlink_to("shop.py")
    calls: Said = [
        ("delete_file", {"path": "one.py"}),
        ("move_file", {"path": "two.py", "target": "there.py"}),
        ("delete_file", {"path": "three.py"}),
        ("write_file", {"path": "three.py", "text": "plain\n"}),
    ]
    async with open_window(calls, DONE) as (client, _):
        Buffers(client)
        run = (await client.command("composer.edit", "Tidy up."))["run"]
        await client.command("composer.accept", run)
        assert (root / "shop.py").read_text() == TEXT
        assert (root / "there.py").samefile(root / "shop.py")
        assert (root / "three.py").read_text() == "plain\n"
        assert not (root / "three.py").is_symlink()
        assert not (root / "one.py").is_symlink()


async def test_a_file_takes_the_place_of_a_deleted_one(open_window: OpenWindow, root: Path) -> None:
    (root / "old.py").write_text("old\n")
    calls: Said = [
        ("delete_file", {"path": "old.py"}),
        ("move_file", {"path": "shop.py", "target": "old.py"}),
    ]
    async with open_window(calls, DONE) as (client, _):
        Buffers(client)
        run = (await client.command("composer.edit", "Tidy up."))["run"]
        await client.command("composer.accept", run)
        assert (root / "old.py").read_text() == TEXT
        assert not (root / "shop.py").exists()


@pytest.mark.parametrize("capabilities", [EDITOR, PLAIN], ids=["editor", "plain"])
async def test_nothing_is_written_where_a_folder_became_a_link(
    open_window: OpenWindow, root: Path, directory: Path, capabilities: Any
) -> None:
    outside = directory / "outside"
    outside.mkdir()
    calls: Said = [("write_file", {"path": "sub/new.py", "text": "x\n"})]
    async with open_window(calls, DONE, capabilities=capabilities) as (client, _):
        Buffers(client)
        run = (await client.command("composer.edit", "Make it."))["run"]
        (root / "sub").symlink_to(outside)
        with pytest.raises(LspError, match="reached by a link"):
            await client.command("composer.accept", run)
        assert not (outside / "new.py").exists()


async def cancelled_while_applying(
    client: LspClient, buffers: Buffers, command: str, *arguments: str
) -> None:
    """The editor does what it was asked for all the same."""
    client.answers["workspace/applyEdit"] = lambda params: SILENCE
    seen = len(client.received)
    asked = client.begin("workspace/executeCommand", {"command": command, "arguments": arguments})
    sent = await client.wait_for(
        lambda message: message.get("method") == "workspace/applyEdit", after=seen
    )
    client.cancel(asked)
    with pytest.raises(LspError, match="ancel"):
        await client.answer(asked)
    client.answers["workspace/applyEdit"] = buffers.apply
    result = buffers.apply(sent["params"])
    client.send({"jsonrpc": "2.0", "id": sent["id"], "result": result})


async def test_a_cancel_comes_too_late_for_what_the_editor_was_sent(
    open_window: OpenWindow, root: Path
) -> None:
    async with open_window(EDIT, DONE) as (client, _):
        buffers = Buffers(client)
        uri = buffers.open(root / "shop.py", TEXT)
        run = (await client.command("composer.edit", "Raise it."))["run"]
        await cancelled_while_applying(client, buffers, "composer.accept", run)
        assert buffers.texts[uri] == changed(TEXT, 3, 12)
        await client.command("composer.undo")
        assert buffers.texts[uri] == TEXT


async def test_a_cancelled_undo_is_done_once(open_window: OpenWindow, root: Path) -> None:
    async with open_window(EDIT, DONE) as (client, _):
        buffers = Buffers(client)
        uri = buffers.open(root / "shop.py", TEXT)
        run = (await client.command("composer.edit", "Raise it."))["run"]
        await client.command("composer.accept", run)
        await cancelled_while_applying(client, buffers, "composer.undo")
        assert buffers.texts[uri] == TEXT
        with pytest.raises(LspError, match="there is nothing to undo"):
            await client.command("composer.undo")


@contextmanager
def locked(path: Path) -> Generator[None]:
    with path.open("r+") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        yield


def only_checkpoint(state: Path) -> Path:
    (path,) = (each for each in state.rglob("*.json") if "checkpoints" in each.parts)
    return path


async def test_a_verdict_that_cannot_be_kept_keeps_nothing_from_being_accepted(
    open_window: OpenWindow, root: Path
) -> None:
    """Another process writes the transcript."""
    (root / "two.py").write_text(TEXT)
    async with open_window([edit("shop.py", 3), edit("two.py", 4)], DONE) as (client, _):
        Buffers(client)
        done = await client.command("composer.edit", "Raise it.")
        path = Path((await client.command("composer.transcript", done["run"]))["path"])
        with locked(path):
            await client.command("composer.accept", done["run"])
        assert (root / "two.py").read_text() == changed(TEXT, 4)
        assert (await client.command("composer.runs"))["runs"][0]["changes"] == []


async def test_a_damaged_checkpoint_keeps_nothing_from_being_accepted_and_undone(
    open_window: OpenWindow, root: Path, directory: Path
) -> None:
    async with open_window(EDIT, DONE, [edit("shop.py", 5)], DONE) as (client, _):
        Buffers(client)
        first, second = [
            (await client.command("composer.edit", "Raise it."))["run"] for _ in range(2)
        ]
        await client.command("composer.accept", first)
        checkpoint = only_checkpoint(directory)
        whole = checkpoint.read_bytes()
        checkpoint.write_bytes(whole[:20])
        await client.command("composer.accept", second)
        await client.command("composer.undo")
        assert (root / "shop.py").read_text() == changed(TEXT, 3, 12)
        with pytest.raises(LspError, match="there is nothing to undo"):
            await client.command("composer.undo")
        checkpoint.write_bytes(whole)
        await client.command("composer.undo")
        assert (root / "shop.py").read_text() == TEXT


SWAP: list[tuple[str, Any]] = [
    ("move_file", {"path": "shop.py", "target": "was/shop.py"}),
    ("write_file", {"path": "shop.py/new.py", "text": "n = 1\n"}),
]


async def test_a_folder_takes_a_files_place_and_gives_it_back(
    open_window: OpenWindow, root: Path
) -> None:
    (root / "two.py").write_text(TEXT)
    async with open_window([*SWAP, edit("two.py", 3)], DONE) as (client, _):
        buffers = Buffers(client)
        uri = buffers.open(root / "two.py", TEXT)
        run = (await client.command("composer.edit", "Raise it."))["run"]
        with pytest.raises(LspError, match="no review can show a file and a folder"):
            await client.command("composer.accept", run, None, None, {"review": True})
        await client.command("composer.accept", run)
        assert (root / "shop.py/new.py").read_text() == "n = 1\n"
        assert (root / "was/shop.py").read_text() == TEXT
        assert buffers.texts == {uri: changed(TEXT, 3)}
        await client.command("composer.undo")
        assert (root / "shop.py").read_text() == buffers.texts[uri] == TEXT


async def test_a_plain_editor_does_not_keep_a_folder_from_taking_a_files_place(
    open_window: OpenWindow, root: Path
) -> None:
    async with open_window(SWAP, DONE, capabilities=PLAIN) as (client, _):
        run = (await client.command("composer.edit", "Raise it."))["run"]
        await client.command("composer.accept", run)
        assert (root / "shop.py/new.py").read_text() == "n = 1\n"
        await client.command("composer.undo")
        assert (root / "shop.py").read_text() == TEXT


@pytest.mark.parametrize(
    "call",
    [
        ("delete_file", {"path": "shop.py"}),
        ("move_file", {"path": "shop.py", "target": "b.py"}),
    ],
    ids=["delete", "move"],
)
async def test_what_is_in_a_plain_editor_alone_is_to_be_saved_first(
    open_window: OpenWindow, root: Path, call: Any
) -> None:
    async with open_window([call], DONE, capabilities=PLAIN) as (client, _):
        client.open((root / "shop.py").as_uri(), TEXT)
        (root / "shop.py").unlink()
        run = (await client.command("composer.edit", "Do it."))["run"]
        with pytest.raises(LspError, match="is in the editor alone, not on the disk; save it"):
            await client.command("composer.accept", run)
        (root / "shop.py").write_text(TEXT)
        await client.command("composer.accept", run)
        assert not (root / "shop.py").exists()


async def test_stop_ends_the_wait_for_an_editor_that_does_not_answer(
    open_window: OpenWindow, root: Path
) -> None:
    async with open_window([edit("shop.py", 3)], DONE, [edit("shop.py", 5)], DONE) as (client, _):
        first, second = [
            (await client.command("composer.edit", "Raise it."))["run"] for _ in range(2)
        ]
        client.answers["workspace/applyEdit"] = lambda params: SILENCE
        accepting = client.begin(
            "workspace/executeCommand", {"command": "composer.accept", "arguments": [first]}
        )
        await client.notification("workspace/applyEdit")
        await client.command("composer.stop")
        with pytest.raises(LspError, match="the editor has not answered whether it made"):
            await client.answer(accepting)
        Buffers(client)
        await client.command("composer.accept", second)
        assert (root / "shop.py").read_text() == changed(TEXT, 5)

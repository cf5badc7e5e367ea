"""The agent over ACP: the real process, with the model's side of the protocol played."""

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest
from acp import (
    RequestError,
    embedded_text_resource,
    resource_block,
    resource_link_block,
    schema,
    text_block,
)

from tests.composer_lsp.acp.conftest import (
    LIMIT_S,
    TEXT,
    WITHOUT_FILES,
    Start,
)
from tests.support.chat_server import HANG, FakeChat, Said

READ: Said = [("read_file", {"path": "shop.py"})]
EDIT: Said = [
    ("edit_file", {"path": "shop.py", "edits": [{"old": "return 1", "new": "return 2"}]}),
    ("write_file", {"path": "sub/new.py", "text": "x = 1\n"}),
]
DONE: Said = [("finish", {"summary": "The price is 2 now."})]


async def test_answers_a_question_with_citations(start: Start, root: Path) -> None:
    async with start(READ, "It returns 1| (shop.py:2).") as (editor, chat):
        session = await editor.start_session(root)
        assert await editor.say(session, "/ask What is the price?") == "end_turn"
        assert editor.said(session) == "It returns 1 (shop.py:2)."
        chunks = editor.of(session, schema.AgentMessageChunk)
        assert len(chunks) == 2, "it is streamed"
        (call,) = editor.of(session, schema.ToolCallStart)
        assert (call.title, call.kind, call.status) == ("read_file shop.py", "read", "in_progress")
        assert [each.path for each in call.locations] == [str(root / "shop.py")]
        (result,) = editor.of(session, schema.ToolCallProgress)
        assert (result.tool_call_id, result.status) == (call.tool_call_id, "completed")
        assert "2\t    return 1" in result.content[0].content.text
        assert "What is the price?" in chat.requests[0]["messages"][1]["content"]
        assert editor.asked == []


async def test_a_citation_that_does_not_hold_is_marked(start: Start, root: Path) -> None:
    async with start(READ, "See shop.py:99.", "See shop.py:99.") as (editor, _):
        session = await editor.start_session(root)
        await editor.say(session, "/ask Where?")
        assert "not shown to be true: shop.py:99" in editor.said(session)


async def test_an_edit_is_shown_and_made_with_permission(start: Start, root: Path) -> None:
    async with start(EDIT, DONE) as (editor, _):
        session = await editor.start_session(root)
        assert await editor.say(session, "Raise the price.") == "end_turn"
        ((call, options),) = editor.asked
        assert [option.kind for option in options] == [
            "allow_once",
            "allow_always",
            "reject_once",
        ]
        assert (call.kind, call.title) == ("edit", "Change 2 files")
        shown = {each.path: (each.old_text, each.new_text) for each in call.content}
        assert shown == {
            str(root / "shop.py"): (TEXT, TEXT.replace("1", "2")),
            str(root / "sub/new.py"): (None, "x = 1\n"),
        }
        assert (root / "shop.py").read_text() == TEXT.replace("1", "2")
        assert (root / "sub/new.py").read_text() == "x = 1\n"
        assert editor.written == [str(root / "shop.py"), str(root / "sub/new.py")]
        last = editor.of(session, schema.ToolCallProgress)[-1]
        assert (last.tool_call_id, last.status) == (call.tool_call_id, "completed")
        assert "The price is 2 now." in editor.said(session)


async def test_each_editing_call_shows_its_difference(start: Start, root: Path) -> None:
    async with start(EDIT, DONE) as (editor, _):
        session = await editor.start_session(root)
        await editor.say(session, "Raise the price.")
        first = editor.of(session, schema.ToolCallProgress)[0]
        assert [(each.old_text, each.new_text) for each in first.content] == [
            (TEXT, TEXT.replace("1", "2"))
        ]


async def test_a_refused_edit_changes_nothing(start: Start, root: Path) -> None:
    async with start(EDIT, DONE, READ, "ok") as (editor, chat):
        session = await editor.start_session(root)
        editor.choice = "deny"
        assert await editor.say(session, "Raise the price.") == "end_turn"
        assert (root / "shop.py").read_text() == TEXT
        assert not (root / "sub").exists()
        assert editor.written == []
        assert editor.of(session, schema.ToolCallProgress)[-1].status == "failed"
        await editor.say(session, "/ask Why?")
        assert "rejected the changes of shop.py" in str(chat.requests[-1]["messages"])


async def test_always_is_not_asked_again_in_the_session(start: Start, root: Path) -> None:
    again: Said = [
        ("edit_file", {"path": "shop.py", "edits": [{"old": "return 2", "new": "return 3"}]})
    ]
    async with start(EDIT, DONE, again, DONE) as (editor, _):
        session = await editor.start_session(root)
        editor.choice = "always"
        await editor.say(session, "Raise the price.")
        await editor.say(session, "And again.")
        assert len(editor.asked) == 1
        assert (root / "shop.py").read_text() == TEXT.replace("1", "3")


async def test_unsaved_text_is_read_and_changed_by_the_client(start: Start, root: Path) -> None:
    path = str(root / "shop.py")
    grep: Said = [("grep", {"pattern": "return"})]
    edit: Said = [
        ("edit_file", {"path": "shop.py", "edits": [{"old": "return 100", "new": "return 2"}]})
    ]
    async with start(READ, grep, edit, DONE) as (editor, chat):
        editor.buffers[path] = "# new\n" + TEXT.replace("1", "100")
        session = await editor.start_session(root)
        await editor.say(session, "Lower the price.")
        results = [
            each["content"] for each in chat.requests[2]["messages"] if each["role"] == "tool"
        ]
        assert "3\t    return 100" in results[0]
        assert results[1] == "shop.py:3:    return 100"
        assert editor.written == [path]
        assert (root / "shop.py").read_text() == "# new\n" + TEXT.replace("1", "2")


async def test_a_file_that_changed_meanwhile_is_a_conflict(start: Start, root: Path) -> None:
    async with start(EDIT, DONE) as (editor, _):
        session = await editor.start_session(root)
        path = str(root / "shop.py")
        editor.when_asked = lambda: editor.buffers.update({path: TEXT.replace("1", "9")})
        assert await editor.say(session, "Raise the price.") == "end_turn"
        assert "nothing was changed, because of shop.py: lines 2 to 2" in editor.said(session)
        assert editor.written == []
        assert not (root / "sub/new.py").exists()


async def test_what_the_user_writes_meanwhile_stays_and_outlives_undo(
    start: Start, root: Path
) -> None:
    async with start(EDIT, DONE) as (editor, _):
        session = await editor.start_session(root)
        path = str(root / "shop.py")
        editor.when_asked = lambda: editor.buffers.update({path: "# mine\n" + TEXT})
        await editor.say(session, "Raise the price.")
        assert (root / "shop.py").read_text() == "# mine\n" + TEXT.replace("1", "2")
        await editor.say(session, "/undo")
        assert (root / "shop.py").read_text() == "# mine\n" + TEXT
        assert not (root / "sub/new.py").exists()


@pytest.mark.parametrize("refused", ["shop.py", "sub/new.py"])
async def test_a_write_that_fails_takes_back_the_others(
    start: Start, root: Path, refused: str
) -> None:
    (root / "app.py").write_text("a = 1\n")
    first: Said = [("edit_file", {"path": "app.py", "edits": [{"old": "a = 1", "new": "a = 2"}]})]
    async with start([*first, *EDIT], DONE) as (editor, _):  # pyright: ignore
        session = await editor.start_session(root)
        editor.refuses_to_write = str(root / refused)
        with pytest.raises(RequestError, match="^nothing was changed: .*the disk is full"):
            await editor.say(session, "Raise the price.")
        assert editor.written[0] == str(root / "app.py"), "it was written first"
        assert (root / "app.py").read_text() == "a = 1\n"
        assert (root / "shop.py").read_text() == TEXT
        assert not (root / "sub/new.py").exists()


async def test_a_folder_that_is_a_link_keeps_the_clients_path(
    start: Start, root: Path, tmp_path: Path
) -> None:
    link = tmp_path / "link"
    link.symlink_to(root)
    async with start([*READ, *EDIT], DONE) as (editor, _):  # pyright: ignore
        editor.buffers[str(link / "shop.py")] = TEXT + "# unsaved\n"
        session = await editor.start_session(link)
        await editor.say(session, "Raise the price.")
        assert set(editor.read) == {str(link / "shop.py"), str(link / "sub/new.py")}
        assert editor.written == [str(link / "shop.py"), str(link / "sub/new.py")]
        assert (root / "shop.py").read_text() == TEXT.replace("1", "2") + "# unsaved\n"
        calls = editor.of(session, schema.ToolCallStart)
        assert calls[0].locations[0].path == str(link / "shop.py")


@pytest.mark.parametrize(
    "data",
    [
        b"def price():\r\n    return 1\r\n",
        b"\xef\xbb\xbfdef price():\n    return 1\n",
        b"# \xe4\n# coding: latin-1\ndef price():\n    return 1\n",
        "def price():\n    return 1\n".encode("utf-16"),
    ],
    ids=["crlf", "bom", "latin-1", "utf-16"],
)
async def test_bytes_that_no_hunk_touches_stay(start: Start, root: Path, data: bytes) -> None:
    """Whatever the client would do to them."""
    (root / "shop.py").write_bytes(data)
    async with start([EDIT[0]], DONE) as (editor, _):  # pyright: ignore
        if data.startswith(b"\xff\xfe"):
            editor.buffers[str(root / "shop.py")] = TEXT
        session = await editor.start_session(root)
        await editor.say(session, "Raise the price.")
        one, two = (
            ("1".encode("utf-16-le"), "2".encode("utf-16-le"))
            if b"\0" in data
            else (b"n 1", b"n 2")
        )
        assert (root / "shop.py").read_bytes() == data.replace(one, two)


async def test_without_the_clients_files_the_disk_is_used(start: Start, root: Path) -> None:
    async with start(EDIT, DONE, capabilities=WITHOUT_FILES) as (editor, _):
        editor.buffers[str(root / "shop.py")] = "nobody asks for it"
        session = await editor.start_session(root)
        await editor.say(session, "Raise the price.")
        assert editor.written == []
        assert (root / "shop.py").read_text() == TEXT.replace("1", "2")


async def test_moves_and_deletes_are_made_on_the_disk(start: Start, root: Path) -> None:
    (root / "old.py").write_text("x = 1\n")
    changes: Said = [
        ("move_file", {"path": "shop.py", "target": "store.py"}),
        ("delete_file", {"path": "old.py"}),
    ]
    async with start(
        changes,
        DONE,
    ) as (editor, _):
        session = await editor.start_session(root)
        await editor.say(session, "Move it.")
        assert names(root) == [".env", "store.py"]
        assert (root / "store.py").read_text() == TEXT
        await editor.say(session, "/undo")
        assert names(root) == [".env", "old.py", "shop.py"]
        assert (root / "shop.py").read_text() == TEXT
        assert "Undone: Move it." in editor.said(session)
        await editor.say(session, "/undo")
        assert "There is nothing to undo." in editor.said(session)


async def test_a_move_of_a_file_with_unsaved_text_is_refused(start: Start, root: Path) -> None:
    move: Said = [("move_file", {"path": "shop.py", "target": "store.py"})]
    async with start(move, DONE) as (editor, _):
        editor.buffers[str(root / "shop.py")] = TEXT + "# unsaved\n"
        session = await editor.start_session(root)
        await editor.say(session, "Move it.")
        assert "shop.py has unsaved changes" in editor.said(session)
        assert (root / "shop.py").exists()


async def test_secrets_and_places_outside_are_never_asked_of_the_client(
    start: Start, root: Path
) -> None:
    (root.parent / "outside.py").write_text("secret = 1\n")
    reads: Said = [
        ("read_file", {"path": ".env"}),
        ("read_file", {"path": str(root.parent / "outside.py")}),
    ]
    async with start(reads, "ok") as (editor, chat):
        session = await editor.start_session(root)
        await editor.say(session, "/ask What is the token?")
        results = [
            each["content"] for each in chat.requests[1]["messages"] if each["role"] == "tool"
        ]
        assert "it holds secrets by its name" in results[0]
        assert "is outside of the workspace" in results[1]
        assert editor.read == []


async def test_attached_files_reach_the_model_but_secrets_do_not(start: Start, root: Path) -> None:
    async with start(READ, "ok") as (editor, chat):
        session = await editor.start_session(root)
        blocks = [
            text_block("/ask Compare "),
            resource_link_block("shop.py", (root / "shop.py").as_uri()),
            text_block(" with "),
            resource_block(embedded_text_resource("https://example.org/a", "the old price was 7")),
            resource_block(embedded_text_resource((root / ".env").as_uri(), "TOKEN=1")),
        ]
        await editor.prompt(session, *blocks)
        asked = chat.requests[0]["messages"][1]["content"]
        assert "Compare shop.py with https://example.org/a" in asked
        assert "the old price was 7" in asked
        assert "TOKEN" not in asked
        assert "Left out: .env cannot be used: it holds secrets by its name" in editor.said(session)


@pytest.mark.parametrize(
    ("choice", "result"), [("once", "ran"), ("deny", "the user has denied it")]
)
async def test_a_command_is_asked_about(start: Start, root: Path, choice: str, result: str) -> None:
    runs: Said = [("run_command", {"command": 'python3 -c \'print("r" + "an")\''})]
    async with start(runs, DONE) as (editor, chat):
        session = await editor.start_session(root)
        editor.choice = choice
        await editor.say(session, "Run it.")
        ((call, options),) = editor.asked
        assert (call.kind, call.title) == ("execute", 'Run python3 -c \'print("r" + "an")\'')
        assert "You are asked because" in call.content[0].content.text
        assert [option.option_id for option in options][:2] == ["once", "session"]
        (started, *_) = editor.of(session, schema.ToolCallStart)
        assert call.tool_call_id == started.tool_call_id, "it is about the call that runs"
        (answer,) = [each for each in chat.requests[1]["messages"] if each["role"] == "tool"]
        assert result in answer["content"]


async def test_cancel_ends_a_stream_at_once(start: Start, root: Path) -> None:
    async with start(EDIT, HANG) as (editor, chat):
        session = await editor.start_session(root)
        asking = asyncio.ensure_future(editor.say(session, "Raise the price."))
        await hangs(chat)
        await editor.agent.cancel(session_id=session)
        assert await asking == "cancelled"
        assert await asyncio.to_thread(chat.left.wait, LIMIT_S)
        assert "The changes of shop.py, sub/new.py were not made" in editor.said(session)
        assert (root / "shop.py").read_text() == TEXT
        assert editor.asked == []


async def test_cancel_ends_a_question_that_nobody_answers(start: Start, root: Path) -> None:
    async with start(EDIT, DONE) as (editor, _):
        session = await editor.start_session(root)
        editor.choice = None
        asking = asyncio.ensure_future(editor.say(session, "Raise the price."))
        await asyncio.wait_for(editor.is_asked.wait(), LIMIT_S)
        await editor.agent.cancel(session_id=session)
        assert await asking == "cancelled"
        assert (root / "shop.py").read_text() == TEXT
        assert editor.of(session, schema.ToolCallProgress)[-1].status == "failed"


async def test_sessions_run_at_the_same_time(start: Start, root: Path, tmp_path: Path) -> None:
    other_root = tmp_path / "other"
    other_root.mkdir()
    (other_root / "shop.py").write_text("other = 1\n")
    async with start(HANG, READ, "It is here.") as (editor, chat):
        first = await editor.start_session(root)
        second = await editor.start_session(other_root)
        waiting = asyncio.ensure_future(editor.say(first, "/ask What?"))
        await hangs(chat)
        assert await editor.say(second, "/ask Where?") == "end_turn"
        assert "other = 1" in str(chat.requests[2]["messages"])
        assert editor.said(second) == "It is here."
        assert editor.said(first) == ""
        with pytest.raises(RequestError, match="still answering another prompt"):
            await editor.say(first, "/ask Well?")
        await editor.agent.cancel(session_id=second)
        assert not waiting.done(), "only its own session is cancelled"
        await editor.agent.cancel(session_id=first)
        assert await waiting == "cancelled"


async def test_several_folders_make_one_workspace(start: Start, root: Path, tmp_path: Path) -> None:
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib/util.py").write_text("util = 1\n")
    reads: Said = [("read_file", {"path": "lib/util.py"}), ("read_file", {"path": "shop/shop.py"})]
    async with start(reads, "ok") as (editor, chat):
        session = await editor.start_session(root, additional_directories=[str(tmp_path / "lib")])
        await editor.say(session, "/ask What?")
        results = [
            each["content"] for each in chat.requests[1]["messages"] if each["role"] == "tool"
        ]
        assert "util = 1" in results[0]
        assert "return 1" in results[1]


async def test_a_later_prompt_knows_the_earlier_ones(start: Start, root: Path) -> None:
    async with start(READ, "The price is 1.", "As I said (shop.py:2).", "Yes.") as (editor, chat):
        session = await editor.start_session(root)
        await editor.say(session, "/ask What is the price?")
        await editor.say(session, "/ask Are you sure?")
        _, asked, call, result, answer, again = chat.requests[2]["messages"]
        assert (asked["role"], asked["content"]) == ("user", "What is the price?")
        assert call["tool_calls"][0]["function"]["name"] == "read_file"
        assert (result["role"], "2\t    return 1" in result["content"]) == ("tool", True)
        assert answer == {"role": "assistant", "content": "The price is 1."}
        assert (again["role"], "Are you sure?" in again["content"]) == ("user", True)
        assert "not shown to be true" not in editor.said(session)
        await editor.say(session, "Really?")
        assert chat.requests[3]["messages"][1:6] == chat.requests[2]["messages"][1:]


async def test_a_later_prompt_may_not_cite_what_has_changed(start: Start, root: Path) -> None:
    claim = "It returns 1 (shop.py:2)."
    async with start(READ, "The price is 1.", claim, claim) as (editor, _):
        session = await editor.start_session(root)
        await editor.say(session, "/ask What is the price?")
        (root / "shop.py").write_text(TEXT.replace("1", "2"))
        await editor.say(session, "/ask Are you sure?")
        assert "not shown to be true: shop.py:2" in editor.said(session)


async def test_a_later_prompt_knows_what_was_stopped(start: Start, root: Path) -> None:
    async with start(HANG, "Yes?") as (editor, chat):
        session = await editor.start_session(root)
        asking = asyncio.ensure_future(editor.say(session, "/ask What is the price?"))
        await hangs(chat)
        await editor.agent.cancel(session_id=session)
        assert await asking == "cancelled"
        await editor.say(session, "/ask Are you there?")
        told = [each["content"] for each in chat.requests[-1]["messages"]]
        assert told[1:3] == ["What is the price?", "(The user stopped this.)"]


async def test_a_session_is_loaded_again(start: Start, root: Path) -> None:
    async with start(READ, "The price is 1.") as (editor, _):
        session = await editor.start_session(root)
        await editor.agent.set_session_mode(session_id=session, mode_id="ask")
        await editor.say(session, "What is the price?")
    async with start("As I said (shop.py:2).") as (editor, chat):
        listed = (await editor.agent.list_sessions(cwd=str(root))).sessions
        assert [(each.session_id, each.title) for each in listed] == [
            (session, "What is the price?")
        ]
        loaded = await editor.agent.load_session(cwd=str(root), session_id=session)
        assert loaded.modes is not None
        assert loaded.modes.current_mode_id == "ask"
        (asked,) = editor.of(session, schema.UserMessageChunk)
        assert asked.content.text == "What is the price?"
        assert editor.said(session).strip() == "The price is 1."
        assert [each.title for each in editor.of(session, schema.ToolCallStart)] == [
            "read_file shop.py"
        ]
        await editor.say(session, "Are you sure?")
        _, asked, _, result, answer, _ = chat.requests[0]["messages"]
        assert asked["content"] == "What is the price?"
        assert "2\t    return 1" in result["content"]
        assert answer["content"] == "The price is 1."
        assert "not shown to be true" not in editor.said(session)
        with pytest.raises(RequestError, match="is of .*shop, not of"):
            await editor.agent.load_session(cwd=str(root.parent), session_id=session)
        with pytest.raises(RequestError, match="there is no session '../../x'"):
            await editor.agent.load_session(cwd=str(root), session_id="../../x")


async def test_a_session_goes_on_and_is_loaded_again_without_a_transcript_that_was_lost(
    start: Start, root: Path, home: Path
) -> None:
    state = home / "state"
    state.mkdir()
    (state / "transcripts").touch()  # no folder, so that nothing can be kept in it
    async with start("The price is 1.", "As I said.") as (editor, chat):
        session = await editor.start_session(root)
        await editor.say(session, "/ask What is the price?")
        assert "The transcript cannot be kept" in editor.said(session)
        (state / "transcripts").unlink()
        await editor.say(session, "/ask Are you sure?")
        told = [each["content"] for each in chat.requests[1]["messages"]]
        assert told[1:3] == ["What is the price?", "The price is 1."]
    async with start("Yes.") as (editor, chat):
        await editor.agent.load_session(cwd=str(root), session_id=session)
        (asked,) = editor.of(session, schema.UserMessageChunk)
        assert asked.content.text == "Are you sure?"
        await editor.say(session, "/ask Really?")
        told = [each["content"] for each in chat.requests[0]["messages"]]
        assert told[1:3] == ["What is the price?", "The price is 1."]
        assert told[4] == "As I said."


async def test_a_session_none_of_whose_transcripts_was_kept_is_loaded_again(
    start: Start, root: Path, home: Path
) -> None:
    (home / "state").mkdir()
    (home / "state/transcripts").touch()
    async with start("The price is 1.") as (editor, _):
        session = await editor.start_session(root)
        await editor.say(session, "/ask What is the price?")
    async with start("Yes?") as (editor, chat):
        await editor.agent.load_session(cwd=str(root), session_id=session)
        assert editor.of(session, schema.UserMessageChunk) == []
        await editor.say(session, "/ask Are you there?")
        assert len(chat.requests[0]["messages"]) == 2


async def test_a_transcript_that_somebody_deleted_is_named(
    start: Start, root: Path, home: Path
) -> None:
    async with start("The price is 1.") as (editor, _):
        session = await editor.start_session(root)
        await editor.say(session, "/ask What is the price?")
        (path,) = (home / "state/transcripts").glob("*.jsonl")
        path.unlink()
        with pytest.raises(RequestError, match=rf"{path.name} cannot be read: No such file"):
            await editor.agent.load_session(cwd=str(root), session_id=session)


async def test_a_plan_is_shown_and_carried_out_when_agreed(start: Start, root: Path) -> None:
    plan: Said = [("update_plan", {"steps": ["change shop.py", "test it"], "num_done": 0})]
    async with start(plan, "That is it.", EDIT, DONE) as (editor, chat):
        session = await editor.start_session(root)
        assert await editor.say(session, "/plan Raise the price.") == "end_turn"
        (shown, *_) = editor.of(session, schema.AgentPlanUpdate)
        assert [(each.content, each.status) for each in shown.entries] == [
            ("change shop.py", "in_progress"),
            ("test it", "pending"),
        ]
        assert [call.title for call, _ in editor.asked] == [
            "Carry out this plan?",
            "Change 2 files",
        ]
        assert "The user has approved this plan:\n1. change shop.py" in str(
            chat.requests[2]["messages"][-1]["content"]
        )
        assert (root / "shop.py").read_text() == TEXT.replace("1", "2")


async def test_a_plan_that_is_not_agreed_to_stays_one(start: Start, root: Path) -> None:
    plan: Said = [("update_plan", {"steps": ["change shop.py"], "num_done": 0})]
    async with start(plan, "That is it.") as (editor, chat):
        session = await editor.start_session(root)
        editor.choice = "deny"
        assert await editor.say(session, "/plan Raise the price.") == "end_turn"
        assert len(chat.requests) == 2
        assert (root / "shop.py").read_text() == TEXT


async def test_modes_and_commands_are_offered(start: Start, root: Path) -> None:
    async with start(arguments=("--mode", "ask")) as (editor, _):
        opened = await editor.agent.new_session(cwd=str(root))
        assert opened.modes is not None
        assert opened.modes.current_mode_id == "ask"
        modes = [mode.id for mode in opened.modes.available_modes]
        assert modes == ["ask", "plan", "edit", "fix", "test"]
        with pytest.raises(RequestError, match="there is no mode 'dream'; there are ask, plan"):
            await editor.agent.set_session_mode(session_id=opened.session_id, mode_id="dream")
        (offered,) = editor.of(opened.session_id, schema.AvailableCommandsUpdate)
        assert [each.name for each in offered.available_commands] == [*modes, "undo"]


async def test_a_model_that_cannot_be_reached_is_named(start: Start, root: Path) -> None:
    async with start(arguments=("--url", "http://127.0.0.1:9/v1")) as (editor, _):
        session = await editor.start_session(root)
        with pytest.raises(RequestError, match="127.0.0.1:9/v1 cannot be reached"):
            await editor.say(session, "/ask What?")


@pytest.mark.parametrize(
    ("cwd", "error"),
    [
        ("shop", "cwd must be an absolute path, not 'shop'"),
        ("/no/such/folder", "cwd: /no/such/folder is no folder"),
    ],
)
async def test_a_session_needs_a_folder(start: Start, cwd: str, error: str) -> None:
    async with start() as (editor, _):
        with pytest.raises(RequestError, match=error):
            await editor.agent.new_session(cwd=cwd)


async def test_prompts_that_cannot_be_taken_are_refused(start: Start, root: Path) -> None:
    async with start() as (editor, chat):
        session = await editor.start_session(root)
        with pytest.raises(RequestError, match="does not understand images"):
            image = schema.ImageContentBlock(type="image", data="", mime_type="image/png")
            await editor.prompt(session, text_block("See"), image)
        with pytest.raises(RequestError, match="the prompt has no text"):
            await editor.prompt(session)
        with pytest.raises(RequestError, match="/fix takes a request in words"):
            await editor.say(session, "/fix")
        with pytest.raises(RequestError, match="there is no session 'nope' here"):
            await editor.say("nope", "What?")
        assert chat.requests == []


async def test_a_closed_session_is_gone(start: Start, root: Path) -> None:
    async with start(HANG) as (editor, chat):
        session = await editor.start_session(root)
        asking = asyncio.ensure_future(editor.say(session, "/ask What?"))
        await hangs(chat)
        await editor.agent._conn.send_request("session/close", {"sessionId": session})
        assert await asking == "cancelled"
        with pytest.raises(RequestError, match="there is no session"):
            await editor.say(session, "/ask What?")


async def test_nothing_heavy_is_imported_for_other_commands() -> None:
    code = "import sys, composer_lsp.cli.acp; sys.exit('acp' in sys.modules)"
    done = await asyncio.to_thread(subprocess.run, [sys.executable, "-c", code], check=False)
    assert done.returncode == 0


def names(folder: Path) -> list[str]:
    return sorted(each.name for each in folder.iterdir())


async def hangs(chat: FakeChat) -> None:
    assert await asyncio.to_thread(chat.hanging.wait, LIMIT_S)

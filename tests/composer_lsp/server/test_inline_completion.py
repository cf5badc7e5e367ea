import pytest

from tests.support.lsp import AUTOMATIC, INVOKED, LspClient, LspError, apply_item, drawn

URI = "file:///w/a.py"


async def suggest(client: LspClient, text: str, uri: str = URI, **kwargs):
    place = drawn(text)
    client.open(uri, place.text)
    return place, await client.inline_completion(uri, place.position(client.encoding), **kwargs)


async def test_a_suggestion_at_the_cursor(client):
    place, items = await suggest(client, "def f():\n    ˇ\n")
    assert [item["insertText"] for item in items] == ["<suggestion>"]
    assert apply_item(place.text, items[0]) == "def f():\n    <suggestion>\n"


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "utf-32"])
@pytest.mark.parametrize(
    "text",
    [
        pytest.param("μ = ˇ", id="two bytes"),
        pytest.param("'😀' + ˇ", id="surrogate pair"),
        pytest.param("e\u0301 = ˇ", id="combining mark"),
        pytest.param("# 👩‍👩‍👧‍👦 \U0010fffd ﷽\r\nx = 'ß' ˇ + y", id="joined emoji"),
        pytest.param("a\u2028b\x0bc\x85 = ˇ\n", id="no line ends"),
    ],
)
async def test_text_before_the_cursor_of_any_kind(start_fake, encoding, text):
    async with start_fake() as client:
        await client.initialize({"general": {"positionEncodings": [encoding]}})
        assert client.encoding == encoding
        place, items = await suggest(client, text)
        start = items[0]["range"]["start"]
        assert start == items[0]["range"]["end"] == place.position(encoding)


async def test_a_range_after_the_cursor(client):
    place, items = await suggest(client, "😀f( pairˇ)")
    assert apply_item(place.text, items[0]) == "😀f( pairx)"


async def test_nothing_to_suggest_is_an_empty_list(client):
    _, items = await suggest(client, "neverˇ")
    assert items == []


@pytest.mark.parametrize(("kind", "word"), [(INVOKED, "invoked"), (AUTOMATIC, "automatic")])
async def test_the_trigger_is_passed_on(client, events, kind, word):
    await suggest(client, "xˇ", trigger=kind)
    assert f"complete {word} python x" in events.all()


@pytest.mark.parametrize(
    ("kind", "texts"), [(INVOKED, ["<1>", "<2>", "<3>"]), (AUTOMATIC, ["<1>"])]
)
async def test_several_suggestions_for_an_explicit_request(client, kind, texts):
    place, items = await suggest(client, "severalˇ)", trigger=kind)
    assert [item["insertText"] for item in items] == texts
    assert [apply_item(place.text, item) for item in items] == [f"several{text})" for text in texts]


async def test_a_selected_menu_entry_counts_as_typed(client, events):
    entry = {
        "range": {"start": {"line": 0, "character": 2}, "end": {"line": 0, "character": 4}},
        "text": "format",
    }
    place, items = await suggest(client, "a.foˇ;", selectedCompletionInfo=entry)
    assert "complete automatic python a.format" in events.all()
    assert items[0]["insertText"] == "format<suggestion>"
    assert items[0]["range"] == entry["range"]
    assert apply_item(place.text, items[0]) == "a.format<suggestion>;"


async def test_cancel_ends_the_work_and_is_answered_once(client, events):
    client.open(URI, "slow")
    msg_id = client.begin_inline_completion(URI, {"line": 0, "character": 4})
    await events.wait_for("complete automatic python slow")
    client.cancel(msg_id)
    with pytest.raises(LspError) as caught:
        await client.answer(msg_id)
    assert caught.value.code == -32800
    await events.wait_for("cancelled")
    await client.shut_down()
    assert len([message for message in client.received if message.get("id") == msg_id]) == 1
    assert b"ERROR" not in client.stderr
    assert b"Traceback" not in client.stderr
    assert client.all("window/showMessage") == []


async def test_cancel_in_the_same_write_as_the_request(client):
    client.open(URI, "slow")
    msg_id = client.begin_inline_completion(URI, {"line": 0, "character": 4})
    client.cancel(msg_id)
    client.cancel(msg_id)
    with pytest.raises(LspError) as caught:
        await client.answer(msg_id)
    assert caught.value.code == -32800


async def test_a_late_cancel_and_one_of_nothing_are_ignored(client):
    _, items = await suggest(client, "xˇ")
    assert items
    client.cancel(2)
    client.cancel("never sent")
    assert await client.command("composer.status")


async def test_a_newer_request_takes_the_place_of_the_running_one(client, events):
    client.open(URI, "slow\nquick")
    first = client.begin_inline_completion(URI, {"line": 0, "character": 4})
    await events.wait_for("complete automatic python slow")
    items = await client.inline_completion(URI, {"line": 1, "character": 5})
    assert items
    await events.wait_for("cancelled")
    assert await client.answer(first) is None


async def test_many_keystrokes_leave_one_request(client, events):
    client.open(URI, "slow")
    ids = [client.begin_inline_completion(URI, {"line": 0, "character": 4}) for _ in range(50)]
    for msg_id in ids[:-1]:
        assert await client.answer(msg_id) is None
    await events.wait_for("complete automatic python slow")
    client.cancel(ids[-1])
    with pytest.raises(LspError):
        await client.answer(ids[-1])
    started = events.all().count("complete automatic python slow")
    await events.wait_for("cancelled", times=started)


async def test_documents_do_not_supersede_each_other(client, events):
    other = "file:///w/b.py"
    client.open(URI, "slow")
    client.open(other, "slow")
    first = client.begin_inline_completion(URI, {"line": 0, "character": 4})
    client.begin_inline_completion(other, {"line": 0, "character": 4})
    await events.wait_for("complete automatic python slow", times=2)
    client.cancel(first)
    await events.wait_for("cancelled")
    assert events.all().count("cancelled") == 1


@pytest.mark.parametrize("event", ["change", "close"])
async def test_a_request_whose_document_went_on_is_stale(client, events, event):
    client.open(URI, "slow")
    msg_id = client.begin_inline_completion(URI, {"line": 0, "character": 4})
    await events.wait_for("complete automatic python slow")
    if event == "change":
        client.change(URI, 2, {"text": "x"})
    else:
        client.notify("textDocument/didClose", {"textDocument": {"uri": URI}})
    assert await client.answer(msg_id) is None
    await events.wait_for("cancelled")


async def test_untitled_documents(client):
    _, items = await suggest(client, "xˇ", uri="untitled:Untitled-1")
    assert items


async def test_a_document_that_was_never_opened(client):
    with pytest.raises(LspError) as caught:
        await client.inline_completion("file:///w/other.py", {"line": 0, "character": 0})
    assert caught.value.code == -32602
    assert "file:///w/other.py" in caught.value.message


@pytest.mark.parametrize("position", [(0, 99), (99, 0), (2**31 - 1, 2**31 - 1)])
async def test_a_position_past_the_end_clamps(client, position):
    line, character = position
    client.open(URI, "abc")
    items = await client.inline_completion(URI, {"line": line, "character": character})
    assert items[0]["range"]["start"] == {"line": 0, "character": 3}


async def test_nothing_but_messages_on_stdout(client):
    _, items = await suggest(client, "printˇ")
    assert items == []
    assert await client.shut_down() == 0
    assert b"an accidental print" in client.stderr
    assert b"a child's print" in client.stderr


async def test_a_bug_of_ours_is_an_error_answer_and_no_box(client):
    with pytest.raises(LspError) as caught:
        await suggest(client, "crashˇ")
    assert caught.value.code == -32603
    assert client.all("window/showMessage") == []
    assert await client.command("composer.status")


async def test_notebook_cells(client, events):
    cell = "vscode-notebook-cell:/w/n.ipynb#a"
    notebook = "file:///w/n.ipynb"
    client.notify(
        "notebookDocument/didOpen",
        {
            "notebookDocument": {
                "uri": notebook,
                "notebookType": "jupyter-notebook",
                "version": 1,
                "cells": [{"kind": 2, "document": cell}],
            },
            "cellTextDocuments": [
                {"uri": cell, "languageId": "python", "version": 1, "text": "😀 = 1\n"}
            ],
        },
    )
    where = {"line": 1, "character": 0}
    change = {"range": {"start": where, "end": where}, "text": "x = "}
    client.notify(
        "notebookDocument/didChange",
        {
            "notebookDocument": {"uri": notebook, "version": 2},
            "change": {
                "cells": {
                    "textContent": [{"document": {"uri": cell, "version": 2}, "changes": [change]}]
                }
            },
        },
    )
    items = await client.inline_completion(cell, {"line": 1, "character": 4})
    assert items[0]["range"]["start"] == {"line": 1, "character": 4}
    assert "complete automatic python x = " in events.all()
    client.notify(
        "notebookDocument/didClose",
        {"notebookDocument": {"uri": notebook}, "cellTextDocuments": [{"uri": cell}]},
    )
    with pytest.raises(LspError):
        await client.inline_completion(cell, where)


@pytest.mark.parametrize(("text", "prepared"), [("one\nx = ˇy", True), ("one\nhiddenˇ", False)])
async def test_the_prompt_at_a_place_is_prepared(client, events, text, prepared):
    place = drawn(text)
    client.open(URI, place.text)
    cursor = place.position(client.encoding)
    options = {"uri": URI, "range": {"start": {"line": 0, "character": 0}, "end": cursor}}
    assert await client.command("composer.prepare", options) == {"prepared": prepared}
    before = place.text[: place.offset].splitlines()[-1]
    assert f"prepare {before}" in events.all()


async def test_nothing_is_prepared_while_suggestions_are_off(client, events):
    client.open(URI, "x")
    await client.command("composer.toggle")
    start = {"line": 0, "character": 0}
    options = {"uri": URI, "range": {"start": start, "end": start}}
    assert await client.command("composer.prepare", options) == {"prepared": False}
    assert not [each for each in events.all() if each.startswith("prepare")]


@pytest.mark.parametrize(
    "options", [None, {}, {"uri": URI}, {"uri": "file:///not/open", "range": 5}, 7]
)
async def test_a_place_to_prepare_that_is_none(client, options):
    client.open(URI, "x")
    with pytest.raises(LspError) as caught:
        await client.command("composer.prepare", options)
    assert caught.value.code == -32602


async def test_a_copy_is_kept_by_its_place(client):
    client.open(URI, "one = 1\nvalue = compute(é)\n")
    start, end = {"line": 1, "character": 0}, {"line": 2, "character": 0}
    options = {"uri": URI, "range": {"start": start, "end": end}}
    assert await client.command("composer.copied", options) == {"kept": True}
    options["range"]["end"] = {"line": 1, "character": 3}
    assert await client.command("composer.copied", options) == {"kept": False}
    with pytest.raises(LspError) as caught:
        await client.command("composer.copied", {"uri": URI})
    assert caught.value.code == -32602

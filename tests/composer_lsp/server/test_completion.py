"""The fallback for clients without inline completion."""

import copy

import pytest

from tests.support.lsp import CAPABILITIES, LspClient, LspError, drawn

URI = "file:///w/a.py"

MENU_ONLY = copy.deepcopy(CAPABILITIES)
del MENU_ONLY["textDocument"]["inlineCompletion"]


@pytest.fixture
async def client(start_fake):
    async with start_fake() as client:
        await client.initialize(MENU_ONLY)
        yield client


async def complete(client: LspClient, text: str):
    place = drawn(text)
    client.open(URI, place.text)
    return await client.request(
        "textDocument/completion", {"textDocument": {"uri": URI}, "position": place.position()}
    )


async def test_only_clients_without_ghost_text_are_offered_it(start_fake):
    async with start_fake() as client:
        assert "completionProvider" not in (await client.initialize())["capabilities"]
    async with start_fake() as client:
        assert "completionProvider" in (await client.initialize(MENU_ONLY))["capabilities"]


async def test_an_entry_that_starts_with_the_word_before_the_cursor(client):
    result = await complete(client, "😀 x.foˇ")
    assert result["isIncomplete"] is True
    [item] = result["items"]
    assert item["label"] == item["filterText"] == "fo<suggestion>"
    assert item["textEdit"]["newText"] == "fo<suggestion>"
    assert item["textEdit"]["range"] == {
        "start": {"line": 0, "character": 5},
        "end": {"line": 0, "character": 7},
    }
    assert item["insertTextFormat"] == 1
    assert item["sortText"] > "zzzz"
    assert "preselect" not in item


async def test_text_after_the_cursor_is_replaced(client):
    [item] = (await complete(client, "f( pairˇ)"))["items"]
    assert item["textEdit"]["newText"] == "pairx)"
    assert item["textEdit"]["range"]["end"] == {"line": 0, "character": 8}


async def test_nothing_to_suggest(client):
    assert await complete(client, "neverˇ") == {"isIncomplete": True, "items": []}


async def test_a_slow_answer_does_not_hold_back_other_sources(client, events):
    assert await complete(client, "slowˇ") == {"isIncomplete": True, "items": []}
    # The work goes on, and asking again at the same place waits for it.
    params = {"textDocument": {"uri": URI}, "position": {"line": 0, "character": 4}}
    assert await client.request("textDocument/completion", params) == {
        "isIncomplete": True,
        "items": [],
    }
    assert events.all().count("complete automatic python slow") == 1
    assert "cancelled" not in events.all()
    client.change(URI, 2, {"text": ""})
    await events.wait_for("cancelled")


async def test_cancel(client, events):
    client.open(URI, "slow")
    msg_id = client.begin(
        "textDocument/completion",
        {"textDocument": {"uri": URI}, "position": {"line": 0, "character": 4}},
    )
    await events.wait_for("complete automatic python slow")
    client.cancel(msg_id)
    with pytest.raises(LspError) as caught:
        await client.answer(msg_id)
    assert caught.value.code == -32800
    await events.wait_for("cancelled")

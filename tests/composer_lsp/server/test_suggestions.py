"""What is known of suggestions that were shown: which were accepted, and why they are what they are."""

import json
from pathlib import Path

import pytest

from tests.composer_lsp.server.test_inline_completion import URI, suggest
from tests.support.lsp import LspError

ACCEPTED = "composer.acceptedSuggestion"
EXPLAIN = "composer.explainSuggestion"


async def counts(client):
    return (await client.command("composer.status"))["suggestions"]


async def test_accepting_is_counted(client):
    assert await counts(client) == {"shown": 0, "accepted": 0, "partlyAccepted": 0}
    _, items = await suggest(client, "xˇ")
    command = items[0]["command"]
    assert command["command"] == ACCEPTED
    assert (await counts(client))["shown"] == 1
    assert await client.command(ACCEPTED, *command["arguments"]) == {
        "shown": 1,
        "accepted": 1,
        "partlyAccepted": 0,
    }


async def test_a_part_counts_until_all_of_it_is_accepted(client):
    _, items = await suggest(client, "xˇ")
    (id,) = items[0]["command"]["arguments"]
    for length in (1, 3):
        found = await client.command(ACCEPTED, id, {"acceptedLength": length})
        assert found == {"shown": 1, "accepted": 0, "partlyAccepted": 1}
    assert await client.command(ACCEPTED, id) == {"shown": 1, "accepted": 1, "partlyAccepted": 0}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("s99",), "there is no suggestion 's99'; the last 64"),
        ((), "takes a suggestion's id, not None"),
        ((1,), "takes a suggestion's id, not 1"),
        (("s1", 3), "takes an object, not 3"),
        (("s1", {"acceptedLength": 0}), "is a number from 1 on, not 0"),
        (("s1", {"acceptedLength": True}), "is a number from 1 on, not True"),
    ],
)
async def test_what_cannot_be_accepted_is_named(client, arguments, message):
    with pytest.raises(LspError, match=message) as caught:
        await client.command(ACCEPTED, *arguments)
    assert caught.value.code == -32602


async def test_a_suggestion_is_known_until_64_newer_ones_came(client):
    ids = []
    for _ in range(66):
        items = await client_suggestion(client)
        ids += items[0]["command"]["arguments"]
    assert len(set(ids)) == 66
    await client.command(ACCEPTED, ids[2])
    with pytest.raises(LspError, match=ids[1]):
        await client.command(ACCEPTED, ids[1])


async def client_suggestion(client):
    client.open(URI, "x")
    return await client.inline_completion(URI, {"line": 0, "character": 1})


async def test_why_a_suggestion_was_shown(client):
    await suggest(client, "a = 1\nxˇ")
    found = await client.command(EXPLAIN)
    assert "Shown:\n\n```\n<suggestion>\n```" in found["markdown"]
    assert found["explanation"]["trims"] == [
        {"rule": "a model's mark", "removed": "<|endoftext|>", "left": "<suggestion>"}
    ]
    assert (found["explanation"]["line"], found["explanation"]["column"]) == (2, 2)
    saved = Path(found["path"])
    assert saved.stat().st_mode & 0o777 == 0o600  # noqa: ASYNC240 - the test's own wait
    assert json.loads(saved.read_text())["raw"] == "<suggestion><|endoftext|>"  # noqa: ASYNC240
    assert f"--replay {saved}" in found["markdown"]


async def test_the_service_hears_of_languages_before_the_first_keystroke(client, events):
    await events.wait_for("warm up")
    client.open(URI, "x", language_id="lua")
    await events.wait_for("opened lua")


async def test_why_nothing_was_shown(client):
    await suggest(client, "neverˇ")
    found = await client.command(EXPLAIN)
    assert "trimming left nothing" in found["markdown"]


async def test_nothing_to_explain_yet(client):
    with pytest.raises(LspError, match="no suggestion to explain") as caught:
        await client.command(EXPLAIN)
    assert caught.value.code == -32803


async def test_an_explanation_that_cannot_be_saved(client, directory):
    (directory / "s" / "suggestion.json").mkdir(parents=True)
    await suggest(client, "xˇ")
    with pytest.raises(LspError, match=r"cannot be saved to .*suggestion\.json") as caught:
        await client.command(EXPLAIN)
    assert caught.value.code == -32803


async def test_an_item_that_replaces_text_is_filtered_by_it(client):
    entry = {
        "range": {"start": {"line": 0, "character": 2}, "end": {"line": 0, "character": 4}},
        "text": "Format",
    }
    _, items = await suggest(client, "a.foˇ;", selectedCompletionInfo=entry)
    assert items[0]["insertText"] == "Format<suggestion>"
    assert items[0]["filterText"] == "foFormat<suggestion>"
    _, items = await suggest(client, "f( pairˇ)")
    assert (items[0]["insertText"], items[0]["filterText"]) == ("x)", "x))")
    _, items = await suggest(client, "xˇ")
    assert "filterText" not in items[0]

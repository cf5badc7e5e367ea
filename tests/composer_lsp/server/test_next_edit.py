"""The next edit over LSP: as our editors ask for it, and as other plugins do."""

from pathlib import Path
from typing import Any

import pytest

from tests.composer_lsp.server.conftest import Events, StartFake
from tests.composer_lsp.server.test_index import start_window, until, window, workspace
from tests.support.lsp import INVOKED, LspClient, LspError, num_units

__all__ = ["start_window", "window", "workspace"]

URI = "file:///w/a.py"
AREA = "def area(w):\n    return w\n\nprint(area(1))\n"


def place(line: int, character: int) -> dict[str, int]:
    return {"line": line, "character": character}


def span(line: int, start: int, end: int) -> dict[str, Any]:
    return {"start": place(line, start), "end": place(line, end)}


def rename(client: LspClient, new: str = "surface", version: int = 2, uri: str = URI) -> None:
    client.change(uri, version, {"range": span(0, 4, 8), "text": new})


async def ask(
    client: LspClient,
    version: int | None = 2,
    uri: str = URI,
    method: str = "composer/nextEdit",
    **context: Any,
) -> Any:
    document = {"uri": uri} | ({} if version is None else {"version": version})
    params = {"textDocument": document, "position": place(0, 0), "context": context}
    return await client.request(method, params)


async def test_a_name_s_next_use(client: LspClient) -> None:
    client.open(URI, AREA)
    rename(client)
    answer = await ask(client)
    assert answer == {
        "id": answer["id"],
        "kind": "rename",
        "title": "Rename area to surface",
        "textDocument": {"uri": URI, "version": 2},
        "range": span(3, 6, 10),
        "oldText": "area",
        "newText": "surface",
        "command": {
            "title": "Rename area to surface",
            "command": "composer.nextEdit.accepted",
            "arguments": [answer["id"]],
        },
    }


async def test_as_other_plugins_ask(client: LspClient) -> None:
    """sidekick.nvim sends the version beside the position, reads `text`, `range`, `command` and
    `textDocument`, and runs the command once it has applied the edit."""
    client.open(URI, AREA)
    client.notify("textDocument/didFocus", {"textDocument": {"uri": URI}})
    rename(client)
    answer = await ask(client, method="textDocument/copilotInlineEdit", triggerKind=2)
    (edit,) = answer["edits"]
    assert edit["text"] == "surface"
    assert edit["range"] == span(3, 6, 10)
    assert edit["textDocument"] == {"uri": URI, "version": 2}
    client.notify("textDocument/didShowInlineEdit", {"item": {"command": edit["command"]}})
    command = edit["command"]
    assert await client.command(command["command"], *command["arguments"]) == {"known": True}
    assert await client.command(command["command"], *command["arguments"]) == {"known": False}
    status = await client.command("composer.status")
    assert status["nextEdits"] == {"shown": 1, "accepted": 1, "dismissed": 0}


@pytest.mark.parametrize(
    ("method", "nothing"),
    [("composer/nextEdit", None), ("textDocument/copilotInlineEdit", {"edits": []})],
)
async def test_another_version_gets_nothing(client: LspClient, method: str, nothing: Any) -> None:
    client.open(URI, AREA)
    rename(client)
    assert await ask(client, version=1, method=method) == nothing
    assert await ask(client, version=3, method=method) == nothing
    assert await ask(client, version=None, method=method) != nothing


async def test_undo_and_no_edit_give_nothing(client: LspClient) -> None:
    client.open(URI, AREA)
    assert await ask(client, version=1) is None
    rename(client)
    client.change(URI, 3, {"range": span(0, 4, 11), "text": "area"})
    assert await ask(client, version=3) is None


async def test_a_change_ends_the_search(client: LspClient, events: Events) -> None:
    client.open(URI, "def area(w):\n    return w\n\nprint(area(1))  # slow\n")
    client.change(URI, 2, {"range": span(0, 10, 10), "text": ", unit"})
    msg_id = client.begin(
        "composer/nextEdit",
        {"textDocument": {"uri": URI, "version": 2}, "position": place(0, 0)},
    )
    await events.wait_for("infill print(area(1, unit=")
    client.change(URI, 3, {"range": span(1, 0, 0), "text": " "})
    assert await client.answer(msg_id) is None
    await events.wait_for("infill cancelled")


async def test_the_model_writes_what_nobody_knows(client: LspClient, events: Events) -> None:
    client.open(URI, "def area(w):\n    return w\n\nprint(area(1))\n")
    client.change(URI, 2, {"range": span(0, 10, 10), "text": ", unit"})
    answer = await ask(client)
    assert (answer["kind"], answer["newText"]) == ("argument", ", 1")
    assert "infill print(area(1, unit=" in events.all()


async def test_a_refusing_engine_is_told_and_gives_nothing(client: LspClient) -> None:
    client.open(URI, "def area(w):\n    return w\n\nprint(area(1))  # refuse\n")
    client.change(URI, 2, {"range": span(0, 10, 10), "text": ", unit"})
    assert await ask(client) is None
    shown = await client.notification("window/showMessage")
    assert shown["message"] == "the engine refuses: mend it so"


async def test_hidden_files_are_in_no_prompt(client: LspClient, events: Events) -> None:
    secret = "file:///w/.env"
    client.open(secret, "KEY=1\n", language_id="plaintext")
    client.change(secret, 2, {"range": span(0, 4, 5), "text": "hunter2"})
    assert await ask(client, uri=secret, triggerKind=INVOKED) is None
    client.open(URI, "def area(w):\n    return w\n\nprint(area(1))\n")
    client.change(URI, 2, {"range": span(0, 10, 10), "text": ", unit"})
    assert await ask(client) is not None
    told = [event for event in events.all() if event.startswith("diffs")]
    assert "area(w, unit)" in told[0]
    assert "hunter2" not in "".join(events.all())


async def test_nothing_is_proposed_in_hidden_files(client: LspClient) -> None:
    uses = "from a import area\narea(1)\n"
    client.open(URI, AREA)
    rename(client)
    client.open("file:///w/b.py", uses)
    assert await ask(client, uri="file:///w/b.py", version=1) is not None
    client.open("file:///w/.env", uses)
    assert await ask(client, uri="file:///w/.env", version=1) is None


async def test_what_was_dismissed_comes_only_when_asked_for(client: LspClient) -> None:
    client.open(URI, AREA)
    rename(client)
    answer = await ask(client)
    assert await client.command("composer.nextEdit.dismissed", answer["id"]) == {"known": True}
    assert await ask(client) is None
    assert (await ask(client, triggerKind=INVOKED))["kind"] == "rename"


@pytest.mark.parametrize(
    "settings",
    [
        {"nextEdit": {"enabled": False}},
        {"tab": {"enabled": False}},
        {"tab": {"disabledLanguages": ["python"]}},
    ],
)
async def test_off(start_fake: StartFake, settings: Any) -> None:
    async with start_fake() as client:
        client.answers["workspace/configuration"] = lambda params: [settings]
        await client.initialize(initializationOptions=settings)
        client.open(URI, AREA)
        rename(client)
        assert await ask(client) is None
        assert (await ask(client, triggerKind=INVOKED))["kind"] == "rename"


async def test_snoozed(client: LspClient) -> None:
    client.open(URI, AREA)
    rename(client)
    await client.command("composer.snooze", 5)
    assert await ask(client) is None


async def test_a_problem_that_the_client_sends_along(client: LspClient) -> None:
    client.open(URI, "def area(w):\n    return w\n\nx = 1 + area(2)\n")
    client.change(URI, 2, {"range": span(0, 11, 11), "text": " -> str"})
    problem = {"range": span(3, 0, 15), "severity": 1, "message": "area is no number"}
    answer = await ask(client, diagnostics=[problem])
    assert (answer["kind"], answer["newText"]) == ("diagnostic", "1")


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "utf-32"])
async def test_positions_in_every_encoding(start_fake: StartFake, encoding: str) -> None:
    async with start_fake() as client:
        await client.initialize({"general": {"positionEncodings": [encoding]}})
        client.open(URI, 'def area(w):\r\n\treturn w\r\n\r\nx = "😀μ", area(1)\r\n')
        rename(client)
        answer = await ask(client)
        start = num_units('x = "😀μ", ', encoding)
        assert answer["range"] == span(3, start, start + 4)


async def test_several_cursors(client: LspClient) -> None:
    client.open(URI, "def area(w): pass\n\narea(1)\nx = area(2)\n")
    client.change(
        URI,
        2,
        {"range": span(2, 0, 4), "text": "size"},
        {"range": span(0, 4, 8), "text": "size"},
    )
    answer = await ask(client)
    assert (answer["range"], answer["newText"]) == (span(3, 4, 8), "size")


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({}, "textDocument.uri is missing"),
        ({"textDocument": {"uri": "file:///no"}}, "is not open"),
        ({"textDocument": {"uri": URI, "version": "1"}}, "textDocument.version is a number"),
        ({"textDocument": {"uri": URI}, "position": {"line": -1}}, "numbers from 0 on"),
        (
            {
                "textDocument": {"uri": URI},
                "position": {"line": 0, "character": 0},
                "context": {"diagnostics": [1]},
            },
            "no diagnostic of LSP",
        ),
    ],
)
async def test_errors_are_named(client: LspClient, params: Any, message: str) -> None:
    client.open(URI, AREA)
    for method in ("composer/nextEdit", "textDocument/copilotInlineEdit"):
        with pytest.raises(LspError, match=message) as raised:
            await client.request(method, params)
        assert raised.value.code == -32602


@pytest.mark.parametrize("arguments", [[], [1], ["a", "b"]])
async def test_commands_say_what_they_take(client: LspClient, arguments: list[Any]) -> None:
    with pytest.raises(LspError, match="takes the id of a next edit"):
        await client.command("composer.nextEdit.dismissed", *arguments)


async def test_other_files_by_the_index(window: LspClient, workspace: Path) -> None:
    shop = workspace / "shop.py"
    till = workspace / "till.py"
    till.write_text("# 😀\nfrom shop import Basket; print('😀', Basket())\n")
    (workspace / ".env").write_text("Basket = 1\n")
    window.notify(
        "workspace/didChangeWatchedFiles", {"changes": [{"uri": till.as_uri(), "type": 1}]}
    )
    uri = shop.as_uri()
    window.open(uri, shop.read_text())
    window.change(uri, 2, {"range": span(0, 6, 12), "text": "Trolley"})

    async def answer() -> Any:
        return await ask(window, uri=uri)

    await until(answer)
    found = await answer()
    assert found["textDocument"] == {"uri": till.as_uri(), "version": None}
    assert found["range"] == span(1, 17, 23)
    inline = await ask(window, uri=uri, method="textDocument/copilotInlineEdit")
    assert inline == {"edits": []}

    window.open(till.as_uri(), till.read_text(), version=7)
    found = await ask(window, uri=till.as_uri(), version=7)
    assert found["textDocument"] == {"uri": till.as_uri(), "version": 7}


async def test_a_position_beyond_all_documents(client: LspClient) -> None:
    client.open(URI, AREA)
    rename(client)
    document = {"uri": URI, "version": 2}
    params = {"textDocument": document, "position": place(2**40, 2**40)}
    assert (await client.request("composer/nextEdit", params))["kind"] == "rename"


@pytest.mark.parametrize("is_late", [False, True])
async def test_in_a_notebook_s_cell(client: LspClient, is_late: bool) -> None:
    """Of a notebook's beginning, or one that was added to it."""
    notebook, uri = "file:///w/n.ipynb", "vscode-notebook-cell:/w/n.ipynb#a"
    cell = {"kind": 2, "document": uri}
    texts = [{"uri": uri, "languageId": "python", "version": 1, "text": AREA}]
    client.notify(
        "notebookDocument/didOpen",
        {
            "notebookDocument": {
                "uri": notebook,
                "notebookType": "jupyter-notebook",
                "version": 1,
                "cells": [] if is_late else [cell],
            },
            "cellTextDocuments": [] if is_late else texts,
        },
    )

    def change(version: int, **cells: Any) -> None:
        identifier = {"uri": notebook, "version": version}
        client.notify(
            "notebookDocument/didChange",
            {"notebookDocument": identifier, "change": {"cells": cells}},
        )

    if is_late:
        array = {"start": 0, "deleteCount": 0, "cells": [cell]}
        change(2, structure={"array": array, "didOpen": texts})
    renamed = [{"range": span(0, 4, 8), "text": "surface"}]
    change(3, textContent=[{"document": {"uri": uri, "version": 2}, "changes": renamed}])
    assert (await ask(client, uri=uri))["range"] == span(3, 6, 10)

"""An accepted suggestion's imports, over LSP and with the index's real worker."""

from pathlib import Path
from typing import Any

import pytest

from tests.composer_lsp.server.conftest import StartFake
from tests.composer_lsp.server.test_index import folders, symbols, until
from tests.composer_lsp.server.test_index import start_window as start_window  # a fixture
from tests.support.lsp import CAPABILITIES, LspClient

TEXT = '"""Till."""\r\n\r\nimport os\r\n\r\n\r\nsell'
APPLIES = {
    "workspace": {
        **CAPABILITIES["workspace"],
        "applyEdit": True,
        "workspaceEdit": {"documentChanges": True},
    }
}


@pytest.fixture
def workspace(directory: Path) -> Path:
    root = directory / "shop"
    root.mkdir()
    (root / "umbrella.py").write_text("def sell_umbrella():\n    pass\n")
    return root


async def accept(client: LspClient, uri: str) -> None:
    """Accept the suggestion at the end, as an editor does it."""
    client.open(uri, TEXT)
    place = {"line": 5, "character": 4}
    (item,) = await client.inline_completion(uri, place)
    span = {"start": place, "end": place}
    client.change(uri, 2, {"range": span, "text": item["insertText"]})
    await client.command(item["command"]["command"], *item["command"]["arguments"])


async def opened(client: LspClient, workspace: Path, **options: Any) -> str:
    await client.initialize(
        {**CAPABILITIES, **APPLIES},
        workspaceFolders=folders(workspace),
        initializationOptions=options,
    )
    await until(lambda: symbols(client, "sell_umbrella"))
    return (workspace / "till.py").as_uri()


def change(params: Any) -> tuple[int, Any]:
    (edit,) = params["edit"]["documentChanges"]
    return edit["textDocument"]["version"], edit["edits"]


async def test_the_import_is_added_behind_the_others(start_window: StartFake, workspace: Path):
    async with start_window() as client:
        uri = await opened(client, workspace)
        client.answers["workspace/applyEdit"] = lambda params: {"applied": True}
        await accept(client, uri)
        params = await client.notification("workspace/applyEdit")
        version, edits = change(params)
        place = {"line": 2, "character": 9}
        text = "\r\n\r\nfrom umbrella import sell_umbrella"
        assert edits == [{"range": {"start": place, "end": place}, "newText": text}]
        assert version == 2
        assert params["label"] == "Import sell_umbrella"


async def test_an_edit_that_came_too_late_is_made_for_the_text_of_now(
    start_window: StartFake, workspace: Path
):
    async with start_window() as client:
        uri = await opened(client, workspace)
        versions: list[int] = []

        def answer(params: Any) -> Any:
            versions.append(change(params)[0])
            if len(versions) == 1:  # The user typed on.
                start = {"line": 0, "character": 0}
                client.change(uri, 3, {"range": {"start": start, "end": start}, "text": "#\r\n"})
            return {"applied": len(versions) == 2}

        client.answers["workspace/applyEdit"] = answer
        await accept(client, uri)
        params = await client.notification(
            "workspace/applyEdit", lambda params: change(params)[0] == 3
        )
        assert change(params)[1][0]["range"]["start"] == {"line": 3, "character": 9}
        assert versions == [2, 3]


async def test_none_is_added_where_the_setting_says_so(start_window: StartFake, workspace: Path):
    async with start_window() as client:
        uri = await opened(client, workspace, tab={"autoImport": False})
        await accept(client, uri)
        await client.shut_down()
        assert client.all("workspace/applyEdit") == []

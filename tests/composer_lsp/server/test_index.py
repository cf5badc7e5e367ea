"""The workspace's index over LSP, with its real worker."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.composer_lsp.server.conftest import StartFake
from tests.support.lsp import LIMIT_S, LspClient, LspError
from tests.support.workers import workers_of

SHOP = "class Basket:\n    def total_price(self):\n        return sum(self.articles)\n"
UMBRELLA = "def sell_umbrella():\n    pass\n"


@pytest.fixture
def workspace(directory: Path) -> Path:
    root = directory / "naïve shop"
    root.mkdir()
    (root / "shop.py").write_text(SHOP)
    (root / ".env").write_text("UMBRELLA_TOKEN=1\n")
    return root


def folders(*roots: Path) -> list[dict[str, str]]:
    return [{"uri": root.as_uri(), "name": root.name} for root in roots]


@pytest.fixture
async def start_window(start_fake: StartFake) -> AsyncIterator[StartFake]:
    """Starts the server. When a test ends no worker writes any more."""
    started: list[psutil.Process] = []

    @asynccontextmanager
    async def start() -> AsyncIterator[LspClient]:
        async with start_fake() as client:
            yield client
            if client.process.returncode is None:
                started.extend(workers(client))

    yield start
    await asyncio.to_thread(psutil.wait_procs, started, LIMIT_S)


@pytest.fixture
async def window(start_window: StartFake, workspace: Path) -> AsyncIterator[LspClient]:
    async with start_window() as client:
        await client.initialize(workspaceFolders=folders(workspace))
        await until(lambda: symbols(client, "total_price"))
        yield client


async def symbols(client: LspClient, query: str) -> list[dict[str, Any]]:
    return await client.request("workspace/symbol", {"query": query})


async def until(ask: Callable[[], Awaitable[object]], *, holds: bool = True) -> None:
    async with asyncio.timeout(LIMIT_S):
        while bool(await ask()) != holds:
            await asyncio.sleep(0.05)


async def test_a_symbol_of_the_workspace(window: LspClient, workspace: Path):
    (found,) = await symbols(window, "total_price")
    assert found == {
        "name": "total_price",
        "kind": 6,
        "containerName": "Basket",
        "location": {
            "uri": (workspace / "shop.py").as_uri(),
            "range": {
                "start": {"line": 1, "character": 0},
                "end": {"line": 3, "character": 0},
            },
        },
    }


async def test_searching(window: LspClient, workspace: Path):
    found = await window.command("composer.index.search", "sum of the articles")
    (best, *_) = found["results"]
    assert (best["root"], best["path"], best["start_line"]) == (str(workspace), "shop.py", 1)
    found = await window.command(
        "composer.index.search", "sum of the articles", {"limit": 3, "glob": "*.js"}
    )
    assert found["results"] == []


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ([], "takes a query"),
        ([" "], "takes a query"),
        ([5], "takes a query"),
        (["a", []], "takes an object"),
        (["a", {"limit": 0}], "from 1 to 100"),
        (["a", {"limit": "9"}], "from 1 to 100"),
        (["a", {"limit": True}], "from 1 to 100, not True"),
        (["a", {"glob": 5}], "glob is a string"),
        (["a", {"glob": "[z-a]"}], r"\[z-a\]' is no glob"),
        (["a", {"language": "pyhton"}], "'pyhton' is no language .* perhaps python"),
    ],
)
async def test_bad_arguments_are_named(window: LspClient, arguments: list[Any], told: str):
    with pytest.raises(LspError, match=told):
        await window.command("composer.index.search", *arguments)


async def test_unsaved_text_is_the_truth(window: LspClient, workspace: Path):
    uri = (workspace / "shop.py").as_uri()
    window.open(uri, SHOP)
    window.change(uri, 2, {"text": UMBRELLA})
    await until(lambda: symbols(window, "sell_umbrella"))
    await until(lambda: symbols(window, "total_price"), holds=False)
    window.notify("textDocument/didClose", {"textDocument": {"uri": uri}})
    await until(lambda: symbols(window, "total_price"))


async def test_an_unsaved_buffer_that_an_editor_brings_back(window: LspClient, workspace: Path):
    window.open((workspace / "shop.py").as_uri(), UMBRELLA)
    await until(lambda: symbols(window, "sell_umbrella"))


async def test_saving(window: LspClient, workspace: Path):
    uri = (workspace / "shop.py").as_uri()
    window.open(uri, SHOP)
    window.change(uri, 2, {"text": UMBRELLA})
    (workspace / "shop.py").write_text(UMBRELLA)
    window.notify("textDocument/didSave", {"textDocument": {"uri": uri}})
    await until(lambda: symbols(window, "sell_umbrella"))


async def test_every_folder_and_no_other(start_window, workspace: Path, directory: Path):
    other = directory / "other"
    other.mkdir()
    (other / "weather.py").write_text("def fetch_forecast():\n    pass\n")
    elsewhere = {"uri": "vscode-remote://ssh-remote+host/etc", "name": "remote"}
    missing = {"uri": "file:///never/there", "name": "missing"}
    async with start_window() as client:
        await client.initialize(workspaceFolders=[*folders(workspace, other), elsewhere, missing])
        await until(lambda: symbols(client, "fetch_forecast"))
        await until(lambda: symbols(client, "total_price"))
        status = await client.command("composer.index.status")
        assert [each["root"] for each in status] == [str(workspace), str(other)]
        client.notify(
            "workspace/didChangeWorkspaceFolders",
            {"event": {"added": [], "removed": folders(other)}},
        )
        await until(lambda: symbols(client, "fetch_forecast"), holds=False)


async def test_a_new_ignore_file(window: LspClient, workspace: Path):
    (workspace / ".composerignore").write_text("shop.py\n")
    await until(lambda: symbols(window, "total_price"), holds=False)
    (workspace / ".composerignore").unlink()
    await until(lambda: symbols(window, "total_price"))


async def test_pausing(window: LspClient):
    assert await window.command("composer.index.pause") == {"paused": True}
    assert await window.command("composer.index.pause", True) == {"paused": True}
    (status,) = await window.command("composer.index.status")
    assert status["paused"]
    assert await window.command("composer.index.pause") == {"paused": False}
    with pytest.raises(LspError, match="true or false"):
        await window.command("composer.index.pause", "yes")


async def test_rebuilding(window: LspClient):
    await window.command("composer.index.rebuild")
    await until(lambda: symbols(window, "total_price"))


@pytest.mark.parametrize(
    "settings", [{"enabled": False}, {"workspaceSymbols": False}], ids=["off", "no symbols"]
)
async def test_settings(start_window, workspace: Path, settings: dict[str, Any]):
    async with start_window() as client:
        await client.initialize(
            workspaceFolders=folders(workspace), initializationOptions={"index": settings}
        )
        assert await symbols(client, "total_price") == []
        if settings == {"enabled": False}:
            with pytest.raises(LspError, match="composer.index.enabled"):
                await client.command("composer.index.search", "total price")
            assert not workers(client)


def add_modules(folder: Path, number: int = 400) -> None:
    for each in range(number):
        (folder / f"module_{each}.py").write_text(f"def function_{each}():\n    pass\n")


async def begun_indexing(client: LspClient) -> Any:
    """The progress token."""
    begun = await client.notification(
        "$/progress", lambda params: params["value"].get("title") == "Indexing"
    )
    assert begun["value"]["cancellable"]
    return begun["token"]


async def ended(client: LspClient, token: Any) -> None:
    await client.notification(
        "$/progress",
        lambda params: params["token"] == token and params["value"]["kind"] == "end",
    )


async def test_cancelling_pauses_and_offers_to_go_on(start_window: StartFake, workspace: Path):
    add_modules(workspace)
    asked = asyncio.Event()

    def go_on(params: Any) -> Any:
        asked.set()
        assert "composer.index.pause" in params["message"]
        return params["actions"][0]

    async with start_window() as client:
        client.answers["window/showMessageRequest"] = go_on
        await client.initialize(workspaceFolders=folders(workspace))
        token = await begun_indexing(client)
        client.notify("window/workDoneProgress/cancel", {"token": token})
        await ended(client, token)
        await asked.wait()
        await until(lambda: symbols(client, "function_399"))


async def test_a_client_without_buttons_is_told_how_to_go_on(
    start_window: StartFake, workspace: Path
):
    add_modules(workspace)
    async with start_window() as client:
        await client.initialize(
            workspaceFolders=folders(workspace), capabilities={"window": {"workDoneProgress": True}}
        )
        token = await begun_indexing(client)
        client.notify("window/workDoneProgress/cancel", {"token": token})
        await client.notification(
            "window/showMessage", lambda params: "composer.index.pause" in params["message"]
        )
        (status,) = await client.command("composer.index.status")
        assert status["paused"]


async def test_a_folder_that_is_closed_while_it_is_indexed(
    start_window: StartFake, workspace: Path, directory: Path
):
    other = directory / "other"
    other.mkdir()
    add_modules(other, 1500)
    async with start_window() as client:
        await client.initialize(workspaceFolders=folders(workspace, other))
        token = await begun_indexing(client)
        client.notify(
            "workspace/didChangeWorkspaceFolders",
            {"event": {"added": [], "removed": folders(other)}},
        )
        await ended(client, token)
        await until(lambda: symbols(client, "total_price"))


async def test_a_folder_that_comes_during_a_pause_waits(
    window: LspClient, workspace: Path, directory: Path
):
    other = directory / "other"
    other.mkdir()
    await window.command("composer.index.pause", True)
    window.notify(
        "workspace/didChangeWorkspaceFolders", {"event": {"added": folders(other), "removed": []}}
    )
    status = await window.command("composer.index.status")
    assert [each["paused"] for each in status] == [True, True]


async def test_a_change_that_no_event_told_is_found_by_a_reconcile(
    window: LspClient, workspace: Path, directory: Path
):
    # Written by a name outside of the folder, which nobody watches.
    elsewhere = directory / "elsewhere.py"
    elsewhere.hardlink_to(workspace / "shop.py")
    elsewhere.write_text(UMBRELLA)
    (workspace / "later.py").write_text("def rent_bicycle():\n    pass\n")
    await until(lambda: symbols(window, "rent_bicycle"))
    assert not await symbols(window, "sell_umbrella")
    await window.command("composer.index.reconcile")
    await until(lambda: symbols(window, "sell_umbrella"))


async def test_the_worker_leaves_with_the_server(window: LspClient):
    (worker,) = workers(window)
    window.process.kill()
    gone, _ = await asyncio.to_thread(psutil.wait_procs, [worker], LIMIT_S)
    assert gone


def workers(client: LspClient) -> list[psutil.Process]:
    return workers_of(psutil.Process(client.process.pid))

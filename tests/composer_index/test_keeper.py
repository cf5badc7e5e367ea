"""What keeps a root current, when the store refuses."""

import asyncio
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from composer_index.indexing.indexer import Indexer
from composer_index.root import RootIndex
from composer_index.store.errors import StoreFullError
from composer_index.worker import keeper
from composer_index.worker.keeper import Keeper

LIMIT_S = 60


async def test_a_full_disk_loses_no_file(
    make_index: Callable[[Path], RootIndex], workspace: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(keeper, "FULL_S", 0.1)
    step = Indexer.step
    is_full = False
    refused = asyncio.Event()
    loop = asyncio.get_running_loop()

    def sometimes_full_step(self: Indexer) -> bool:
        if is_full:
            self._urgent.clear()  # pyright: ignore[reportPrivateUsage] - as when a commit fails
            loop.call_soon_threadsafe(refused.set)
            raise StoreFullError("storing files: the disk is full")
        return step(self)

    monkeypatch.setattr(Indexer, "step", sometimes_full_step)
    index = make_index(workspace)
    with ThreadPoolExecutor(1) as writing:
        kept = Keeper(index, writing, lambda method, params: None)
        try:
            async with asyncio.timeout(LIMIT_S):
                while not index.definitions("total_price"):
                    await asyncio.sleep(0.02)
                is_full = True
                (workspace / "new.py").write_text("def rent_bicycle():\n    pass\n")
                await refused.wait()
                is_full = False
                while not index.definitions("rent_bicycle"):
                    await asyncio.sleep(0.02)
        finally:
            await kept.close()


async def test_a_bug_of_ours_is_told(
    make_index: Callable[[Path], RootIndex], workspace: Path, monkeypatch: pytest.MonkeyPatch
):
    def broken_step(self: Indexer) -> bool:
        raise ZeroDivisionError("a bug")

    monkeypatch.setattr(Indexer, "step", broken_step)
    told: asyncio.Queue[Mapping[str, Any]] = asyncio.Queue()

    with ThreadPoolExecutor(1) as writing:
        kept = Keeper(
            make_index(workspace), writing, lambda method, params: told.put_nowait(params)
        )
        async with asyncio.timeout(LIMIT_S):
            message = (await told.get())["message"]
            assert await told.get() == {"done": 0, "left": 0}
        await kept.close()
    assert "is not kept current any more: ZeroDivisionError('a bug')" in message


async def test_a_store_damaged_under_a_search_is_built_again_with_nothing_else_happening(
    make_index: Callable[[Path], RootIndex], workspace: Path
):
    index = make_index(workspace)
    with ThreadPoolExecutor(1) as writing:
        kept = Keeper(index, writing, lambda method, params: None)
        try:
            async with asyncio.timeout(LIMIT_S):
                while not (kept.is_idle and index.definitions("total_price")):
                    await asyncio.sleep(0.02)
                for file in list(index.location.rglob("*.lance")):
                    if file.is_file():
                        file.unlink()
                index.search("total price")
                while not (kept.is_idle and index.definitions("total_price")):
                    await asyncio.sleep(0.02)
        finally:
            await kept.close()


async def test_unsaved_text_obeys_a_changed_ignore_file_while_indexing_is_paused(
    make_index: Callable[[Path], RootIndex], workspace: Path
):
    index = make_index(workspace)
    with ThreadPoolExecutor(1) as writing:
        kept = Keeper(index, writing, lambda method, params: None)
        try:
            async with asyncio.timeout(LIMIT_S):
                while not kept.is_idle:
                    await asyncio.sleep(0.02)
                kept.pause(paused=True)
                index.set_buffer("new.py", "def sell_umbrella():\n    pass\n")
                assert index.symbols("umbrella")
                (workspace / ".composerignore").write_text("new.py\n")
                while index.symbols("umbrella"):
                    await asyncio.sleep(0.02)
                (workspace / ".composerignore").unlink()
                while not index.symbols("umbrella"):
                    await asyncio.sleep(0.02)
        finally:
            await kept.close()

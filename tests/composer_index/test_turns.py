"""Questions go first, and indexing goes on all the same."""

import asyncio
import subprocess
import sys
import threading
from collections.abc import AsyncGenerator, Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from composer_index.files.changes import Batch
from composer_index.root import RootIndex
from composer_index.store.errors import StoreError
from composer_index.store.records import FoundDefinition
from composer_index.turns import Turns
from composer_index.worker import keeper, main
from composer_index.worker.keeper import Keeper
from composer_index.worker.main import Worker

LIMIT_S = 60
HEAD_START_S = 0.2
"""For whoever should wait and does not."""


def started(target: Callable[[], object]) -> threading.Thread:
    thread = threading.Thread(target=target, daemon=True)
    thread.start()
    return thread


def test_indexing_waits_for_the_answer():
    turns = Turns()
    order: list[str] = []

    def index() -> None:
        turns.give_way()
        order.append("indexed")

    with turns.asking():
        with turns.asking():
            indexing = started(index)
            indexing.join(HEAD_START_S)
        indexing.join(HEAD_START_S)
        order.append("answered")
    indexing.join(LIMIT_S)
    assert order == ["answered", "indexed"]


def test_questions_without_an_end_leave_time_for_indexing():
    turns = Turns(max_wait_s=0.2)

    def index() -> None:
        for _ in range(1000):
            turns.give_way()

    with turns.asking():
        indexing = started(index)
        indexing.join(LIMIT_S)
        assert not indexing.is_alive(), "it would take 200 s if each piece waited"


def test_between_files_others_go_first_but_a_changed_file_goes_at_once(
    workspace: Path, tmp_path: Path
):
    waiting: list[list[str]] = []

    def give_way() -> None:
        waiting.append(index.waiting)

    index = RootIndex(workspace, cache_dir=tmp_path / "cache", give_way=give_way)
    index.open()
    try:
        assert len(waiting) > 1, "the imports come in pieces"
        del waiting[:]
        index.plan()
        assert waiting == [[]]
        del waiting[:]
        index.plan()
        assert waiting == [], "what became hidden has to go at once"
        index.step()
        assert waiting == [["shop.py", "weather.py"]] * 2
        del waiting[:]
        index.note(Batch(paths=frozenset({"shop.py"})))
        index.step()
        assert waiting == [], "what was saved as well"
    finally:
        index.close()


def test_a_worker_that_starts_imports_nothing_slow():
    code = "import sys, composer_index.worker.main; print(*sys.modules)"
    command = [sys.executable, "-P", "-c", code]
    found = subprocess.run(command, capture_output=True, check=True, text=True).stdout.split()
    assert not {"lancedb", "pyarrow", "pydantic", "httpx", "watchdog"}.intersection(found)


class _Channel:
    """Stands in for the one on the standard streams."""

    def __init__(self, handlers: object) -> None: ...

    def tell(self, method: str, params: object) -> None: ...


async def test_a_question_is_answered_before_the_store_is_opened(
    workspace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    order: list[str] = []
    is_open = threading.Event()

    def definitions(self: RootIndex, name: str) -> list[FoundDefinition]:
        is_open.wait(1)
        order.append("answered")
        return []

    def load(self: RootIndex) -> None:
        self._give_way()  # pyright: ignore[reportPrivateUsage]

    def open_store(self: RootIndex) -> None:
        order.append("opened")
        is_open.set()
        raise StoreError("that is enough")

    monkeypatch.setattr(main, "Channel", _Channel)
    monkeypatch.setattr(RootIndex, "definitions", definitions)
    monkeypatch.setattr(RootIndex, "load", load)
    monkeypatch.setattr(RootIndex, "open", open_store)
    worker = Worker(tmp_path / "cache")
    root = {"root": str(workspace)}
    await worker.open(root)
    await worker.definitions({"name": "anything"})
    while not is_open.is_set():
        await worker.status({})
    await worker.close(root)
    assert order == ["answered", "opened"]


async def test_folders_are_watched_once_the_imports_are_done(
    make_index: Callable[[Path], RootIndex], workspace: Path, monkeypatch: pytest.MonkeyPatch
):
    order: list[str] = []
    is_watching = threading.Event()

    def load(self: RootIndex) -> None:
        if "loaded" not in order:
            is_watching.wait(HEAD_START_S)
            order.append("loaded")

    async def batches(rules: object) -> AsyncGenerator[Batch]:
        order.append("watching")
        is_watching.set()
        yield Batch()
        await asyncio.Event().wait()

    monkeypatch.setattr(RootIndex, "load", load)
    monkeypatch.setattr(keeper, "batches", batches)
    with ThreadPoolExecutor(1) as writing:
        kept = Keeper(make_index(workspace), writing, lambda method, params: None)
        async with asyncio.timeout(LIMIT_S):
            while not is_watching.is_set() or "loaded" not in order:
                await asyncio.sleep(0.02)
        await kept.close()
    assert order == ["loaded", "watching"]

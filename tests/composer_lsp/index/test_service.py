"""One window's index with the worker that is shipped, in a small workspace."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import psutil
import pytest

from composer_lsp.config import EngineSettings, IndexSettings
from composer_lsp.index import service as service_module
from composer_lsp.index.client import WorkerError
from composer_lsp.index.service import IndexService
from tests.support.workers import workers_of

LIMIT_S = 120


@dataclass
class Window:
    """Plays the window that the service belongs to."""

    roots: list[str]
    index_settings: IndexSettings = field(default_factory=IndexSettings)
    engine_settings: EngineSettings = field(default_factory=EngineSettings)
    messages: list[str] = field(default_factory=list[str])
    progress: "asyncio.Queue[tuple[int, int]]" = field(default_factory=asyncio.Queue)

    def index_roots(self) -> Sequence[str]:
        return self.roots

    def on_index_progress(self, root: str, done: int, left: int) -> None:
        self.progress.put_nowait((done, left))

    def on_index_message(self, text: str) -> None:
        self.messages.append(text)


@pytest.fixture
def roots(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Two folders, one about a shop and one about the weather."""
    for kind in ("CACHE", "STATE"):
        monkeypatch.setenv(f"COMPOSER_{kind}_DIR", str(tmp_path / kind.lower()))
    texts = {
        "shop": "def total_price(articles):\n    return sum(a.price for a in articles)\n",
        "weather": "def fetch_forecast(city):\n    return service.get(city)\n",
    }
    for name, text in texts.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "main.py").write_text(text)
    return [str(tmp_path / name) for name in texts]


@asynccontextmanager
async def service_of(window: Window) -> AsyncGenerator[IndexService]:
    service = IndexService(window)
    try:
        async with asyncio.timeout(LIMIT_S):
            await service.refresh()
            yield service
    finally:
        await service.close()


def write(*path: str, text: str) -> str:
    Path(*path).write_text(text)
    return str(Path(*path))


def remove(path: str) -> None:
    Path(path).unlink()


async def until_found(service: IndexService, name: str, *, is_there: bool = True) -> None:
    """Until the index knows a symbol, or does not."""
    while bool(await service.symbols(name)) != is_there:
        await asyncio.sleep(0.05)


async def until_ready(service: IndexService, num_roots: int) -> None:
    while True:
        status = await service.status()
        ready = [each for each in status if each["state"] == "ready" and not each["num_waiting"]]
        if len(ready) == num_roots:
            return
        await asyncio.sleep(0.05)


def worker() -> psutil.Process:
    (process,) = workers_of(psutil.Process())
    return process


async def test_every_folder_is_indexed(roots: list[str]):
    window = Window(roots)
    async with service_of(window) as service:
        await until_ready(service, 2)
        found = await service.search("city forecast")
        assert found["results"][0]["root"] == roots[1]
        assert found["states"] == dict.fromkeys(roots, "ready")
        assert await service.symbols("total_price")
        assert window.progress.get_nowait()
    assert window.messages == []


async def test_an_answer_comes_at_once(roots: list[str]):
    async with service_of(Window(roots)) as service:
        found = await service.search("total price")
        assert found["results"][0]["path"] == "main.py"


async def test_folders_come_and_go(roots: list[str]):
    window = Window(roots[:1])
    async with service_of(window) as service:
        await until_found(service, "total_price")
        assert not await service.symbols("fetch_forecast")
        window.roots = roots[1:]
        await service.refresh()
        await until_found(service, "fetch_forecast")
        assert not await service.symbols("total_price")


async def test_files_that_change_are_noticed(roots: list[str]):
    async with service_of(Window(roots)) as service:
        await until_ready(service, 2)
        path = write(roots[0], "main.py", text="def sell_umbrella():\n    pass\n")
        await until_found(service, "sell_umbrella")
        await until_found(service, "total_price", is_there=False)
        remove(path)
        await until_found(service, "sell_umbrella", is_there=False)


async def test_a_hint_of_the_client_is_enough(roots: list[str]):
    async with service_of(Window(roots)) as service:
        await until_ready(service, 2)
        path = write(roots[0], "new.py", text="def sell_umbrella():\n    pass\n")
        service.files_changed([path])
        await until_found(service, "sell_umbrella")


async def test_unsaved_text_until_it_is_saved_or_closed(roots: list[str]):
    path = str(Path(roots[0], "main.py"))
    async with service_of(Window(roots)) as service:
        await until_found(service, "total_price")
        service.document_changed(path, lambda: "def sell_umbrella():\n    pass\n")
        await until_found(service, "sell_umbrella")
        await until_found(service, "total_price", is_there=False)
        service.document_closed(path)
        await until_found(service, "total_price")
        service.document_changed(path, lambda: "def rent_bicycle():\n    pass\n")
        write(path, text="def rent_bicycle():\n    pass\n")
        service.document_saved(path)
        await until_found(service, "rent_bicycle")


async def test_paused_and_gone_on(roots: list[str]):
    async with service_of(Window(roots)) as service:
        await until_ready(service, 2)
        service.pause(paused=True)
        assert [each["paused"] for each in await service.status()] == [True, True]
        path = write(roots[0], "new.py", text="def sell_umbrella():\n    pass\n")
        service.files_changed([path])
        assert not await service.symbols("sell_umbrella")
        service.pause(paused=False)
        await until_found(service, "sell_umbrella")


async def test_what_belongs_to_a_place(roots: list[str]):
    text = "from main import total_price\n\n\ndef pay(basket):\n    return total_price(basket)\n"
    path = write(roots[0], "pay.py", text=text)
    async with service_of(Window(roots)) as service:
        await until_ready(service, 2)
        (found, *_) = await service.related(path, 5)
        assert (found["path"], found["why"][0]) == ("main.py", "import")


async def test_rebuilding(roots: list[str]):
    async with service_of(Window(roots)) as service:
        await until_ready(service, 2)
        await service.rebuild()
        await until_found(service, "total_price")


async def test_rebuilding_before_the_index_is_there(roots: list[str]):
    async with service_of(Window(roots)) as service:
        await service.rebuild()
        await until_found(service, "total_price")


async def test_rebuilding_in_a_window_that_does_not_write(roots: list[str]):
    async with service_of(Window(roots[:1])) as one:
        await until_found(one, "total_price")
        async with service_of(Window(roots[:1])) as other:
            await until_found(other, "total_price")
            with pytest.raises(WorkerError, match="^another window writes this workspace's index"):
                await other.rebuild()
            assert await one.symbols("total_price")


async def test_a_killed_worker_is_replaced_and_knows_the_window(roots: list[str]):
    path = str(Path(roots[0], "main.py"))
    async with service_of(Window(roots)) as service:
        await until_ready(service, 2)
        service.document_changed(path, lambda: "def sell_umbrella():\n    pass\n")
        await until_found(service, "sell_umbrella")
        first = worker()
        os.kill(first.pid, signal.SIGKILL)
        while True:
            try:
                if await service.symbols("sell_umbrella") and await service.symbols(
                    "fetch_forecast"
                ):
                    break
            except WorkerError:
                pass
            await asyncio.sleep(0.05)
        assert worker().pid != first.pid


async def test_two_windows_of_one_folder(roots: list[str]):
    async with service_of(Window(roots[:1])) as one, service_of(Window(roots[:1])) as other:
        await until_found(one, "total_price")
        await until_found(other, "total_price")
        write(roots[0], "new.py", text="def sell_umbrella():\n    pass\n")
        await until_found(one, "sell_umbrella")
        await until_found(other, "sell_umbrella")
        states = [(await each.status())[0]["is_writer"] for each in (one, other)]
        assert sorted(states) == [False, True]


@pytest.mark.parametrize(
    ("settings", "roots_of_window", "told"),
    [
        pytest.param(IndexSettings(enabled=False), ["/tmp"], "composer.index.enabled", id="off"),
        pytest.param(IndexSettings(), [], "no folder open", id="no folder"),
        pytest.param(IndexSettings(), ["/not/there"], "/not/there is gone", id="folder away"),
    ],
)
async def test_nothing_to_index_says_why(
    roots: list[str], settings: IndexSettings, roots_of_window: list[str], told: str
):
    window = Window(roots_of_window, index_settings=settings)
    async with service_of(window) as service:
        with pytest.raises(WorkerError, match=told):
            await service.search("anything")
        assert not workers_of(psutil.Process())


COUNTING_WORKER = """
import asyncio
from composer_index.worker.channel import Channel

num_reconciled = 0

async def open(params):
    pass

async def reconcile(params):
    global num_reconciled
    num_reconciled += 1

async def status(params):
    return [num_reconciled]

asyncio.run(Channel({each.__name__: each for each in (open, reconcile, status)}).run())
"""


@pytest.mark.parametrize(("pause_s", "num_reconciled"), [(600.0, 1), (0.01, 2)])
async def test_of_many_calls_to_reconcile_the_first_and_the_last_take_effect(
    roots: list[str], monkeypatch: pytest.MonkeyPatch, pause_s: float, num_reconciled: int
):
    monkeypatch.setattr(service_module, "RECONCILE_S", pause_s)
    command = [sys.executable, "-c", COUNTING_WORKER]
    service = IndexService(Window(roots), command=lambda: command)
    async with asyncio.timeout(LIMIT_S):
        await service.refresh()
        for _ in range(5):
            service.reconcile()
        while await service.status() != [num_reconciled]:
            await asyncio.sleep(0.01)
        assert await service.status() == [num_reconciled]
        await service.close()


async def test_the_worker_leaves_with_its_window(roots: list[str]):
    async with service_of(Window(roots)) as service:
        await service.status()
        process = worker()
    assert not process.is_running()

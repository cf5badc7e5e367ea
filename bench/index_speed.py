"""The index of a real tree in time: the first answer, those while it is built, the whole, a saved
file, a changed ignore file, a query; and what it costs a keystroke meanwhile. The tree is Django's
source distribution."""

import asyncio
import os
import shutil
import tempfile
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from itertools import cycle
from pathlib import Path

import psutil

from bench.corpora import source_distribution
from bench.engines import scripted_engine
from bench.keystroke import keystroke_times, write_script
from bench.measure import p50, p90, row
from composer_index.root import RootIndex
from composer_lsp.config import EngineSettings, IndexSettings
from composer_lsp.index.service import IndexService
from tests.support.lsp import start_server

QUERIES = (
    "where are redirects followed",
    "parse the date of an HTTP header",
    "escape special characters in HTML",
    "class based view that renders a template",
    "cache backend that stores in the database",
)
NUM_ROUNDS = 20
NUM_SAVES = 15
SAVED = "django/bench.py"
INTERVAL_S = 0.005
ASKED_EVERY_S = 0.5


class _Window:
    """What the service needs of a window."""

    def __init__(self, root: Path) -> None:
        self.index_settings = IndexSettings()
        self.engine_settings = EngineSettings()
        self._root = str(root)

    def index_roots(self) -> list[str]:
        return [self._root]

    def on_index_progress(self, root: str, done: int, left: int) -> None: ...

    def on_index_message(self, text: str) -> None:
        print(text)


async def run() -> None:
    with tempfile.TemporaryDirectory(prefix="c-") as folder:
        tree = Path(folder) / "tree"
        shutil.copytree(await asyncio.to_thread(source_distribution, "Django", "5.2.8"), tree)
        await _index(Path(folder), tree)
        await _answers_while_built(Path(folder), tree)
        await _keystrokes(Path(folder), tree)


async def _index(folder: Path, tree: Path) -> None:
    async with _service(folder, tree) as (service, began):
        first = await service.search(QUERIES[0])
        first_s = time.perf_counter() - began
        useful = any("redirect" in each["text"] for each in first["results"])
        await _until_ready(service)
        whole_s = time.perf_counter() - began
        (worker,) = psutil.Process().children()
        times = worker.cpu_times()
        cpu_s = times.user + times.system + times.children_user + times.children_system
        memory = worker.memory_info().rss / 1e6
        await _until_idle(worker)
        (status,) = await service.status()
        queries = [await _query_ms(service, query) for _ in range(NUM_ROUNDS) for query in QUERIES]
        finds = partial(_finds, service, SAVED)
        saves = [await _save_ms(tree, number, finds) for number in range(NUM_SAVES)]
        hidden = [
            await _hidden_s(service, tree, name) for name in (".gitignore", ".composerignore")
        ]
    inside = await asyncio.to_thread(_inside_ms, folder, tree)
    row(f"{status['num_files']:,} files, {status['num_chunks']:,} pieces", "")
    row(f"first answer{'' if useful else ' (useless)'}, s from opening", f"{first_s:.2f}")
    row("whole index, s", f"{whole_s:.1f}")
    row("whole index, s of CPU", f"{cpu_s:.1f}")
    row("worker's resident memory, MB", f"{memory:.0f}")
    row("index on disk, MB", f"{status['disk_bytes'] / 1e6:.0f}")
    row("", "p50", "p95")
    row(
        "query, ms, by way of the worker",
        f"{p50(queries):.0f}",
        f"{sorted(queries)[-len(queries) // 20]:.0f}",
    )
    row(
        "query, ms, inside the worker",
        f"{p50(inside):.0f}",
        f"{sorted(inside)[-len(inside) // 20]:.0f}",
    )
    row("saved file searchable after, ms (worst)", f"{p50(saves):.0f}", f"{max(saves):.0f}")
    row("", ".gitignore", ".composerignore")
    row("hidden by an ignore file after, s", *(f"{each:.2f}" for each in hidden))


async def _answers_while_built(folder: Path, tree: Path) -> None:
    """A question every half of a second until the index is whole, and a file saved meanwhile."""
    async with _service(folder / "asked", tree) as (service, began):
        answers: list[float] = []
        saved = asyncio.create_task(_save_while_built(service, tree))
        for query in cycle(QUERIES):
            answers.append(await _query_ms(service, query) / 1000)
            (status,) = await service.status()
            if status["state"] == "ready":
                break
            await asyncio.sleep(max(0.0, ASKED_EVERY_S - answers[-1]))
        whole_s = time.perf_counter() - began
        saved_ms = await saved
    row("", "p50", "worst")
    row("answer while it is built, s", f"{p50(answers):.2f}", f"{max(answers):.2f}")
    row("whole index beside these, s", f"{whole_s:.1f}")
    row("saved file searchable meanwhile after, ms", f"{saved_ms:.0f}")


async def _save_while_built(service: IndexService, tree: Path) -> float:
    while not (await service.status())[0]["num_chunks"]:
        await asyncio.sleep(0.1)
    # To search would be to search all text.
    return await _save_ms(tree, NUM_SAVES, service.symbols)


async def _keystrokes(folder: Path, tree: Path) -> None:
    script = write_script(folder)
    times: dict[str, list[float]] = {}
    for name, roots in (("no index", []), ("while indexing", [tree])):
        place = folder / name[:2]
        place.mkdir()
        folders = [{"uri": root.as_uri(), "name": root.name} for root in roots]
        async with scripted_engine(place, script), start_server(place) as client:
            await client.initialize(
                workspaceFolders=folders, initializationOptions={"tab": {"debounceMs": 0}}
            )
            if roots:
                await client.notification(
                    "$/progress", lambda params: params["value"].get("title") == "Indexing"
                )
            times[name] = await keystroke_times(client)
    row("didChange to suggestion, ms", "p50", "p90")
    for name, values in times.items():
        row(name, f"{p50(values):.1f}", f"{p90(values):.1f}")


@asynccontextmanager
async def _service(folder: Path, tree: Path) -> AsyncGenerator[tuple[IndexService, float]]:
    began = time.perf_counter()
    os.environ["COMPOSER_CACHE_DIR"] = str(folder / "cache")
    service = IndexService(_Window(tree))
    try:
        await service.refresh()
        yield service, began
    finally:
        await service.close()


async def _until_ready(service: IndexService) -> None:
    while True:
        (status,) = await service.status()
        if status["state"] == "ready" and not status["num_waiting"]:
            return
        await asyncio.sleep(0.5)


async def _until_idle(worker: psutil.Process) -> None:
    """Until what followed the last file, the upkeep of the indices, is done."""
    last = -1.0
    while (now := sum(worker.cpu_times()[:2])) > last + 0.05:
        last = now
        await asyncio.sleep(1)


async def _query_ms(service: IndexService, query: str) -> float:
    started = time.perf_counter()
    await service.search(query)
    return 1000 * (time.perf_counter() - started)


async def _finds(service: IndexService, path: str, name: str) -> bool:
    """Asks by the exact name before it searches: to search again and again takes the time of the
    very work that is waited for."""
    if not any(each["path"] == path for each in await service.definitions(name)):
        return False
    found = await service.search(name)
    return any(each["path"] == path and name in each["text"] for each in found["results"])


async def _hidden_s(service: IndexService, tree: Path, ignore_file: str) -> float:
    """From writing an ignore file to the first search that finds nothing of what it hides."""
    name = f"hidden_by_{ignore_file[1:]}"
    path = f"django/{name}.py"
    (tree / path).write_text(f"def {name}():\n    pass\n")
    while not await _finds(service, path, name):
        await asyncio.sleep(INTERVAL_S)
    (tree / ignore_file).write_text(f"{name}.py\n")
    started = time.perf_counter()
    while await _finds(service, path, name):
        await asyncio.sleep(INTERVAL_S)
    return time.perf_counter() - started


def _inside_ms(folder: Path, tree: Path) -> list[float]:
    """What the worker's own part of a query takes, without the way there and back."""
    index = RootIndex(tree, cache_dir=folder / "cache")
    index.open()
    times: list[float] = []
    for query in QUERIES * (NUM_ROUNDS + 1):
        started = time.perf_counter()
        index.search(query)
        times.append(1000 * (time.perf_counter() - started))
    index.close()
    return times[len(QUERIES) :]


async def _save_ms(tree: Path, number: int, is_found: Callable[[str], Awaitable[object]]) -> float:
    path, name = tree / SAVED, f"bench_symbol_{number}"
    path.write_text(f"def {name}():\n    pass\n")
    started = time.perf_counter()
    while not await is_found(name):
        await asyncio.sleep(INTERVAL_S)
    return 1000 * (time.perf_counter() - started)

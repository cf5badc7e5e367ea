"""The worker's process: keeps the roots of one window current, and answers about them.

    python -m composer_index.worker CACHE_DIR

It speaks the lines of `channel.py`. All changes run in one thread, one small batch at a time, at a
low priority, and make way for searches, which run in others. It leaves when its input ends.
"""

import argparse
import asyncio
import logging
import os
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from composer_index.embedding.served import ServedEmbedder
from composer_index.embedding.server import ModelServer, ServedModel
from composer_index.ignores.layered import is_repository
from composer_index.root import RootIndex
from composer_index.roots import search_roots
from composer_index.search.language_filter import LanguageError
from composer_index.search.rerank import ServedReranker
from composer_index.store.errors import StoreError
from composer_index.store.records import StoreEvent
from composer_index.store.sql import GlobError
from composer_index.turns import Turns
from composer_index.worker.channel import Channel, Handler, Params, RefusedError
from composer_index.worker.filling import Filler
from composer_index.worker.keeper import Keeper

if TYPE_CHECKING:
    from composer_index.search.query import Reference
    from composer_index.store.records import FoundDefinition

_NICENESS = 10
_NUM_SEARCH_THREADS = 2
_MAX_LIMIT = 1000
_MAX_LINE = 1 << 31

_PLACE = ("start_line", "end_line", "line", "name")
"""What tells apart two answers about one file."""
_TOO_WIDE = (
    "{} is not indexed, since the whole home folder lies in it; open the folder of a project"
)

_Answer = TypeVar("_Answer")


class Worker:
    def __init__(self, cache_dir: Path) -> None:
        self._cache_dir = cache_dir
        self._keepers: dict[str, Keeper] = {}
        self._writing = ThreadPoolExecutor(1, "index", _lower_priority)
        self._searching = ThreadPoolExecutor(_NUM_SEARCH_THREADS, "ask")
        self._embedding = ThreadPoolExecutor(1, "embed", _lower_priority)
        self._turns = Turns()
        self._fillers: dict[str, Filler] = {}
        self._embedder: ServedEmbedder | None = None
        self._reranker: ServedReranker | None = None
        handlers: tuple[Handler, ...] = (
            self.models,
            self.open,
            self.close,
            self.buffer,
            self.changed,
            self.reconcile,
            self.pause,
            self.search,
            self.definitions,
            self.references,
            self.symbols,
            self.related,
            self.status,
            self.rebuild,
        )
        self._channel = Channel({handler.__name__: handler for handler in handlers})

    async def run(self) -> None:
        await self._channel.run()

    # Notifications. -------------------------------------------------------------------------------

    async def models(self, params: Params) -> None:
        """`embedder` and `reranker`: the fields of `ServedModel`, or null for none. Comes before the
        folders, and again when the settings, or the place of the engine, change."""
        loop = asyncio.get_running_loop()
        nothing: Params = {}

        def wake() -> None:
            loop.call_soon_threadsafe(self._channel.tell, "engine_wanted", nothing)

        embedder, reranker = params["embedder"], params["reranker"]
        self._embedder = embedder and ServedEmbedder(ModelServer(ServedModel(**embedder), wake))
        self._reranker = reranker and ServedReranker(ModelServer(ServedModel(**reranker), wake))
        for root, keeper in self._keepers.items():
            await self._ask(keeper.index.use_models, self._embedder, self._reranker)
            self._fillers[root].nudge()

    async def open(self, params: Params) -> None:
        """`root`, an absolute path; `include_secret`, patterns. Opened again, it is replaced."""
        root = _text(params, "root")
        if not Path(root).is_absolute():
            raise RefusedError(f"a folder is opened by an absolute path, not by {root!a}")
        await self.close({"root": root})
        if _holds_home(root):
            self._tell_of(root)("message", {"kind": "notice", "message": _TOO_WIDE.format(root)})
            return
        loop = asyncio.get_running_loop()

        def on_event(event: StoreEvent) -> None:
            message = {"root": root, "kind": event.kind, "message": event.message}
            loop.call_soon_threadsafe(self._channel.tell, "message", message)

        index = RootIndex(
            Path(root),
            cache_dir=self._cache_dir,
            include_secret=tuple(params.get("include_secret", ())),
            on_event=on_event,
            give_way=self._turns.give_way,
        )
        index.use_models(self._embedder, self._reranker)
        keeper = self._keepers[root] = Keeper(index, self._writing, self._tell_of(root))
        filler = self._fillers[root] = Filler(
            index,
            is_idle=lambda: keeper.is_idle,
            on_stored=keeper.tidy,
            notice=keeper.notice,
            writing=self._writing,
            embedding=self._embedding,
        )
        keeper.on_idle = filler.nudge

    async def close(self, params: Params) -> None:
        """`root`."""
        if (keeper := self._keepers.pop(params["root"], None)) is not None:
            await self._fillers.pop(params["root"]).close()
            await keeper.close()

    async def buffer(self, params: Params) -> None:
        """`path`, absolute; `text`, what the editor shows, null: what is on disk."""
        for keeper, path in self._holding(params["path"]):
            await self._ask(keeper.index.set_buffer, path, params["text"])

    async def changed(self, params: Params) -> None:
        """`paths`, absolute, of files that may have changed, appeared or gone."""
        for each in params["paths"]:
            for keeper, path in self._holding(each):
                keeper.touch(path)

    async def reconcile(self, params: Params) -> None:
        """Anything may have changed: the window was away."""
        for keeper in self._keepers.values():
            keeper.reconcile()

    async def pause(self, params: Params) -> None:
        """`paused`."""
        for keeper in self._keepers.values():
            keeper.pause(paused=params["paused"])

    # Requests. ------------------------------------------------------------------------------------

    async def search(self, params: Params) -> Any:
        """`query`, `limit`; `glob`, `language`, `root`, or null."""
        query, limit = _text(params, "query"), _limit(params)
        glob, language = _text_or_none(params, "glob"), _text_or_none(params, "language")
        chosen = self._chosen(params)
        try:
            indexes = [keeper.index for keeper in chosen.values()]
            found = await self._ask(search_roots, indexes, query, limit, glob, language)
        except (GlobError, LanguageError) as error:
            raise RefusedError(str(error)) from error
        # As the folder was opened, and by its first name where it was by several.
        names = {keeper.index.root: name for name, keeper in reversed(chosen.items())}
        results = [{**asdict(each), "root": names[each.root]} for each in found]
        return {"results": results, "states": self._states()}

    async def definitions(self, params: Params) -> Any:
        """`name`."""
        name = _text(params, "name")
        return await self._gather(params, lambda index: index.definitions(name))

    async def references(self, params: Params) -> Any:
        """`name`, `limit`."""
        name, limit = _text(params, "name"), _limit(params)
        return await self._gather(params, lambda index: index.references(name, limit))

    async def symbols(self, params: Params) -> Any:
        """`query`, `limit`."""
        query, limit = _text(params, "query"), _limit(params)
        return await self._gather(params, lambda index: index.symbols(query, limit))

    async def related(self, params: Params) -> Any:
        """`path`, absolute; `line`, 1-based; `limit`."""
        line, limit = _number(params, "line", most=_MAX_LINE), _limit(params)
        return [
            {**asdict(each), "root": keeper.index.root}
            for keeper, path in self._holding(_text(params, "path"))
            for each in await self._ask(keeper.index.related, path, line, limit)
        ]

    async def status(self, params: Params) -> Any:
        return [
            {**asdict(await self._ask(keeper.index.status)), "paused": keeper.is_paused}
            for keeper in tuple(self._keepers.values())
        ]

    async def rebuild(self, params: Params) -> Any:
        """`root`, or null for all of them."""
        for keeper in self._chosen(params).values():
            try:
                await keeper.rebuild()
            except StoreError as error:
                raise RefusedError(str(error)) from error

    # Within. --------------------------------------------------------------------------------------

    def _chosen(self, params: Params) -> dict[str, Keeper]:
        root = params.get("root")
        if root is None:
            return dict(self._keepers)  # A folder may be closed while others are asked.
        if root not in self._keepers:
            raise RefusedError(f"{root} is no folder of this workspace")
        return {root: self._keepers[root]}

    def _holding(self, path: str) -> list[tuple[Keeper, str]]:
        """The roots that hold an absolute path, with its path in each."""
        real = os.path.join(os.path.realpath(os.path.dirname(path)), os.path.basename(path))  # noqa: PTH118, PTH119, PTH120
        found: list[tuple[Keeper, str]] = []
        for keeper in self._keepers.values():
            try:
                found.append((keeper, Path(real).relative_to(keeper.index.root).as_posix()))
            except ValueError:
                continue
        return found

    async def _gather(
        self,
        params: Params,
        ask: "Callable[[RootIndex], Sequence[FoundDefinition | Reference]]",
    ) -> list[dict[str, Any]]:
        """What the roots answer, each place once: folders may be nested, or open by two names."""
        found: dict[tuple[object, ...], dict[str, Any]] = {}
        for root, keeper in self._chosen(params).items():
            for each in await self._ask(ask, keeper.index):
                fields = asdict(each)
                place = (f"{keeper.index.root}/{each.path}", *map(fields.get, _PLACE))
                found.setdefault(place, {"root": root, **fields})
        return list(found.values())

    async def _ask(self, function: Callable[..., _Answer], *arguments: Any) -> _Answer:
        loop = asyncio.get_running_loop()
        with self._turns.asking():
            return await loop.run_in_executor(self._searching, function, *arguments)

    def _states(self) -> dict[str, str]:
        return {root: keeper.index.state for root, keeper in self._keepers.items()}

    def _tell_of(self, root: str) -> Callable[[str, Params], None]:
        return lambda method, params: self._channel.tell(method, {"root": root, **params})


def _lower_priority() -> None:
    """Of the calling thread and of those that it starts, Lance's among them, on Linux; of the whole
    process on other systems that know priorities."""
    if hasattr(os, "setpriority"):
        os.setpriority(os.PRIO_PROCESS, 0, _NICENESS)


def _holds_home(root: str) -> bool:
    """Whether a root holds all that the user has, as `/` does, and is no work tree of git."""
    real = Path(root).resolve()
    home = Path("~").expanduser().resolve()
    return home.is_relative_to(real) and not is_repository(str(real))


def _text(params: Params, name: str) -> str:
    value = params.get(name)
    if not isinstance(value, str):
        raise RefusedError(f"{name} is a text, not {value!r:.80}")
    return value


def _text_or_none(params: Params, name: str) -> str | None:
    return None if params.get(name) is None else _text(params, name)


def _number(params: Params, name: str, *, most: int) -> int:
    value = params.get(name)
    if type(value) is not int or not 1 <= value <= most:
        raise RefusedError(f"{name} is a whole number from 1 to {most}, not {value!r:.80}")
    return value


def _limit(params: Params) -> int:
    return _number(params, "limit", most=_MAX_LIMIT)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("cache_dir", type=Path)
    arguments = parser.parse_args()
    logging.basicConfig(
        level=logging.INFO, stream=sys.stderr, format="%(asctime)s %(levelname)s %(message)s"
    )
    logging.getLogger("httpx").setLevel(logging.WARNING)  # It tells of every request.
    asyncio.run(Worker(arguments.cache_dir).run())
    # Threads may be in the middle of a batch; the store survives that, and nobody waits for it.
    os._exit(0)

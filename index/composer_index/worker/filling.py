"""Fills in a model's vectors of one root while its keeper has nothing to do and nobody searches."""

import asyncio
import logging
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from composer_index.embedding.server import LONGEST_WAIT_S, EngineAwayError, ModelServerError
from composer_index.indexing.backfill import Backfill, Group
from composer_index.root import RootIndex
from composer_index.store.errors import StoreError

logger = logging.getLogger(__name__)

QUIET_S = 1.0
"""After a search, before the server is given more to embed: a second one often follows."""
STORE_WAIT_S = 30.0
"""After the store refused, because the disk is full or another process writes."""
_GROUPS_A_TIDY = 100
_PRUNE_S = 86_400.0

_Answer = TypeVar("_Answer")


class Filler:
    """Starts at once. Event loop only; requests run in `embedding`'s one thread, which all roots
    share, and the store is changed in `writing`'s."""

    def __init__(
        self,
        index: RootIndex,
        *,
        is_idle: Callable[[], bool],
        on_stored: Callable[[], None],
        notice: Callable[[str], None],
        writing: ThreadPoolExecutor,
        embedding: ThreadPoolExecutor,
    ) -> None:
        """`is_idle`: whether the keeper is done, the store's writer and not paused. `on_stored`: the
        store should be tidied up."""
        self._index = index
        self._is_idle = is_idle
        self._on_stored = on_stored
        self._notice = notice
        self._writing = writing
        self._embedding = embedding
        self._work = asyncio.Event()
        self._pruned_at = float("-inf")
        self._num_groups = 0
        self._task = asyncio.create_task(self._run())
        self._task.add_done_callback(self._on_done)

    def nudge(self) -> None:
        """There may be something to do: files were stored, or other models are to be used."""
        self._work.set()

    async def close(self) -> None:
        self._task.cancel()
        await asyncio.wait([self._task])

    async def _run(self) -> None:
        while True:
            self._work.clear()
            wait_s = await self._fill() if self._is_idle() else None
            try:
                async with asyncio.timeout(wait_s):
                    await self._work.wait()
            except TimeoutError:
                continue

    async def _fill(self) -> float | None:
        """Do what there is to do; how long to wait before trying again, None: until there is more."""
        backfill = self._index.backfill
        try:
            if backfill is None:
                await self._call(self._writing, self._index.use_table)
            else:
                await self._fill_in(backfill)
        except ModelServerError as error:
            if not isinstance(error, EngineAwayError):  # It is being started.
                self._notice(f"Search goes on by the index's own vectors, because {error}")
            _forget(backfill)
            return backfill.embedder.server.wait_s if backfill else LONGEST_WAIT_S
        except StoreError as error:  # The store has told it.
            logger.warning("vectors are not filled in: %s", error)
            _forget(backfill)
            return STORE_WAIT_S
        return None

    async def _fill_in(self, backfill: Backfill) -> None:
        while self._may_go_on(backfill):
            group = await self._call(self._embedding, backfill.next_group)
            if group is not None:
                if not await self._fill_group(backfill, group):
                    return
            elif await self._call(self._writing, backfill.finish, self._index.table_name):
                await self._call(self._writing, self._index.note_filling)
                await self._prune(backfill)
                self._on_stored()
                return

    async def _fill_group(self, backfill: Backfill, group: Group) -> bool:
        """Whether it was filled; if not, what is embedded of it is among the shared vectors."""
        while group.missing:
            if (quiet_s := self._index.quiet_s) < QUIET_S:
                await asyncio.sleep(QUIET_S - quiet_s)
                continue
            if not self._may_go_on(backfill):
                backfill.put_back(group)
                return False
            await self._call(self._embedding, backfill.embed_some, group)
        await self._call(self._writing, backfill.store_group, group)
        await self._call(self._writing, self._index.note_filling)
        self._num_groups += 1
        if self._num_groups % _GROUPS_A_TIDY == 0:
            self._on_stored()
        return True

    def _may_go_on(self, backfill: Backfill) -> bool:
        return self._is_idle() and self._index.backfill is backfill

    async def _prune(self, backfill: Backfill) -> None:
        if time.monotonic() - self._pruned_at > _PRUNE_S:
            self._pruned_at = time.monotonic()
            await self._call(self._embedding, backfill.prune)

    async def _call(
        self, threads: ThreadPoolExecutor, function: Callable[..., _Answer], *arguments: Any
    ) -> _Answer:
        return await asyncio.get_running_loop().run_in_executor(threads, function, *arguments)

    def _on_done(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.error("vectors of %s are not filled in", self._index.root, exc_info=error)
            self._notice(f"The vectors of {self._index.root} are not filled in any more: {error!r}")


def _forget(backfill: Backfill | None) -> None:
    if backfill is not None:
        backfill.is_planned = False

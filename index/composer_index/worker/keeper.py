"""Keeps one root's index current: plans, indexes, listens for changes, tidies up when idle."""

import asyncio
import logging
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing
from typing import Any, TypeVar

from composer_index.files.changes import Batch
from composer_index.files.watch import batches
from composer_index.ignores.rules import Rules
from composer_index.root import RootIndex
from composer_index.store.errors import NotWriterError, StoreError, StoreFullError

logger = logging.getLogger(__name__)

MAX_NUM_PATHS = 2000
"""Hints held; of more, a plan takes their place."""
TAKEOVER_S = 5.0
"""How often a reader looks whether the writer is gone."""
FULL_S = 30.0
"""How often a full disk is tried again."""
IDLE_S = 20.0
"""Without work, before the store is tidied up."""
ROOT_S = 2.0
"""How often a root that is gone is looked for."""
COMPACT_GRACE_S = 61.0
"""Between two steps of it; longer than `Store` leaves what a reader may still be reading."""

_Answer = TypeVar("_Answer")


class Keeper:
    """Starts at once. Event loop only; the index's changes run in `writing`'s one thread."""

    def __init__(
        self,
        index: RootIndex,
        writing: ThreadPoolExecutor,
        tell: Callable[[str, Mapping[str, Any]], None],
    ) -> None:
        self.index = index
        self._writing = writing
        self._tell = tell
        self._hints = Batch()
        self._must_plan = True
        self._is_paused = False
        self._work = asyncio.Event()
        self._work.set()
        self._told_notices: set[str] = set()
        self._is_idle = False
        self._may_hide = asyncio.Event()
        """What is hidden may be other than it was."""
        self._is_loaded = asyncio.Event()
        self._is_settled = asyncio.Event()
        """The index is open, or will not be."""
        self.on_idle: Callable[[], None] = lambda: None
        """Called whenever nothing is left to be indexed."""
        self._loop = asyncio.get_running_loop()
        index.on_emptied = self._on_emptied
        self._tasks = [
            asyncio.create_task(self._keep_current()),
            asyncio.create_task(self._keep_hidden()),
            asyncio.create_task(self._watch()),
        ]
        for task in self._tasks:
            task.add_done_callback(self._on_done)

    @property
    def is_paused(self) -> bool:
        return self._is_paused

    @property
    def is_idle(self) -> bool:
        """Whether this process writes the index, it is up to date, and nothing is paused."""
        return self._is_idle and not self._work.is_set()

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.wait(self._tasks)
        await self._write(self.index.close)

    def touch(self, path: str) -> None:
        """A file, relative to the root, that may have changed."""
        self._take(Batch(paths=frozenset({path})))

    def reconcile(self) -> None:
        self._take(Batch(is_overflow=True))

    def pause(self, *, paused: bool) -> None:
        """Changes are remembered and nothing is indexed until it is ended."""
        self._is_paused = paused
        self._work.set()

    def tidy(self) -> None:
        """The store was changed by another hand, and will want tidying up."""
        self._work.set()

    async def rebuild(self) -> None:
        """Forget everything and index anew. Raises: StoreError."""
        await self._is_settled.wait()
        if self.index.state == "cold":
            raise StoreError(f"there is no index for {self.index.root}; its messages say why")
        await self._write(self.index.clear)
        self.reconcile()

    def _take(self, batch: Batch) -> None:
        self._hints = self._hints.merged(batch, max_num_paths=MAX_NUM_PATHS)
        self._work.set()
        if batch.is_overflow:
            self._may_hide.set()

    def _on_emptied(self) -> None:
        self._loop.call_soon_threadsafe(self.reconcile)

    async def _keep_hidden(self) -> None:
        while True:
            await self._may_hide.wait()
            self._may_hide.clear()
            # Whoever writes, and whatever is indexed or paused meanwhile.
            await asyncio.to_thread(self.index.review_buffers)

    async def _watch(self) -> None:
        # Whoever asks as soon as the folder is open has the machine to himself.
        await self._is_loaded.wait()
        while True:
            # Rules belong to one thread; the watcher's are its own.
            async with aclosing(batches(Rules(self.index.root))) as found:
                async for batch in found:
                    if batch.notice:
                        self.notice(batch.notice)
                    self._take(batch)
            self.notice(f"{self.index.root} is gone; its index stays until it is back")
            while not self.index.is_root_there:
                await asyncio.sleep(ROOT_S)

    async def _keep_current(self) -> None:
        try:
            await self._write(self.index.load)
            self._is_loaded.set()
            while not await self._open():
                await asyncio.sleep(FULL_S)
        except StoreError as error:
            self.notice(f"No index for {self.index.root}: {error}. Search goes on from text")
            return
        finally:
            self._is_settled.set()
        while True:
            wait_s = await self._work_through()
            await self._wait(wait_s)

    async def _open(self) -> bool:
        """False if there is no room, or the system has none of something else, for the moment."""
        try:
            await self._write(self.index.open)
        except (StoreFullError, OSError) as error:
            self._tell_standstill(error)
            return False
        return True

    async def _work_through(self) -> float | None:
        """Do what there is to do; how long to wait before trying again, None: until there is more."""
        self._work.clear()
        self._is_idle = False
        try:
            if not await self._write(self.index.become_writer):
                return TAKEOVER_S
            while not self._is_paused:
                is_more = await self._do_some()
                self._tell_progress()
                if not is_more and not self._work.is_set():
                    self._is_idle = True
                    self.on_idle()
                    return await self._tidy_up()
                self._work.clear()
        except StoreFullError:  # The store has told it. What was under way is planned anew.
            self._must_plan = True
            return FULL_S
        except NotWriterError:
            self._must_plan = True
            return TAKEOVER_S
        except OSError as error:  # Of a temporary folder, for instance, or of the number of files.
            self._must_plan = True
            self._tell_standstill(error)
            return FULL_S
        except StoreError:  # It was replaced by an empty one, and that was told.
            self.reconcile()
            return 0
        return None

    async def _do_some(self) -> bool:
        hints, self._hints = self._hints, Batch()
        self._must_plan |= hints.is_overflow
        if not self.index.is_root_there:
            self._must_plan = True
            return False
        if self._must_plan:
            await self._write(self.index.plan)
            self._must_plan = False
            for notice in self.index.notices:
                self.notice(notice)
        elif hints.paths or hints.folders:
            await self._write(self.index.note, hints)
        return await self._write(self.index.step)

    async def _tidy_up(self) -> float | None:
        if await self._wait(IDLE_S):
            return 0
        while await self._write(self.index.compact):
            if await self._wait(COMPACT_GRACE_S):
                return 0
        return None

    async def _wait(self, wait_s: float | None) -> bool:
        """Whether there is work before the time is over."""
        try:
            async with asyncio.timeout(wait_s):
                await self._work.wait()
        except TimeoutError:
            return False
        return True

    async def _write(self, function: Callable[..., _Answer], *arguments: Any) -> _Answer:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._writing, function, *arguments)

    def _on_done(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.error("%s is not kept current any more", self.index.root, exc_info=error)
            self.notice(f"The index of {self.index.root} is not kept current any more: {error!r}")
            self._tell("progress", {"done": 0, "left": 0})

    def _tell_progress(self) -> None:
        progress = self.index.progress
        self._tell("progress", {"done": progress.num_done, "left": progress.num_left})

    def _tell_standstill(self, error: Exception) -> None:
        self.notice(f"The index of {self.index.root} stands still and tries again: {error}")

    def notice(self, text: str) -> None:
        """Tell the user, once."""
        if text not in self._told_notices:
            self._told_notices.add(text)
            logger.warning("%s", text.encode(errors="backslashreplace").decode())
            self._tell("message", {"kind": "notice", "message": text})

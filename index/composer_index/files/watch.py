"""Tells what changes in a workspace, soon and in batches."""

import asyncio
import os
import sys
import threading
import time
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass
from typing import Protocol

from composer_index.files.changes import Batch, Changes
from composer_index.ignores.rules import Rules


@dataclass(frozen=True, kw_only=True, slots=True)
class WatchConfig:
    debounce_s: float = 0.05
    """A batch is told when nothing has happened for so long …"""
    max_delay_s: float = 0.5
    """… or so long after its first hint."""
    max_num_paths: int = 2000
    """A batch of more asks for a reconcile in their place, which is then cheaper."""
    max_num_watches: int = 1 << 16
    """Folders watched at a time, on Linux; each takes about 1 KiB of the kernel's memory."""
    interval_s: float = 30.0
    """Where not all can be watched, how often to ask for a reconcile."""


class _Tree(Protocol):
    """What one system offers for watching a tree."""

    @property
    def trouble(self) -> str: ...
    def watch_all(self) -> bool: ...
    def collect(self, changes: Changes) -> None: ...
    def close(self) -> None: ...


class Watcher:
    """Calls `on_batch`, in a thread of its own, until `close`. The first batch comes when all is
    watched, and asks for a reconcile: what changes later is told of. Nothing runs while nothing
    happens. `rules` are the watcher's from then on."""

    def __init__(
        self,
        rules: Rules,
        on_batch: Callable[[Batch], None],
        config: WatchConfig | None = None,
    ) -> None:
        self._rules = rules
        self._on_batch = on_batch
        self._config = config or WatchConfig()
        self._woken = threading.Event()
        self._is_closed = False
        self._thread = threading.Thread(target=self._run, name="composer-watch", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        """No batch comes and no thread is left when it returns. Not to be called in `on_batch`."""
        self._is_closed = True
        self._woken.set()
        self._thread.join()

    def _run(self) -> None:
        root = _identity(self._rules.root)
        if root is None:
            self._tell(Batch(is_root_gone=True))
            return
        try:
            tree = _tree(self._rules, self._woken.set, self._config)
        except OSError as error:
            self._poll(root, f"Nothing is watched: {error.strerror}")
            return
        try:
            tree.watch_all()
            self._tell(Batch(is_overflow=True, notice=self._notice(tree)))
            while self._wait(tree):
                changes = self._changes()
                tree.collect(changes)
                changes.is_root_gone |= _identity(self._rules.root) != root
                if (batch := changes.batch()) is not None:
                    self._tell(batch)
                if changes.is_root_gone:
                    return
                if changes.are_folders_stale:
                    self._refresh(tree)
        finally:
            tree.close()

    def _refresh(self, tree: _Tree) -> None:
        former = tree.trouble
        has_new = tree.watch_all()
        notice = self._notice(tree) if tree.trouble != former else ""
        if has_new or notice:
            self._tell(Batch(is_overflow=has_new, notice=notice))

    def _wait(self, tree: _Tree) -> bool:
        """For the next batch to be due; False if there is none to come."""
        is_told = self._woken.wait(self._config.interval_s if tree.trouble else None)
        if not is_told:
            self._tell(Batch(is_overflow=True))
        latest = time.monotonic() + self._config.max_delay_s
        while self._woken.is_set() and not self._is_closed and time.monotonic() < latest:
            self._woken.clear()
            self._woken.wait(self._config.debounce_s)
        self._woken.clear()
        return not self._is_closed

    def _poll(self, root: tuple[int, int], notice: str) -> None:
        self._tell(Batch(is_overflow=True, notice=self._way_out(notice)))
        while not self._woken.wait(self._config.interval_s):
            is_root_gone = _identity(self._rules.root) != root
            self._tell(Batch(is_overflow=True, is_root_gone=is_root_gone))
            if is_root_gone:
                return

    def _tell(self, batch: Batch) -> None:
        if not self._is_closed:
            self._on_batch(batch)

    def _changes(self) -> Changes:
        return Changes(max_num_paths=self._config.max_num_paths)

    def _notice(self, tree: _Tree) -> str:
        return self._way_out(f"Not all folders are watched: {tree.trouble}") if tree.trouble else ""

    def _way_out(self, text: str) -> str:
        return (
            f"{text}. Changes are looked for every {self._config.interval_s:g} s instead; an ignore "
            "file keeps folders out, and on Linux sysctl raises the limits of fs.inotify."
        )


async def batches(rules: Rules, config: WatchConfig | None = None) -> AsyncGenerator[Batch]:
    """A `Watcher`'s batches. While nobody asks for the next one they are merged into one, so that
    memory stays bounded. Ends after `is_root_gone`; `aclose` ends it sooner."""
    config = config or WatchConfig()
    loop = asyncio.get_running_loop()
    is_there = asyncio.Event()
    waiting = Batch()

    def put(batch: Batch) -> None:
        nonlocal waiting
        waiting = waiting.merged(batch, max_num_paths=config.max_num_paths)
        is_there.set()

    def on_batch(batch: Batch) -> None:
        if not loop.is_closed():
            loop.call_soon_threadsafe(put, batch)

    watcher = Watcher(rules, on_batch, config)
    watcher.start()
    try:
        while not waiting.is_root_gone:
            await is_there.wait()
            is_there.clear()
            batch, waiting = waiting, Batch(is_root_gone=waiting.is_root_gone)
            yield batch
    finally:
        await asyncio.shield(asyncio.to_thread(watcher.close))


def _tree(rules: Rules, wake: Callable[[], None], config: WatchConfig) -> _Tree:
    if sys.platform == "linux":
        from composer_index.files.inotify import InotifyTree

        return InotifyTree(rules, wake, max_num_watches=config.max_num_watches)
    from composer_index.files.observed import ObservedTree

    return ObservedTree(rules, wake)


def _identity(folder: str) -> tuple[int, int] | None:
    try:
        status = os.stat(folder)  # noqa: PTH116 - for each batch
    except OSError:
        return None
    return status.st_dev, status.st_ino

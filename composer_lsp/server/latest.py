"""At most one running piece of work a key: the newest."""

import asyncio
from collections.abc import Coroutine
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class SupersededError(Exception):
    """Newer work of the same key took the place of this one, or its ground was removed."""


class Latest(Generic[T]):
    """Starting work ends what still runs for its key: an editor that asks at every keystroke has
    one request at the engine, not a queue."""

    def __init__(self) -> None:
        self._running: dict[str, asyncio.Task[T]] = {}

    def start(self, key: str, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Start work; `result` tells how it went."""
        self.end(key)
        task = asyncio.create_task(work)
        self._running[key] = task
        task.add_done_callback(lambda _: self._forget(key, task))
        return task

    def running(self, key: str) -> asyncio.Task[T] | None:
        return self._running.get(key)

    def result(self, task: asyncio.Task[T]) -> T:
        """Of a finished task. Raises: SupersededError."""
        if task.cancelled():
            raise SupersededError
        return task.result()

    def end(self, key: str) -> None:
        if (task := self._running.pop(key, None)) is not None:
            task.cancel()

    def end_all(self) -> None:
        for key in tuple(self._running):
            self.end(key)

    def _forget(self, key: str, task: asyncio.Task[T]) -> None:
        if self._running.get(key) is task:
            del self._running[key]

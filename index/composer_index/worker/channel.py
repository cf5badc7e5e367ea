"""The worker's side of its conversation: JSON objects, one a line, on standard input and output."""

import asyncio
import json
import logging
import os
import sys
import threading
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, BinaryIO

logger = logging.getLogger(__name__)

Params = Mapping[str, Any]
Handler = Callable[[Params], Awaitable[Any]]


class RefusedError(Exception):
    """A request that cannot be answered; the text, which says why, goes to whoever asked."""


class Channel:
    """Reads messages until the input ends, and runs each request as a task of its own.

    A request `{"id", "method", "params"}` gets `{"id", "result"}` or `{"id", "error"}`, whatever its
    handler raises. A message without `id` is a notification: handled in order, never answered.
    """

    def __init__(self, handlers: Mapping[str, Handler]) -> None:
        self._handlers = {**handlers, "cancel": self._cancel}
        self._input, self._output = _take_standard_streams()
        self._running: dict[int, asyncio.Task[None]] = {}

    async def run(self) -> None:
        """Returns when the input has ended: the parent left."""
        lines: asyncio.Queue[bytes | None] = asyncio.Queue()
        loop = asyncio.get_running_loop()
        threading.Thread(target=self._read_lines, args=(loop, lines), daemon=True).start()
        while (line := await lines.get()) is not None:
            await self._take(line)
        for task in tuple(self._running.values()):
            task.cancel()

    def tell(self, method: str, params: Params) -> None:
        """Send a notification. Event loop only, like everything here."""
        self._write({"method": method, "params": params})

    def _read_lines(
        self, loop: asyncio.AbstractEventLoop, lines: asyncio.Queue[bytes | None]
    ) -> None:
        for line in self._input:
            loop.call_soon_threadsafe(lines.put_nowait, line)
        loop.call_soon_threadsafe(lines.put_nowait, None)

    async def _take(self, line: bytes) -> None:
        try:
            number, method, params = _parsed(line)
        except (
            ValueError
        ) as error:  # A process boundary. Without the text, which may be a source's.
            logger.warning("A line of %d bytes is no message: %s", len(line), error)
            return
        handler = self._handlers.get(method)
        if number is not None:
            task = asyncio.create_task(self._answer(number, method, handler, params))
            self._running[number] = task
            task.add_done_callback(lambda _: self._running.pop(number, None))
        elif handler is None:
            logger.warning("Unknown notification %r", method)
        else:
            try:
                await handler(params)
            except Exception:  # A process boundary: one bad message must not end the worker.
                logger.exception("Notification %r failed", method)

    async def _answer(
        self, number: int, method: str, handler: Handler | None, params: Params
    ) -> None:
        try:
            if handler is None:
                raise RefusedError(f"the index has no method {method!r}")
            answer = {"id": number, "result": await handler(params)}
        except RefusedError as error:
            answer = {"id": number, "error": str(error)}
        except Exception as error:  # A process boundary.
            logger.exception("Request %r failed", method)
            answer = {"id": number, "error": f"{type(error).__name__}: {error}"}
        self._write(answer)

    async def _cancel(self, params: Params) -> None:
        if (task := self._running.get(params["id"])) is not None:
            task.cancel()

    def _write(self, message: Mapping[str, Any]) -> None:
        # ASCII, so that names that are no Unicode travel as the surrogates that stand for them.
        try:
            self._output.write(json.dumps(message).encode("ascii") + b"\n")
            self._output.flush()
        except BrokenPipeError:
            pass  # The parent is gone; the input's end says so too.


def _parsed(line: bytes) -> tuple[int | None, str, Params]:
    """A message's number, method and parameters. Raises: ValueError for what is none."""
    try:
        message = json.loads(line)
    except RecursionError:
        raise ValueError("it is nested too deep") from None
    match message:
        case {"method": str(method), "params": {**params}}:
            number = message.get("id")
            if number is None or type(number) is int:
                return number, method, params
        case _:
            pass
    raise ValueError("a message has a method, parameters, and a whole number if it asks")


def _take_standard_streams() -> tuple[BinaryIO, BinaryIO]:
    """Our own copies. What else prints in this process goes to the log, not between messages."""
    received = os.fdopen(os.dup(0), "rb")
    sent = os.fdopen(os.dup(1), "wb")
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    sys.stdout = sys.stderr
    return received, sent

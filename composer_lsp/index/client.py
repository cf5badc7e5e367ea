"""The index's worker as a child process: JSON objects, one a line, on its standard streams.

The worker holds the memory and imports what is slow to import; this process stays light. It ends
with its parent, because its standard input ends then.
"""

import asyncio
import json
import logging
import subprocess
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from composer_lsp.engine.backoff import Backoff

logger = logging.getLogger(__name__)

MAX_LINE_BYTES = 256 * 1024 * 1024
"""Longest message; a search's results are far below, a document of the user's may be long."""
MAX_LOG_BYTES = 4_000_000
EXIT_LIMIT_S = 1.5
"""How long a worker may take to leave after its input has ended, before it is killed."""

Message = tuple[str, Mapping[str, Any]]
"""A method and its parameters."""


class WorkerError(Exception):
    """The worker refused a request, or is not there; the text says why."""


class IndexClient:
    """Starts the worker when the first message needs it, and again, with back-off, when it dies.

    `state` gives the notifications that bring a new worker up to date: folders, unsaved text.
    `on_event` gets what the worker says unasked. All methods belong to the event loop.
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        log: Path,
        state: Callable[[], Iterable[Message]],
        on_event: Callable[[str, Mapping[str, Any]], None],
        backoff: Backoff | None = None,
    ) -> None:
        self._command = command
        self._log = log
        self._state = state
        self._on_event = on_event
        self._backoff = backoff or Backoff()
        self._process: asyncio.subprocess.Process | None = None
        self._starting = asyncio.Lock()
        self._reader: asyncio.Task[None] | None = None
        self._answers: dict[int, asyncio.Future[Any]] = {}
        self._last_id = 0
        self._is_closed = False

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.returncode is None

    @property
    def wait_s(self) -> float:
        """Seconds until a worker that died may be started again."""
        return self._backoff.remaining_s

    async def start(self) -> None:
        """Raises: WorkerError if the worker cannot run now."""
        async with self._starting:
            if self.is_running:
                return
            if self._is_closed:
                raise WorkerError("the index was closed")
            if (wait_s := self._backoff.remaining_s) > 0:
                raise WorkerError(
                    f"the index's worker died; it is started again in {wait_s:.0f} s. "
                    f"Its log is {self._log}"
                )
            await self._spawn()

    async def request(self, method: str, params: Mapping[str, Any]) -> Any:
        """The worker's answer. A cancelled request is cancelled in the worker too.

        Raises: WorkerError.
        """
        await self.start()
        self._last_id += 1
        number = self._last_id
        answer = self._answers[number] = asyncio.get_running_loop().create_future()
        try:
            await self._send({"id": number, "method": method, "params": params})
            return await answer
        except asyncio.CancelledError:
            self.notify("cancel", {"id": number})
            raise
        finally:
            del self._answers[number]

    def notify(self, method: str, params: Mapping[str, Any]) -> None:
        """Tell a running worker; one that is not running learns it from `state` when it starts."""
        if self._process is not None and self.is_running:
            self._write(self._process, {"method": method, "params": params})

    async def close(self) -> None:
        """End the worker. What it had not written yet it finds again at the next start."""
        self._is_closed = True
        if self._process is None or self._reader is None:
            return
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            async with asyncio.timeout(EXIT_LIMIT_S):
                await self._process.wait()
        except TimeoutError:
            self._process.kill()
            await self._process.wait()
        await self._reader

    async def _spawn(self) -> None:
        self._log.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if self._log.exists() and self._log.stat().st_size > MAX_LOG_BYTES:
            self._log.replace(self._log.with_suffix(".log.1"))
        try:
            with self._log.open("ab") as log:
                self._process = await asyncio.create_subprocess_exec(
                    *self._command,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=log,
                    cwd=self._log.parent,
                    limit=MAX_LINE_BYTES,
                    start_new_session=True,  # Ctrl-C in a terminal is meant for its parent
                )
        except OSError as error:
            self._backoff.failed()
            raise WorkerError(f"the index's worker cannot start: {error}") from error
        self._reader = asyncio.create_task(self._read(self._process))
        for method, params in self._state():
            self._write(self._process, {"method": method, "params": params})

    async def _send(self, message: Mapping[str, Any]) -> None:
        process = self._process
        assert process is not None and process.stdin is not None
        self._write(process, message)
        with suppress(ConnectionError):  # The reader sees its end and fails the request.
            await process.stdin.drain()

    def _write(self, process: asyncio.subprocess.Process, message: Mapping[str, Any]) -> None:
        assert process.stdin is not None
        process.stdin.write(json.dumps(message).encode("ascii") + b"\n")

    async def _read(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdout is not None
        with suppress(ConnectionError):
            async for line in process.stdout:
                self._take(json.loads(line))
        status = await process.wait()
        if not self._is_closed:
            self._backoff.failed()
            logger.warning("The index's worker ended with status %d; see %s", status, self._log)
            self._on_event("ended", {"status": status})
        for answer in self._answers.values():
            if not answer.done():
                answer.set_exception(WorkerError(f"the index's worker ended; see {self._log}"))

    def _take(self, message: Mapping[str, Any]) -> None:
        if "id" not in message:
            self._on_event(message["method"], message["params"])
            return
        self._backoff.succeeded()
        answer = self._answers.get(message["id"])
        if answer is None or answer.done():
            return
        if "error" in message:
            answer.set_exception(WorkerError(message["error"]))
        else:
            answer.set_result(message["result"])

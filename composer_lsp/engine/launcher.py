"""Finds the engine of this machine and user, and starts it when there is none.

Several windows do so at once: whoever holds the start lock looks again before it starts one. The
system frees the lock of a dead process.
"""

import asyncio
import logging
import re
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from importlib.metadata import version

from composer_inference.endpoint import (
    Endpoint,
    EndpointError,
    find_endpoint,
    private_runtime_dir,
)
from composer_lsp.config import EngineSettings
from composer_lsp.engine.backoff import Backoff
from composer_lsp.engine.errors import (
    BackingOffError,
    EngineStartError,
    IncompatibleEngineError,
)
from composer_lsp.engine.probe import EngineHealth, read_health, request_drain
from composer_lsp.engine.spawn import SpawnedEngine, spawn_engine

logger = logging.getLogger(__name__)

ENGINE_API = 1
"""The number that `/health` gives for the API spoken here."""

_POLL_S = 0.05
_START_LIMIT_S = 60.0
_DRAIN_LIMIT_S = 15.0


class Launcher:
    """The engine that one window uses. Lives on one event loop.

    After crashes it waits longer and longer before the next start; an answer resets that.
    """

    def __init__(
        self,
        settings: Callable[[], EngineSettings],
        *,
        arguments: Sequence[str] = (),
        backoff: Backoff | None = None,
    ) -> None:
        """`arguments` are added to the command line of an engine that this window starts."""
        self._settings = settings
        self._arguments = tuple(arguments)
        self._backoff = backoff or Backoff()
        self._endpoint: Endpoint | None = None
        self._has_worked = True
        self._finding: asyncio.Task[Endpoint] | None = None
        self._last_error: Exception | None = None
        self._spawned: SpawnedEngine | None = None

    @property
    def endpoint(self) -> Endpoint | None:
        """The engine in use, None before the first `ensure` and while it is lost."""
        return self._endpoint

    @property
    def is_backing_off(self) -> bool:
        """Whether the next `ensure` without `at_once` is told to wait."""
        is_idle = self._endpoint is None and self._finding is None
        return is_idle and self._backoff.remaining_s > 0

    async def ensure(self, *, at_once: bool = False) -> Endpoint:
        """The engine's endpoint, started if need be. Cancelling a call does not stop the start.
        `at_once` skips the back-off, for a user who asks explicitly.

        Raises: EngineError, EndpointError.
        """
        if self._endpoint is not None:
            return self._endpoint
        if self._finding is None:
            if self.is_backing_off and not at_once:
                raise BackingOffError(
                    self._last_error or EngineStartError("the engine stopped again and again"),
                    self._backoff.remaining_s,
                )
            self._finding = asyncio.create_task(self._find())
            self._finding.add_done_callback(self._found)
        return await asyncio.shield(self._finding)

    def worked(self) -> None:
        """The engine has answered."""
        if not self._has_worked:
            self._has_worked = True
            self._backoff.succeeded()

    def lost(self, endpoint: Endpoint, error: Exception | None = None) -> None:
        """The engine that `ensure` returned as this object does not answer any more; `error` is
        what is told of it while the next start has to wait."""
        if self._endpoint is not endpoint:
            return
        self._endpoint = None
        if not self._has_worked:
            self._last_error = error
            self._backoff.failed()

    async def restart(self) -> Endpoint:
        """Drain the running engine, which lets other windows finish, and start another."""
        endpoint = find_endpoint()
        if endpoint is not None and (health := await read_health(endpoint)) is not None:
            await _replace(endpoint, health)
        self._endpoint = None
        self._backoff.succeeded()
        return await self.ensure(at_once=True)

    async def _find(self) -> Endpoint:
        endpoint = await _usable_engine()
        if endpoint is not None:
            return endpoint
        async with _start_lock():
            # Another window may have started one while this one waited for the lock.
            return await _usable_engine() or await self._start()

    async def _start(self) -> Endpoint:
        settings = self._settings()
        self._spawned = spawn_engine(
            (
                f"--threads={settings.threads}",
                f"--context-tokens={settings.context_tokens}",
                f"--idle-exit-s={settings.idle_exit_s}",
                *self._arguments,
            )
        )
        logger.info("started engine %d", self._spawned.process.pid)
        return await _until_ready(self._spawned)

    def _found(self, task: asyncio.Task[Endpoint]) -> None:
        self._finding = None
        if task.cancelled():
            return
        error = task.exception()
        if error is None:
            self._endpoint, self._has_worked, self._last_error = task.result(), False, None
        else:
            self._last_error = error if isinstance(error, Exception) else None
            self._backoff.failed()


async def _usable_engine() -> Endpoint | None:
    """The running engine if this version can use it; an older one is asked to leave.

    Raises: IncompatibleEngineError, EndpointError.
    """
    endpoint = find_endpoint()
    health = await read_health(endpoint) if endpoint is not None else None
    if endpoint is None or health is None:
        return None
    if health.is_draining or _release(health.version) < _release(version("composer-lsp")):
        await _replace(endpoint, health)
        return None
    if health.api != ENGINE_API:
        raise IncompatibleEngineError(
            f"engine {health.pid} of Composer {health.version} speaks API {health.api}, this "
            f"language server speaks {ENGINE_API}; update this installation "
            f"({version('composer-lsp')}), or end the engine with: kill {health.pid}"
        )
    return endpoint


async def _replace(endpoint: Endpoint, health: EngineHealth) -> None:
    """Have an engine leave; it withdraws its endpoint at once and finishes what runs."""
    logger.info("engine %d of version %s is asked to leave", health.pid, health.version)
    await request_drain(endpoint)
    give_up_at = time.monotonic() + _DRAIN_LIMIT_S
    while find_endpoint() is not None:
        successor = await read_health(endpoint)
        if successor is None or successor.pid != health.pid:
            return
        if time.monotonic() > give_up_at:
            raise EngineStartError(
                f"engine {health.pid} of Composer {health.version} does not leave; "
                f"end it with: kill {health.pid}"
            )
        await asyncio.sleep(_POLL_S)


async def _until_ready(spawned: SpawnedEngine) -> Endpoint:
    give_up_at = time.monotonic() + _START_LIMIT_S
    while True:
        status = spawned.exit_status
        endpoint = find_endpoint()
        health = await read_health(endpoint) if endpoint is not None else None
        if endpoint is not None and health is not None and health.api == ENGINE_API:
            return endpoint
        if status is not None:
            raise EngineStartError(
                f"the engine ended with status {status} before it answered: "
                f"{spawned.log_tail() or 'it logged nothing'} (log: {spawned.log})"
            )
        if time.monotonic() > give_up_at:
            spawned.process.terminate()
            raise EngineStartError(
                f"the engine did not answer within {_START_LIMIT_S:.0f} s (log: {spawned.log})"
            )
        await asyncio.sleep(_POLL_S)


@asynccontextmanager
async def _start_lock() -> AsyncGenerator[None, None]:
    from filelock import FileLock, Timeout

    path = private_runtime_dir() / "start.lock"
    lock = FileLock(path, mode=0o600)
    while True:
        try:
            lock.acquire(timeout=0)
            break
        except Timeout:
            await asyncio.sleep(_POLL_S)
        except OSError as error:
            raise EndpointError(f"cannot lock {path}: {error.strerror}") from error
    try:
        yield
    finally:
        lock.release()


def _release(text: str) -> tuple[int, ...]:
    match = re.match(r"\d+(?:\.\d+)*", text)
    return tuple(int(part) for part in match.group().split(".")) if match else ()

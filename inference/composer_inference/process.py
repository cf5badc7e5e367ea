"""The engine process: one a machine and user, at the endpoint that language servers look for.

The lock file says who is the engine: it is held for as long as the engine accepts requests. Whoever
holds it may remove a stale socket. A draining engine withdraws its socket and lets go of the lock
first, so that its successor starts while the last requests finish. An engine whose socket somebody
removed drains as well.
"""

import asyncio
import logging
import os
import signal
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager

import uvicorn
from starlette.applications import Starlette

from composer_inference.api.app import create_app
from composer_inference.endpoint import (
    Endpoint,
    TcpEndpoint,
    bind_endpoint,
    is_announced,
    withdraw_endpoint,
)
from composer_inference.engine import Engine
from composer_inference.engine_lock import EngineLock
from composer_inference.loader import Loader

logger = logging.getLogger(__name__)

IDLE_CHECK_S = 1.0


def run(loader: Loader, *, idle_exit_s: float) -> None:
    """Serve until drained, ended by a signal, or `idle_exit_s` seconds (0: never) without a
    request.

    Raises: AlreadyRunningError, EndpointError.
    """
    lock = EngineLock()
    lock.acquire()
    try:
        asyncio.run(_EngineProcess(loader, idle_exit_s, lock).serve())
    finally:
        lock.release()


class _EngineProcess:
    def __init__(self, loader: Loader, idle_exit_s: float, lock: EngineLock) -> None:
        self._loader = loader
        self._idle_exit_s = idle_exit_s
        self._lock = lock

    async def serve(self) -> None:
        listener, endpoint = bind_endpoint()
        engine = Engine(self._loader, on_drain=lambda: self._drain(endpoint))
        token = endpoint.token if isinstance(endpoint, TcpEndpoint) else None
        self._server = _make_server(create_app(engine, token=token))
        logger.info("engine %d listens at %s", os.getpid(), endpoint)
        idle = asyncio.create_task(self._leave_when_due(engine, endpoint))
        try:
            await self._server.serve(sockets=[listener])
        finally:
            idle.cancel()
            withdraw_endpoint(endpoint)
            await engine.close()

    def _drain(self, endpoint: Endpoint) -> None:
        withdraw_endpoint(endpoint)
        self._lock.release()
        self._server.should_exit = True

    async def _leave_when_due(self, engine: Engine, endpoint: Endpoint) -> None:
        while True:
            await asyncio.sleep(IDLE_CHECK_S)
            if not is_announced(endpoint):
                # Nobody can find this engine, and its lock keeps everybody from starting another.
                logger.warning("%s was removed or replaced; leaving", endpoint)
                engine.drain()
                return
            idle_s = time.monotonic() - engine.last_active
            if 0 < self._idle_exit_s <= idle_s and not engine.busy:
                logger.info("no request for %.0f s; leaving", idle_s)
                engine.drain()
                return


class _Server(uvicorn.Server):
    @contextmanager
    def capture_signals(self) -> Generator[None]:
        # uvicorn raises a caught signal once more when it is done, which would end the process
        # before the endpoint is withdrawn and the models are freed.
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self.handle_exit, number, None)
        yield


def _make_server(app: Starlette) -> uvicorn.Server:
    # asyncio's loop has no signal handlers on Windows; there uvicorn's own way has to do.
    kind = uvicorn.Server if sys.platform == "win32" else _Server
    return kind(
        uvicorn.Config(
            app,
            log_config=None,
            access_log=False,
            lifespan="off",
            ws="none",
            timeout_keep_alive=3600,
        )
    )

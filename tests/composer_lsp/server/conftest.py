import asyncio
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest
import pytest_asyncio

from tests.support.lsp import LIMIT_S, LspClient, start_server

FAKE_SERVER = (sys.executable, str(Path(__file__).with_name("fake_server.py")))

StartFake = Callable[..., AbstractAsyncContextManager[LspClient]]


@pytest.fixture
def directory() -> Iterator[Path]:
    # A worker of the server's may still write while it leaves.
    with tempfile.TemporaryDirectory(prefix="c-", ignore_cleanup_errors=True) as path:
        yield Path(path)


class Events:
    """What the fake service reported."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def all(self) -> list[str]:
        return self._path.read_text(encoding="utf-8").splitlines() if self._path.exists() else []

    async def wait_for(self, event: str, *, times: int = 1) -> None:
        async with asyncio.timeout(LIMIT_S):
            while self.all().count(event) < times:
                await asyncio.sleep(0.005)


@pytest.fixture
def events(directory: Path) -> Events:
    return Events(directory / "events")


@pytest.fixture
def start_fake(directory: Path, events: Events) -> StartFake:
    """Starts the server over the fake service; not initialized."""

    def start(**env: str) -> AbstractAsyncContextManager[LspClient]:
        env = {"FAKE_EVENTS": str(directory / "events"), **env}
        return start_server(directory, command=FAKE_SERVER, env=env)

    return start


@pytest.fixture
async def client(start_fake: StartFake) -> AsyncIterator[LspClient]:
    """An initialized client of the server over the fake service."""
    async with start_fake() as client:
        await client.initialize()
        yield client


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def shared_client() -> AsyncIterator[LspClient]:
    """An initialized client that tests share which leave the server as they find it; they carry
    `pytest.mark.asyncio(loop_scope="module")`."""
    # A worker of the server's may still write while it leaves.
    with tempfile.TemporaryDirectory(prefix="c-", ignore_cleanup_errors=True) as path:
        env = {"FAKE_EVENTS": str(Path(path) / "events")}
        async with start_server(Path(path), command=FAKE_SERVER, env=env) as client:
            await client.initialize()
            yield client

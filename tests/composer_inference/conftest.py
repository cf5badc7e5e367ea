"""The engine's application over a scripted backend, on a real Unix socket."""

import json
import shutil
import socket
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest
import uvicorn

from composer_inference.api.app import create_app
from composer_inference.engine import Engine
from composer_inference.loader import Loader, ScriptedLoader

LIMIT_S = 60.0


@pytest.fixture
def short_dir() -> Iterator[Path]:
    """A folder whose sockets stay within the system's limit for their paths."""
    path = Path(tempfile.mkdtemp(prefix="c-"))
    yield path
    shutil.rmtree(path)


@pytest.fixture
def serve(short_dir: Path) -> Iterator[Callable[..., Path]]:
    """`serve(rules)` or `serve(loader=…)` starts an engine's application; returns its socket."""
    stops: list[Callable[[], None]] = []

    def start(
        rules: list[dict[str, object]] | None = None,
        *,
        loader: Loader | None = None,
        token: str | None = None,
    ) -> Path:
        if loader is None:
            script = short_dir / "script.json"
            script.write_text(json.dumps({"rules": rules or []}))
            loader = ScriptedLoader(script)
        path = short_dir / f"{len(stops)}.sock"
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(str(path))
        listener.listen()  # A client may connect before the thread has started.
        engine = Engine(loader, on_drain=lambda: None)
        config = uvicorn.Config(create_app(engine, token=token), log_config=None, lifespan="off")
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
        thread.start()

        def stop() -> None:
            server.should_exit = server.force_exit = True
            thread.join(LIMIT_S)

        stops.append(stop)
        return path

    yield start
    for stop in stops:
        stop()


@pytest.fixture
def client() -> Iterator[Callable[[Path], httpx.Client]]:
    """`client(socket)` is an HTTP client of the engine at that socket."""
    opened: list[httpx.Client] = []

    def connect(path: Path) -> httpx.Client:
        made = httpx.Client(
            transport=httpx.HTTPTransport(uds=str(path)), base_url="http://engine", timeout=LIMIT_S
        )
        opened.append(made)
        return made

    yield connect
    for made in opened:
        made.close()

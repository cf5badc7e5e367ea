"""Engine processes and the peer's server, for the length of a block."""

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncGenerator, Generator, Mapping
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import httpx

from composer_inference.models.store import ModelStore
from tests.support.lsp import server_environment

MODEL = "qwen2.5-coder-0.5b"
START_LIMIT_S = 60

PEER = """
import sys, xllamacpp
params = xllamacpp.CommonParams()
params.model.path, params.hostnames = sys.argv[1], [sys.argv[2]]
params.n_ctx, params.n_parallel, params.verbosity = 8192, 1, -1
params.cpuparams.n_threads = params.cpuparams_batch.n_threads = int(sys.argv[3])
for name, value in (option.split("=") for option in sys.argv[4:]):
    setattr(params, name, int(value))
server = xllamacpp.Server(params)
sys.stdin.read()
"""
"""llama.cpp's own HTTP server with its defaults but for the options given, and as many threads as ours."""


@asynccontextmanager
async def scripted_engine(folder: Path, script: Path) -> AsyncGenerator[httpx.AsyncClient]:
    arguments = ["--backend", "scripted", "--script", str(script)]
    async with _engine(folder, arguments, server_environment(folder)) as client:
        yield client


@asynccontextmanager
async def real_engine(
    folder: Path, model: str = MODEL, *, env: Mapping[str, str] | None = None
) -> AsyncGenerator[httpx.AsyncClient]:
    """Our engine with a model that is installed for this user, loaded. `env` is added to its
    environment."""
    own = server_environment(folder)
    del own["COMPOSER_DATA_DIR"]
    async with _engine(folder, [], {**own, **(env or {})}) as client:
        (await client.post("/composer/load", json={"model": model})).raise_for_status()
        yield client


@asynccontextmanager
async def peer_server(
    folder: Path, threads: int, model: str = MODEL, *, options: Mapping[str, int] | None = None
) -> AsyncGenerator[httpx.AsyncClient]:
    """`options`: fields of llama.cpp's `common_params`."""
    path = folder / "peer.sock"
    given = [f"{name}={value}" for name, value in (options or {}).items()]
    arguments = [str(ModelStore().path(model)), str(path), str(threads), *given]
    with _process([sys.executable, "-c", PEER, *arguments], {}, folder) as process:
        async with _client(path) as client:
            await _until_ready(client, process)
            yield client


@asynccontextmanager
async def _engine(
    folder: Path, arguments: list[str], env: Mapping[str, str]
) -> AsyncGenerator[httpx.AsyncClient]:
    command = [sys.executable, "-m", "composer_lsp", "engine", *arguments]
    with _process(command, env, folder) as process:
        async with _client(folder / "r" / "engine.sock") as client:
            await _until_ready(client, process)
            yield client


@contextmanager
def _process(
    command: list[str], env: Mapping[str, str], cwd: Path
) -> Generator[subprocess.Popen[bytes]]:
    running = subprocess.Popen(
        command,
        env={**os.environ, **env},
        cwd=cwd,  # Python would find what lies in the benchmark's own folder before another version.
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        yield running
    finally:
        running.terminate()
        running.wait(START_LIMIT_S)


def _client(path: Path) -> httpx.AsyncClient:
    transport = httpx.AsyncHTTPTransport(uds=str(path))
    return httpx.AsyncClient(transport=transport, base_url="http://engine", timeout=600)


async def _until_ready(client: httpx.AsyncClient, process: subprocess.Popen[bytes]) -> None:
    async with asyncio.timeout(START_LIMIT_S):
        while True:
            if process.poll() is not None:
                raise RuntimeError(f"the server ended with {process.returncode}")
            try:
                if (await client.get("/health")).status_code == 200:
                    return
            except httpx.TransportError:
                pass
            await asyncio.sleep(0.05)

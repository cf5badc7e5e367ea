"""Finding, starting, replacing and losing the engine, with real processes."""

import asyncio
import os
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncGenerator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path

import pytest
from filelock import FileLock
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from composer_inference.endpoint import (
    UnixEndpoint,
    UnsafeRuntimeDirError,
    bind_endpoint,
    find_endpoint,
    private_runtime_dir,
    withdraw_endpoint,
)
from composer_lsp.completion.templates import FimPrompt
from composer_lsp.config import EngineSettings, TabSettings
from composer_lsp.engine.backoff import Backoff
from composer_lsp.engine.errors import (
    BackingOffError,
    EngineError,
    EngineStartError,
    IncompatibleEngineError,
)
from composer_lsp.engine.launcher import Launcher
from composer_lsp.engine.local import LocalTabEngine
from composer_lsp.engine.probe import EngineHealth, read_health
from composer_lsp.engine.spawn import engine_log_path
from tests.composer_lsp.engine.conftest import engine_processes
from tests.composer_lsp.engine.servers import serving

LIMIT_S = 60
QUICK = FimPrompt(prefix="quick", suffix="")
SLOW = FimPrompt(prefix="slow", suffix="")


def launcher(script: Path, backoff: Backoff | None = None) -> Launcher:
    return Launcher(
        EngineSettings,
        arguments=("--backend=scripted", f"--script={script}"),
        backoff=backoff,
    )


async def health_of(found: Launcher) -> EngineHealth:
    async with asyncio.timeout(LIMIT_S):
        health = await read_health(await found.ensure())
    assert health is not None
    return health


async def text_of(engine: LocalTabEngine, prompt: FimPrompt = QUICK) -> str:
    async with (
        asyncio.timeout(LIMIT_S),
        aclosing(engine.complete(prompt, max_tokens=64, stop=(), invoked=False)) as chunks,
    ):
        return "".join([chunk.text async for chunk in chunks])


@asynccontextmanager
async def other_engine(*, version: str, api: int = 1) -> AsyncGenerator[list[str], None]:
    """An engine of another version in this process; yields the paths it was asked for."""
    listener, endpoint = bind_endpoint()
    seen: list[str] = []

    async def health(request: Request) -> JSONResponse:
        return JSONResponse(
            {"status": "ok", "version": version, "api": api, "pid": os.getpid(), "models": []}
        )

    async def drain(request: Request) -> JSONResponse:
        seen.append(request.url.path)
        withdraw_endpoint(endpoint)
        return JSONResponse({}, 202)

    app = Starlette(
        routes=[Route("/health", health), Route("/composer/drain", drain, methods=["POST"])]
    )
    async with serving(app, listener):
        yield seen
    withdraw_endpoint(endpoint)


async def test_engine_is_started_and_found_again(script: Path) -> None:
    first = await health_of(launcher(script))
    assert first.status == "ok" and first.api == 1
    assert (await health_of(launcher(script))).pid == first.pid


async def test_engine_outlives_its_window_and_stands_apart(homes: Path, script: Path) -> None:
    window = await open_window(script)
    async with asyncio.timeout(LIMIT_S):
        pid = int((await window.communicate())[0])
    [process] = engine_processes(homes)
    assert process.pid == pid == os.getsid(pid)
    assert process.cwd() == str(engine_log_path().parent)


async def test_three_windows_at_once_make_one_engine(homes: Path, script: Path) -> None:
    windows = [await open_window(script) for _ in range(3)]
    async with asyncio.timeout(LIMIT_S):
        outputs = [(await window.communicate())[0] for window in windows]
    assert len({int(output) for output in outputs}) == 1
    assert len(engine_processes(homes)) == 1


async def test_requests_of_one_window_share_the_start(homes: Path, script: Path) -> None:
    found = launcher(script)
    async with asyncio.timeout(LIMIT_S):
        endpoints = await asyncio.gather(*(found.ensure() for _ in range(5)))
    assert all(endpoint is endpoints[0] for endpoint in endpoints)
    assert len(engine_processes(homes)) == 1


async def test_cancelled_request_does_not_stop_the_start(script: Path) -> None:
    found = launcher(script)
    task = asyncio.create_task(found.ensure())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (await health_of(found)).status == "ok"


async def test_socket_of_a_dead_engine_is_taken_over(homes: Path, script: Path) -> None:
    listener, _ = bind_endpoint()
    listener.close()
    assert find_endpoint() is not None
    assert (await health_of(launcher(script))).status == "ok"


async def test_lock_files_of_dead_processes_are_taken_over(homes: Path, script: Path) -> None:
    for name in ("start.lock", "engine.lock"):
        hold_lock_and_die(private_runtime_dir() / name)
    assert (await health_of(launcher(script))).status == "ok"


async def test_older_engine_is_drained_and_replaced(homes: Path, script: Path) -> None:
    async with other_engine(version="0.0.0.dev1") as seen:
        health = await health_of(launcher(script))
    assert seen == ["/composer/drain"]
    assert health.pid != os.getpid()


async def test_newer_engine_of_the_same_api_is_used(homes: Path, script: Path) -> None:
    async with other_engine(version="999.1") as seen:
        assert (await health_of(launcher(script))).version == "999.1"
    assert seen == []
    assert engine_processes(homes) == []


async def test_newer_engine_of_another_api_is_told(homes: Path, script: Path) -> None:
    async with other_engine(version="999.1", api=2):
        with pytest.raises(IncompatibleEngineError, match=rf"999\.1.*API 2.*kill {os.getpid()}"):
            await launcher(script).ensure()


async def test_something_else_at_the_socket_is_told(homes: Path, script: Path) -> None:
    """Another process holds the engine's lock and does not answer."""
    with (
        FileLock(private_runtime_dir() / "engine.lock"),
        pytest.raises(EngineStartError, match="already runs"),
    ):
        await launcher(script).ensure()


async def test_engine_that_cannot_start_says_why_and_is_left_alone(homes: Path) -> None:
    backoff = Backoff(first_s=100, longest_s=100)
    broken = Launcher(EngineSettings, arguments=("--backend=scripted",), backoff=backoff)
    with pytest.raises(EngineStartError, match=r"status 2.*--script FILE.*engine\.log"):
        await broken.ensure()
    with pytest.raises(BackingOffError, match=r"--script FILE.*next try in"):
        await broken.ensure()
    with pytest.raises(EngineStartError):
        await broken.ensure(at_once=True)


async def test_planted_runtime_folder_is_refused(homes: Path, script: Path) -> None:
    (homes / "r").mkdir(mode=0o777)
    (homes / "r").chmod(0o777)
    with pytest.raises(UnsafeRuntimeDirError, match="chmod 700"):
        await launcher(script).ensure()
    assert engine_processes(homes) == []


async def test_completion_starts_the_engine(homes: Path, script: Path) -> None:
    engine = LocalTabEngine(launcher(script), TabSettings)
    assert (await text_of(engine)).strip() == "one two three"
    await engine.aclose()


async def test_loopback_port_with_a_token(
    homes: Path, script: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COMPOSER_ENGINE_TRANSPORT", "tcp")
    engine = LocalTabEngine(launcher(script), TabSettings)
    assert (await text_of(engine)).strip() == "one two three"
    await engine.aclose()


async def test_engine_killed_between_completions_is_replaced_unnoticed(
    homes: Path, script: Path
) -> None:
    found = launcher(script)
    engine = LocalTabEngine(found, TabSettings)
    await text_of(engine)
    pid = (await health_of(found)).pid
    os.kill(pid, signal.SIGKILL)
    assert (await text_of(engine)).strip() == "one two three"
    assert (await health_of(found)).pid != pid
    await engine.aclose()


async def test_engine_killed_during_a_completion_costs_that_one_only(
    homes: Path, script: Path
) -> None:
    found = launcher(script)
    engine = LocalTabEngine(found, TabSettings)
    pid = (await health_of(found)).pid
    chunks = engine.complete(SLOW, max_tokens=5000, stop=(), invoked=False)
    async with asyncio.timeout(LIMIT_S), aclosing(chunks):
        assert await anext(chunks)
        os.kill(pid, signal.SIGKILL)
        with pytest.raises(EngineError) as raised:
            async for _ in chunks:
                pass
    assert raised.value.is_transient
    for _ in range(3):
        assert (await text_of(engine)).strip() == "one two three"
    await engine.aclose()


async def test_engine_that_dies_again_and_again_is_left_alone(homes: Path, script: Path) -> None:
    backoff = Backoff(first_s=100, longest_s=100)
    found = launcher(script, backoff)
    for _ in range(2):
        endpoint = await found.ensure()
        health = await read_health(endpoint)
        assert health is not None
        os.kill(health.pid, signal.SIGKILL)
        found.lost(endpoint)
        assert backoff.remaining_s > 0
        with pytest.raises(BackingOffError, match="again and again"):
            await found.ensure()
        backoff.succeeded()


async def test_restart_lets_running_requests_finish(homes: Path, script: Path) -> None:
    found = launcher(script)
    engine = LocalTabEngine(found, TabSettings)
    pid = (await health_of(found)).pid
    chunks = engine.complete(SLOW, max_tokens=20, stop=(), invoked=False)
    async with asyncio.timeout(LIMIT_S), aclosing(chunks):
        text = (await anext(chunks)).text
        await found.restart()
        assert (await health_of(found)).pid != pid
        assert (await text_of(engine)).strip() == "one two three"
        async for chunk in chunks:
            text += chunk.text
    assert text.split() == ["word"] * 20
    await engine.aclose()


async def test_closing_the_stream_frees_the_engine(homes: Path, script: Path) -> None:
    found = launcher(script)
    engine = LocalTabEngine(found, TabSettings)
    async with aclosing(engine.complete(SLOW, max_tokens=5000, stop=(), invoked=False)) as chunks:
        await anext(chunks)
    # The scripted answer takes 40 s when nobody stops it.
    async with asyncio.timeout(20):
        assert (await text_of(engine)).strip() == "one two three"
    await engine.aclose()


async def test_file_at_the_sockets_place_that_is_none(homes: Path, script: Path) -> None:
    (private_runtime_dir() / "engine.sock").write_text("")
    endpoint = find_endpoint()
    assert isinstance(endpoint, UnixEndpoint)
    assert await read_health(endpoint) is None
    assert (await health_of(launcher(script))).status == "ok"


async def test_server_that_speaks_no_http_is_no_engine(homes: Path) -> None:
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(private_runtime_dir() / "engine.sock"))
    listener.listen()

    async def babble(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"hello\r\n\r\n")
        writer.close()

    async with await asyncio.start_unix_server(babble, sock=listener):
        endpoint = find_endpoint()
        assert endpoint is not None
        assert await read_health(endpoint) is None


def test_launcher_is_cheap_to_import() -> None:
    code = "import sys, composer_lsp.engine.launcher; print(*sys.modules)"
    modules = subprocess.check_output([sys.executable, "-c", code], text=True).split()
    heavy = {"httpx", "httpcore", "starlette", "uvicorn", "xllamacpp", "tokenizers"}
    assert not heavy & set(modules)


async def open_window(script: Path) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        sys.executable,
        str(Path(__file__).with_name("window.py")),
        str(script),
        stdout=asyncio.subprocess.PIPE,
    )


def hold_lock_and_die(path: Path) -> None:
    code = (
        "import sys, time; from filelock import FileLock;"
        "FileLock(sys.argv[1]).acquire(); print('held', flush=True); time.sleep(600)"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, str(path)], stdout=subprocess.PIPE
    ) as holder:
        assert holder.stdout is not None and holder.stdout.readline() == b"held\n"
        holder.kill()
    assert path.exists()

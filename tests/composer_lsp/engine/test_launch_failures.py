"""What the launcher says where the engine cannot start, and what it makes good by itself."""

import asyncio
import os
import signal
import stat
from contextlib import aclosing
from pathlib import Path

import psutil
import pytest

from composer_inference.endpoint import EndpointError, bind_endpoint, private_runtime_dir
from composer_lsp.completion.templates import FimPrompt
from composer_lsp.config import EngineSettings, TabSettings
from composer_lsp.engine.backoff import Backoff
from composer_lsp.engine.errors import BackingOffError, EngineError, EngineStartError
from composer_lsp.engine.launcher import Launcher
from composer_lsp.engine.local import LocalTabEngine
from composer_lsp.engine.probe import read_health
from composer_lsp.engine.spawn import engine_log_path

LIMIT_S = 60


def launcher(script: Path, backoff: Backoff | None = None) -> Launcher:
    arguments = ("--backend=scripted", f"--script={script}")
    return Launcher(EngineSettings, arguments=arguments, backoff=backoff)


async def engine_pid(found: Launcher) -> int:
    async with asyncio.timeout(LIMIT_S):
        health = await read_health(await found.ensure())
    assert health is not None
    return health.pid


async def test_state_folder_that_cannot_be_made_is_named(
    homes: Path, script: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COMPOSER_STATE_DIR", str(script / "s"))
    with pytest.raises(EngineStartError, match=rf"{script}/s.*COMPOSER_STATE_DIR"):
        await launcher(script).ensure()


async def test_start_lock_that_cannot_be_taken_is_named(homes: Path, script: Path) -> None:
    (private_runtime_dir() / "start.lock").mkdir()
    with pytest.raises(EndpointError, match=r"cannot lock .*start\.lock"):
        await launcher(script).ensure()


async def test_folder_at_the_sockets_place_is_told_without_a_traceback(
    homes: Path, script: Path
) -> None:
    socket = private_runtime_dir() / "engine.sock"
    socket.mkdir()
    with pytest.raises(EngineStartError, match=f"rmdir {socket}") as raised:
        await launcher(script).ensure()
    assert "Traceback" not in str(raised.value)


async def test_log_is_for_its_user_alone(homes: Path, script: Path) -> None:
    log = engine_log_path()
    log.parent.mkdir()
    log.touch(mode=0o644)
    await engine_pid(launcher(script))
    assert stat.S_IMODE(log.stat().st_mode) == 0o600


async def test_engine_whose_socket_was_removed_is_replaced(homes: Path, script: Path) -> None:
    first = await engine_pid(launcher(script))
    (private_runtime_dir() / "engine.sock").unlink()
    assert await engine_pid(launcher(script)) != first
    psutil.Process(first).wait(LIMIT_S)


async def test_stopped_engine_is_named(
    homes: Path, script: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("composer_lsp.engine.probe._TIMEOUT_S", 0.2)
    pid = await engine_pid(launcher(script))
    os.kill(pid, signal.SIGSTOP)
    with pytest.raises(EngineStartError, match=rf"process {pid} holds .*kill -9 {pid}"):
        await launcher(script).ensure()


async def test_wait_is_told_in_whole_seconds_and_never_as_none(script: Path) -> None:
    backoff = Backoff(first_s=0.4, clock=lambda: 0.0, jitter=lambda: 0.0)
    broken = Launcher(EngineSettings, arguments=("--backend=scripted",), backoff=backoff)
    assert not broken.is_backing_off
    with pytest.raises(EngineStartError) as reason:
        await broken.ensure()
    assert broken.is_backing_off
    with pytest.raises(BackingOffError, match=r"next try in 1 s") as raised:
        await broken.ensure()
    assert raised.value.reason is reason.value


async def test_death_while_a_model_loads_names_it_and_the_log(script: Path) -> None:
    backoff = Backoff(first_s=100)
    found = launcher(script, backoff)
    engine = LocalTabEngine(found, lambda: TabSettings(model="damaged"))
    listener, endpoint = bind_endpoint()

    async def die(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.close()

    server = await asyncio.start_unix_server(die, sock=listener)
    found._endpoint, found._has_worked = endpoint, False  # pyright: ignore[reportPrivateUsage]
    backoff.failed()
    named = rf"loaded the model damaged.*{engine_log_path()}"
    chunks = engine.complete(FimPrompt(prefix="x", suffix=""), max_tokens=8, stop=(), invoked=False)
    with pytest.raises(EngineError, match=named):
        async with aclosing(chunks):
            await anext(chunks)
    server.close()

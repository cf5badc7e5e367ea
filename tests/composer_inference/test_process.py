"""The engine's process: one at a time, replaced without breaking requests, gone when idle."""

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

LIMIT_S = 60.0
RULES = [
    {"match": "slow", "text": "one two three", "token_delay_ms": 700},
    {"match": "", "text": "quick"},
]

Start = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def start(short_dir: Path) -> Iterator[Start]:
    """`start(*arguments)` runs `composer-lsp engine` on a runtime folder of the test's own."""
    script = short_dir / "script.json"
    script.write_text(json.dumps({"rules": RULES}))
    kinds = ("RUNTIME", "DATA", "STATE", "CACHE")
    env = {**os.environ, **{f"COMPOSER_{kind}_DIR": str(short_dir / kind[0]) for kind in kinds}}
    running: list[subprocess.Popen[str]] = []

    def run(*arguments: str, **variables: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "composer_lsp", "engine", "--backend", "scripted"]
        process = subprocess.Popen(
            [*command, "--script", str(script), *arguments],
            env={**env, **variables}, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        running.append(process)
        return process

    yield run
    for process in running:
        process.kill()
        process.wait()
        process.stderr.close()


@pytest.fixture
def engine(short_dir: Path) -> Iterator[httpx.Client]:
    transport = httpx.HTTPTransport(uds=str(short_dir / "R" / "engine.sock"))
    with httpx.Client(transport=transport, base_url="http://engine", timeout=LIMIT_S) as client:
        yield client


def healthy(engine: httpx.Client) -> dict[str, object]:
    """Wait for an engine that answers."""
    deadline = time.monotonic() + LIMIT_S
    while True:
        try:
            return engine.get("/health").json()
        except httpx.TransportError:
            assert time.monotonic() < deadline, "no engine answers"
            time.sleep(0.02)


def appears(path: Path, process: "subprocess.Popen[str]") -> None:
    deadline = time.monotonic() + LIMIT_S
    while not path.exists():
        assert process.poll() is None, process.stderr.read()
        assert time.monotonic() < deadline, f"no {path}"
        time.sleep(0.02)


def complete(engine: httpx.Client, prompt: str) -> str:
    answer = engine.post("/v1/completions", json={"prompt": prompt})
    return answer.json()["choices"][0]["text"]


def test_a_second_engine_leaves_at_once(start: Start, engine: httpx.Client):
    start()
    pid = healthy(engine)["pid"]
    second = start()
    assert second.wait(LIMIT_S) == 1
    told = second.stderr.read()
    assert f"already runs: process {pid} " in told and f"kill -9 {pid}" in told
    assert healthy(engine)["pid"] == pid


def test_the_socket_of_a_killed_engine_is_taken_over(
    start: Start, engine: httpx.Client, short_dir: Path
):
    first = start()
    healthy(engine)
    first.send_signal(signal.SIGKILL)
    first.wait(LIMIT_S)
    assert (short_dir / "R" / "engine.sock").exists()
    second = start()
    assert healthy(engine)["pid"] == second.pid
    assert complete(engine, "x") == "quick"


def test_draining_finishes_what_runs_and_makes_room(
    start: Start, engine: httpx.Client, short_dir: Path
):
    first = start()
    healthy(engine)
    answers: list[str] = []
    reader = threading.Thread(target=lambda: answers.append(complete(engine, "slow")))
    reader.start()
    transport = httpx.HTTPTransport(uds=str(short_dir / "R" / "engine.sock"))
    with httpx.Client(transport=transport, base_url="http://engine", timeout=LIMIT_S) as other:
        while "composer_running_requests 1" not in other.get("/metrics").text:
            time.sleep(0.02)
        assert other.post("/composer/drain").status_code == 202
    second = start()
    with httpx.Client(
        transport=httpx.HTTPTransport(uds=str(short_dir / "R" / "engine.sock")),
        base_url="http://engine",
        timeout=LIMIT_S,
    ) as successor:
        assert healthy(successor)["pid"] == second.pid
        reader.join(LIMIT_S)
        assert answers == ["one two three"]
        assert first.wait(LIMIT_S) == 0
        assert complete(successor, "x") == "quick", "the old engine took the new one's socket away"


def test_an_idle_engine_leaves(start: Start, engine: httpx.Client, short_dir: Path):
    process = start("--idle-exit-s", "2")
    healthy(engine)
    assert process.wait(LIMIT_S) == 0
    assert not (short_dir / "R" / "engine.sock").exists()


@pytest.mark.parametrize("transport", ["unix", "tcp"])
def test_an_engine_that_cannot_be_found_any_more_makes_room(
    start: Start, short_dir: Path, transport: str
):
    announced = short_dir / "R" / ("engine.sock" if transport == "unix" else "engine.json")
    first = start("--idle-exit-s", "0", COMPOSER_ENGINE_TRANSPORT=transport)
    appears(announced, first)
    announced.unlink()
    second = start("--idle-exit-s", "0", COMPOSER_ENGINE_TRANSPORT=transport)
    appears(announced, second)
    assert first.wait(LIMIT_S) == 0
    assert announced.exists(), "the old engine took the new one's announcement away"


def test_an_engine_whose_folder_was_removed_leaves(start: Start, short_dir: Path):
    process = start("--idle-exit-s", "0")
    appears(short_dir / "R" / "engine.sock", process)
    shutil.rmtree(short_dir / "R")
    assert process.wait(LIMIT_S) == 0


def test_a_stopped_engine_is_named(start: Start, engine: httpx.Client):
    first = start()
    healthy(engine)
    first.send_signal(signal.SIGSTOP)
    second = start()
    assert second.wait(LIMIT_S) == 1
    assert f"process {first.pid} " in second.stderr.read()


def test_a_folder_at_the_sockets_place_is_told(start: Start, short_dir: Path):
    (short_dir / "R").mkdir(mode=0o700)
    (short_dir / "R" / "engine.sock").mkdir()
    process = start()
    assert process.wait(LIMIT_S) == 1
    told = process.stderr.read()
    assert f"rmdir {short_dir / 'R' / 'engine.sock'}" in told and "Traceback" not in told


def test_a_signal_ends_it_cleanly(start: Start, engine: httpx.Client, short_dir: Path):
    process = start()
    healthy(engine)
    engine.close()
    process.terminate()
    assert process.wait(LIMIT_S) in (0, -signal.SIGTERM)
    assert not (short_dir / "R" / "engine.sock").exists()


def test_a_runtime_folder_open_to_others_is_refused(start: Start, short_dir: Path):
    (short_dir / "R").mkdir(mode=0o755)
    process = start()
    assert process.wait(LIMIT_S) == 1
    assert "chmod 700" in process.stderr.read()

"""Two processes that fetch the same model, and one that dies on the way."""

import os
import pickle
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from composer_inference.models.catalog import ModelSpec
from composer_inference.models.download import pull_model
from composer_inference.models.store import ModelStore
from tests.composer_inference.models.conftest import DATA, PART_BYTES

LIMIT_S = 60.0

_PULL = """
import pickle, sys
from pathlib import Path
from composer_inference.models.download import pull_model
from composer_inference.models.store import ModelStore

directory, spec, stop_at = sys.argv[1:]
store = ModelStore(Path(directory), [pickle.loads(bytes.fromhex(spec))])

has_stopped = False

def on_bytes(done, total):
    global has_stopped
    if done > int(stop_at) and not has_stopped:
        has_stopped = True
        print("stopped", flush=True)
        sys.stdin.readline()

model = pull_model(store, "tiny", on_bytes, lambda text: print(text, flush=True))
print("done", model.path, flush=True)
"""

Start = Callable[[int], "subprocess.Popen[str]"]


@pytest.fixture
def store(tmp_path: Path, spec: ModelSpec) -> ModelStore:
    return ModelStore(tmp_path / "models", [spec])


@pytest.fixture
def start(store: ModelStore, spec: ModelSpec) -> Iterator[Start]:
    """`start(n)` pulls in another process, which waits for a line past n bytes."""
    running: list[subprocess.Popen[str]] = []

    def start_one(stop_at: int) -> "subprocess.Popen[str]":
        arguments = [str(store.directory), pickle.dumps(spec).hex(), str(stop_at)]
        process = subprocess.Popen(
            [sys.executable, "-c", _PULL, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        running.append(process)
        return process

    yield start_one
    for process in running:
        process.kill()
        process.communicate()


def _line(process: "subprocess.Popen[str]") -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def test_the_second_waits_and_finds_the_model(
    store: ModelStore, start: Start, write_wheels: Callable[[], list[Path]]
) -> None:
    paths = write_wheels()
    first = start(PART_BYTES)
    assert _line(first) == "stopped"
    second = start(len(DATA))
    assert _line(second) == "another process is fetching tiny; waiting for it"

    assert first.stdin is not None
    first.stdin.write("\n")
    first.stdin.flush()
    assert _line(first).startswith("done")
    for path in paths:
        path.unlink(missing_ok=True)

    assert _line(second) == f"done {store.path('tiny')}"


@pytest.mark.parametrize("sign", [signal.SIGTERM, signal.SIGKILL], ids=["SIGTERM", "SIGKILL"])
def test_the_death_of_one_leaves_the_whole_parts_and_no_lock(
    store: ModelStore, start: Start, write_wheels: Callable[[], list[Path]], sign: signal.Signals
) -> None:
    first, *_ = write_wheels()
    process = start(PART_BYTES)
    assert _line(process) == "stopped"
    os.kill(process.pid, sign)
    process.wait(LIMIT_S)
    assert store.find("tiny") is None

    first.unlink()  # Were it wanted again, the next try would fail.
    assert pull_model(store, "tiny").path.read_bytes() == DATA

"""Windows that come and go, and a folder of very many files."""

import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from tests.composer_index.files.trees import write
from tests.composer_index.worker.grown import grow
from tests.support.workers import LIMIT_S, Worker

FIRST = "def total_price():\n    pass\n"
SECOND = "def sell_umbrella():\n    pass\n"

PARENT = """
import json, subprocess, sys
worker = subprocess.Popen(
    [sys.executable, "-P", "-m", "composer_index.worker", sys.argv[1]],
    stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
)
worker.stdin.write(json.dumps({"method": "open", "params": {"root": sys.argv[2]}}).encode() + b"\\n")
worker.stdin.flush()
for line in worker.stdout:
    if json.loads(line)["method"] == "progress":
        print(worker.pid, flush=True)
        break
sys.stdin.read()
"""


def test_the_worker_leaves_when_its_parent_is_killed(tmp_path: Path):
    """In the middle of a first build, and with nobody to close its input in order."""
    grow(tmp_path / "workspace", 600)
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT, tmp_path / "cache", tmp_path / "workspace"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    try:
        assert parent.stdout is not None
        worker = psutil.Process(int(parent.stdout.readline()))
        assert worker.is_running()
    finally:
        parent.kill()
        parent.wait()
    gone, _ = psutil.wait_procs([worker], LIMIT_S)
    assert gone


def test_the_other_window_takes_over(tmp_path: Path):
    root = tmp_path / "workspace"
    write(root, "shop.py", text=FIRST)
    with Worker(tmp_path / "cache", is_hurried=True) as one:
        one.open(root)
        one.until_current(root)
        with Worker(tmp_path / "cache", is_hurried=True) as other:
            other.open(root)
            other.until(lambda: other.knows("total_price"), "the index of the first")
            assert one.status(root)["is_writer"]
            assert not other.status(root)["is_writer"]
            write(root, "late.py", text=SECOND)
            one.until(lambda: one.knows("sell_umbrella"), "the new file")
            assert other.knows("sell_umbrella")
            one.kill()
            other.until(lambda: other.status(root)["is_writer"], "its turn")
            (root / "shop.py").unlink()
            other.until(lambda: not other.knows("total_price"), "a change after that")
            assert other.messages == []


@pytest.mark.soak
@pytest.mark.skipif(sys.platform != "linux", reason="the most memory that a process had")
def test_two_hundred_thousand_files(tmp_path: Path):
    root, num_files = tmp_path / "workspace", 200_000
    for number in range(num_files):
        path = root / f"d{number % 400}" / f"d{number // 400 % 25}" / f"module_{number}.py"
        if number < 10_000:
            path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"def function_{number}(argument):\n    return argument + {number}\n")
    figures: dict[str, float] = {}
    with Worker(tmp_path / "cache") as worker:
        started = time.monotonic()
        worker.open(root)
        worker.until(lambda: worker.is_idle(root), "all files", limit_s=7200)
        figures["build, s"] = time.monotonic() - started
        figures["build, CPU s"] = sum(psutil.Process(worker.process.pid).cpu_times()[:4])
        figures["build, most MB"] = most_megabytes(worker)
        assert worker.status(root)["num_files"] == num_files
        assert worker.knows("function_199999")
        figures["disk, MB"] = worker.status(root)["disk_bytes"] / 1e6
    write(root, "d3/late.py", text=SECOND)
    with Worker(tmp_path / "cache") as worker:
        started = time.monotonic()
        worker.open(root)
        worker.until(lambda: worker.knows("sell_umbrella"), "what changed meanwhile", limit_s=600)
        figures["reconcile after a restart, s"] = time.monotonic() - started
        worker.until_current(root, limit_s=600)
        figures["after a restart, most MB"] = most_megabytes(worker)
    print(figures)
    assert figures["build, most MB"] < 1500
    assert figures["after a restart, most MB"] < 1500


def most_megabytes(worker: Worker) -> float:
    lines = Path(f"/proc/{worker.process.pid}/status").read_text().splitlines()
    (line,) = [line for line in lines if line.startswith("VmHWM")]
    return int(line.split()[1]) / 1000

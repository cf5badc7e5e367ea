"""SIGKILL of the worker at any moment: no acknowledged file is lost, and no two writes are mixed."""

import random
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.composer_index.files.trees import run_git
from tests.composer_index.worker.contents import check_exact, check_generations
from tests.composer_index.worker.grown import branch_off, grow, marker, markers_in
from tests.support.workers import Worker

MOMENTS = ("first build", "batch", "branch", "compaction")


class Lives:
    """One workspace, and the workers that live and die with it."""

    def __init__(self, folder: Path, num_files: int, seed: int) -> None:
        self.root = folder / "workspace"
        self.cache_dir = folder / "cache"
        self.chance = random.Random(seed)
        self.paths = grow(self.root, num_files)
        branch_off(self.root, self.paths, num_files // 2)
        self.branch = "main"
        self.version = 2
        self.seen: dict[str, str] = {}
        """What the last worker had acknowledged when it was killed: each file's marker."""
        started = time.monotonic()
        with self.worker() as worker:
            worker.until(lambda: found(worker) == markers_in(self.root), "the first index")
        self.build_s = time.monotonic() - started

    def worker(self) -> Worker:
        worker = Worker(self.cache_dir, is_hurried=True)
        worker.open(self.root)
        return worker

    def live_and_die(self, moment: str) -> None:
        if moment == "first build":
            shutil.rmtree(self.cache_dir)
            self.seen = {}
        worker = Worker(self.cache_dir, is_hurried=True)
        with worker:
            worker.open(self.root)
            worker.tell("pause", paused=True)
            worker.until(lambda: worker.status(self.root)["is_writer"], "the lock")
            self.check(worker)
            worker.tell("pause", paused=False)
            if moment == "compaction":
                self.edit()
                worker.until_current(self.root)
            elif moment == "batch":
                self.edit()
            elif moment == "branch":
                self.switch()
            latest = time.monotonic() + self.chance.uniform(0, self.build_s)
            while time.monotonic() < latest:
                self.seen = found(worker)
        assert not any("rebuilt" in text for text in worker.messages)

    def check(self, worker: Worker) -> None:
        """What is kept, before anything is indexed anew: a paused worker's answers."""
        kept, there = found(worker), markers_in(self.root)
        for path, name in self.seen.items():
            if path in there:
                assert path in kept, f"{path} was lost"
                is_newest = kept[path] == there[path]
                assert is_newest or version(kept[path]) >= version(name), f"{path} is an older one"
        check_generations(self.cache_dir, self.root)

    def edit(self) -> None:
        self.version += 1
        for path in self.chance.sample(self.paths, len(self.paths) // 4):
            if path.exists():
                number = int(path.stem.rpartition("_")[2])
                text, _, _ = path.read_text().rpartition("\ndef marker_")
                new = marker(number, self.version)
                path.write_text(f"{text}\ndef {new}():\n    return {number}\n")

    def switch(self) -> None:
        run_git(self.root, "checkout", "-q", "-f", "main")
        self.branch = "other" if self.branch == "main" else "main"
        run_git(self.root, "checkout", "-q", "-f", self.branch)

    def end(self, scratch: Path) -> None:
        with self.worker() as worker:
            worker.until_current(self.root)
            assert found(worker) == markers_in(self.root)
            self.answers = list(_best(worker, self.root))
            worker.close()
        check_exact(self.cache_dir, self.root, scratch)
        with Worker(scratch) as fresh:
            fresh.open(self.root)
            fresh.until_current(self.root)
            assert self.answers == list(_best(fresh, self.root))


def found(worker: Worker) -> dict[str, str]:
    """Each file's marker, as the index knows it."""
    symbols = worker.ask("symbols", query="marker_", limit=1000)
    return {each["path"]: each["name"] for each in symbols}


def version(name: str) -> int:
    return int(name.rpartition("_v")[2])


def _best(worker: Worker, root: Path) -> Iterator[tuple[str, int, int]]:
    for name in sorted(markers_in(root).values())[:50]:
        best = worker.search(name, root, limit=1)[0]
        yield best["path"], best["start_line"], best["end_line"]


@pytest.mark.parametrize(
    ("num_kills", "num_files"),
    [
        pytest.param(4, 60, id="4 times"),
        pytest.param(50, 600, id="50 times", marks=pytest.mark.soak),
    ],
)
def test_a_killed_worker_loses_nothing(tmp_path: Path, num_kills: int, num_files: int):
    lives = Lives(tmp_path, num_files, seed=num_kills)
    for turn in range(num_kills):
        lives.live_and_die(MOMENTS[turn % len(MOMENTS)])
    lives.end(tmp_path / "scratch")

"""SIGKILL of the worker at any moment: no acknowledged file is lost, and no two writes are mixed."""

import random
import re
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.composer_index.files.trees import run_git
from tests.composer_index.worker.contents import check_exact, check_generations
from tests.composer_index.worker.grown import branch_off, grow, marker, markers_in
from tests.support.workers import LIMIT_S, Worker

MOMENTS = ("first build", "batch", "branch", "compaction")

# Dies as it begins one of the commits that come after a file of this name: by SIGKILL, at once.
DYING = """
import os, signal
from pathlib import Path
from lancedb.table import LanceTable
num_commits = 0
def dying(method):
    def call(self, *arguments, **options):
        global num_commits
        num_commits += Path({flag!r}).exists()
        if num_commits > {commit}:
            os.kill(os.getpid(), signal.SIGKILL)
        return method(self, *arguments, **options)
    return call
for name in ("add", "delete", "optimize"):
    setattr(LanceTable, name, dying(getattr(LanceTable, name)))
"""


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
        """Dies at a random moment."""
        if moment == "first build":
            shutil.rmtree(self.cache_dir)
            self.seen = {}
        with self.checked() as worker:
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

    def die_at(self, commit: int) -> None:
        """Dies in the middle of a batch, as it begins one of its commits, counted from 0."""
        flag = self.cache_dir.with_name("flag")
        flag.unlink(missing_ok=True)
        with self.checked(DYING.format(flag=str(flag), commit=commit)) as worker:
            worker.until_current(self.root)
            self.seen = found(worker)
            flag.touch()
            self.edit()
            worker.process.wait(LIMIT_S)

    @contextmanager
    def checked(self, faults: str = "") -> Iterator[Worker]:
        """A worker that has looked at what the last one left, before it changes anything."""
        with Worker(self.cache_dir, is_hurried=True, faults=faults) as worker:
            worker.open(self.root)
            worker.tell("pause", paused=True)
            worker.until(lambda: worker.status(self.root)["is_writer"], "the lock")
            self.check(worker)
            worker.tell("pause", paused=False)
            yield worker
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
        """All is as if nothing had happened."""
        with self.worker() as worker:
            worker.until_current(self.root)
            assert found(worker) == markers_in(self.root)
            answers = list(_best(worker, self.root))
            worker.close()

        def compare(fresh: Worker) -> None:
            assert answers == list(_best(fresh, self.root))

        check_exact(self.cache_dir, self.root, scratch, compare)


MARKER = re.compile(r"marker_\d+_v\d+")


def found(worker: Worker) -> dict[str, str]:
    """Each file's marker, as the index knows it: of up to 500 files."""
    symbols = worker.ask("symbols", query="marker_", limit=1000)
    return {each["path"]: each["name"] for each in symbols if MARKER.fullmatch(each["name"])}


def version(name: str) -> int:
    return int(name.rpartition("_v")[2])


def _best(worker: Worker, root: Path) -> Iterator[tuple[str, int, int]]:
    for name in sorted(markers_in(root).values())[:50]:
        best = worker.search(name, root, limit=1)[0]
        yield best["path"], best["start_line"], best["end_line"]


def test_a_worker_that_is_killed_at_any_commit_loses_nothing(tmp_path: Path):
    """A batch adds to four tables and then deletes from them."""
    lives = Lives(tmp_path, 40, seed=1)
    for commit in (1, 4, 6):
        lives.die_at(commit)
    lives.end(tmp_path / "scratch")


@pytest.mark.parametrize(
    ("num_kills", "num_files"),
    [
        pytest.param(2, 60, id="twice"),
        pytest.param(50, 400, id="50 times", marks=pytest.mark.soak),
    ],
)
def test_a_worker_that_is_killed_at_any_moment_loses_nothing(
    tmp_path: Path, num_kills: int, num_files: int
):
    lives = Lives(tmp_path, num_files, seed=num_kills)
    for turn in range(num_kills):
        lives.live_and_die(MOMENTS[-1 - turn % len(MOMENTS)])
    lives.end(tmp_path / "scratch")


@pytest.mark.soak
def test_a_worker_that_is_killed_at_each_commit_loses_nothing(tmp_path: Path):
    lives = Lives(tmp_path, 200, seed=2)
    for commit in [*range(8)] * 3:
        lives.die_at(commit)
    lives.end(tmp_path / "scratch")

"""A full disk: told once, search goes on, and the index completes itself once there is room."""

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.composer_index.files.trees import write
from tests.support.workers import Worker

FIRST = "def total_price():\n    pass\n"
NUM_FILES = 12

# Every write of the store fails while a file of this name lies in the working folder.
REFUSING = """
from pathlib import Path
from composer_index.store.store import Store
replace = Store._replace
def refuse(self, *arguments):
    if Path({flag!r}).exists():
        with open({tried!r}, "a") as file:
            file.write("x")
        raise RuntimeError("lance error: IO: No space left on device (os error 28)")
    return replace(self, *arguments)
Store._replace = refuse
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    write(tmp_path / "workspace", "shop.py", text=FIRST)
    return tmp_path / "workspace"


def go_through(
    worker: Worker, root: Path, fill: Callable[[], object], free: Callable[[], object]
) -> None:
    worker.open(root)
    worker.until_current(root)
    for turn in range(2):
        fill()
        for number in range(NUM_FILES):
            text = f"def late_{turn}_{number}():\n    pass\n" + "some = other + word\n" * 500
            write(root, f"late_{turn}/module_{number}.py", text=text)
        worker.until(lambda turn=turn: len(told(worker, "stands still")) == turn + 1, "a word")
        assert worker.knows("total_price")
        assert worker.search("total price", root)[0]["path"] == "shop.py"
        worker.tell("changed", paths=[str(root / "shop.py")])
        worker.tell("reconcile")
        assert worker.status(root)["num_files"] >= 1
        free()
        for number in range(NUM_FILES):
            name = f"late_{turn}_{number}"
            worker.until(lambda name=name: worker.knows(name), name)
        assert len(told(worker, "stands still")) == turn + 1
        assert len(told(worker, "there is room")) == turn + 1
    worker.until_current(root)
    assert worker.status(root)["num_files"] == 1 + 2 * NUM_FILES
    assert not told(worker, "not kept current")
    assert not told(worker, "rebuilt")


def told(worker: Worker, part: str) -> list[str]:
    return [text for text in worker.messages if part in text]


def test_a_store_that_finds_no_room(root: Path, tmp_path: Path):
    flag, tried = tmp_path / "full", tmp_path / "tried"
    faults = REFUSING.format(flag=str(flag), tried=str(tried))

    def free() -> None:
        worker.until(lambda: tried.stat().st_size > 3, "more than one try")
        flag.unlink()
        tried.unlink()

    with Worker(tmp_path / "cache", is_hurried=True, faults=faults) as worker:
        go_through(worker, root, flag.touch, free)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 24 MB, where the user may mount one."""
    folder = tmp_path / "small"
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=24m", "tmpfs", str(folder)], capture_output=True
    )
    if mounted.returncode:
        pytest.skip("needs the right to mount")
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


@pytest.mark.parametrize("with_temporary", [False, True], ids=["cache", "cache and /tmp"])
def test_a_full_file_system(root: Path, small_disk: Path, with_temporary: bool):
    filler = small_disk / "filler"

    def fill() -> None:
        with filler.open("wb", buffering=0) as file, pytest.raises(OSError, match="No space"):
            while True:
                file.write(bytes(4096))

    environment = {"TMPDIR": str(small_disk)} if with_temporary else {}
    with Worker(small_disk / "cache", is_hurried=True, environment=environment) as worker:
        go_through(worker, root, fill, filler.unlink)

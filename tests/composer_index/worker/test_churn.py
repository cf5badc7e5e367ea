"""Files that change while they are read: nothing outside is read, and in the end all is exact."""

import os
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.composer_index.files.trees import write
from tests.composer_index.worker.contents import check_exact
from tests.support.workers import Worker

CANARY = "def canary_of_outside():\n    pass\n"


def _grow(path: Path, outside: Path) -> None:
    with path.open("a") as file:
        file.write("def grown():\n    pass\n" * 50)


def _shrink(path: Path, outside: Path) -> None:
    with path.open("r+") as file:
        file.truncate(path.stat().st_size // 2)


def _vanish(path: Path, outside: Path) -> None:
    path.unlink()


def _link(path: Path, outside: Path) -> None:
    path.unlink()
    path.symlink_to(outside / "canary.py")


def _pipe(path: Path, outside: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def _folder(path: Path, outside: Path) -> None:
    path.unlink()
    path.mkdir()


def _replace_folder(path: Path, outside: Path) -> None:
    former = path.parent.with_name(f"{path.parent.name}_former")
    path.parent.rename(former)
    path.parent.symlink_to(outside)
    path.parent.unlink()
    former.rename(path.parent)


ACTS: list[Callable[[Path, Path], None]] = [
    *(_grow, _shrink, _vanish, _link, _pipe, _folder, _replace_folder)
]


def restore(path: Path) -> None:
    if path.is_symlink() or path.is_fifo():
        path.unlink()
    elif path.is_dir():
        path.rmdir()
    path.write_text(f"def plain_{path.stem}():\n    pass\n" * 30)


@pytest.mark.skipif(os.name == "nt", reason="links and pipes")
@pytest.mark.parametrize("num_acts", [400, pytest.param(20_000, marks=pytest.mark.soak)])
def test_files_that_change_while_they_are_read(tmp_path: Path, num_acts: int):
    root, outside = tmp_path / "workspace", tmp_path / "outside"
    write(outside, "canary.py", "module_0.py", "module_1.py", text=CANARY)
    paths = [root / f"package_{n % 5}" / f"module_{n}.py" for n in range(50)]
    for path in paths:
        path.parent.mkdir(parents=True, exist_ok=True)
        restore(path)
    chance = random.Random(num_acts)
    with Worker(tmp_path / "cache", is_hurried=True) as worker:
        worker.open(root)
        for turn in range(num_acts):
            path = chance.choice(paths)
            if path.is_file() and not path.is_symlink():
                chance.choice(ACTS)(path, outside)
            else:
                restore(path)
            if turn % 20 == 0:
                assert not worker.knows("canary_of_outside")
                assert not any("canary" in found["text"] for found in worker.search("canary"))
        worker.until_current(root)
        assert not worker.knows("canary_of_outside")
        assert worker.messages == []
        worker.close()
    check_exact(tmp_path / "cache", root, tmp_path / "scratch")

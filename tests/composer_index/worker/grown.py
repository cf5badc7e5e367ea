"""Repositories of real source files, as large as a test asks for."""

import sysconfig
from collections.abc import Iterator
from itertools import count
from pathlib import Path

from tests.composer_index.files.trees import run_git

MAX_BYTES = 4000


def sources() -> Iterator[str]:
    """Small modules of the standard library, again and again."""
    library = Path(sysconfig.get_path("stdlib"))
    paths = sorted(path for path in library.rglob("*.py") if "site-packages" not in path.parts)
    texts = [
        path.read_text("utf-8", "replace")
        for path in paths
        if 500 < path.stat().st_size < MAX_BYTES and "DO NOT EDIT" not in path.read_text("latin-1")
    ]
    while True:
        yield from texts


def marker(number: int, version: int) -> str:
    """The name of a function that only one version of one file has."""
    return f"marker_{number}_v{version}"


def text_of(source: str, number: int, version: int) -> str:
    return f"{source}\n\ndef {marker(number, version)}():\n    return {number}\n"


def grow(root: Path, num_files: int) -> list[Path]:
    """A repository of so many files in version 1, committed on the branch `main`."""
    root.mkdir(parents=True)
    run_git(root, "init", "-q", "-b", "main")
    run_git(root, "config", "gc.auto", "0")
    paths: list[Path] = []
    for number, source in zip(range(num_files), sources(), strict=False):
        path = root / f"package_{number % 40}" / f"module_{number}.py"
        path.parent.mkdir(exist_ok=True)
        path.write_text(text_of(source, number, 1))
        paths.append(path)
    commit(root, "Grow")
    return paths


def commit(root: Path, message: str) -> None:
    run_git(root, "add", "-A")
    run_git(root, "commit", "-q", "-m", message)


def branch_off(root: Path, paths: list[Path], num_changed: int) -> None:
    """A branch `other` that differs in so many files: a quarter each is gone, changed, new and
    renamed. `main` stays checked out."""
    run_git(root, "checkout", "-q", "-b", "other")
    quarter = num_changed // 4
    gone, changed, renamed = (paths[n * quarter : (n + 1) * quarter] for n in range(3))
    for path in gone:
        path.unlink()
    for path in changed:
        number = int(path.stem.rpartition("_")[2])
        path.write_text(path.read_text().replace(marker(number, 1), marker(number, 2)))
    for path in renamed:
        target = root / "renamed" / path.parent.name / path.name
        target.parent.mkdir(parents=True, exist_ok=True)
        path.rename(target)
    (root / "new").mkdir()
    for number, source in zip(count(len(paths)), sources(), strict=False):
        if number == len(paths) + quarter:
            break
        (root / "new" / f"module_{number}.py").write_text(text_of(source, number, 2))
    commit(root, "Other")
    run_git(root, "checkout", "-q", "main")


def markers_in(root: Path) -> dict[str, str]:
    """Of all files that are on the disk now, by path."""
    found: dict[str, str] = {}
    for path in root.rglob("module_*.py"):
        _, _, tail = path.read_text().rpartition("\ndef marker_")
        found[path.relative_to(root).as_posix()] = "marker_" + tail.partition("(")[0]
    return found

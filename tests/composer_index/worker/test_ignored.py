"""A changed ignore file is obeyed without a restart, and what it hides leaves the disk."""

import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.composer_index.files.trees import repository, write
from tests.support.workers import Worker

HIDDEN = "def secret_recipe():\n    pass\n"
SHOWN = "def total_price():\n    pass\n"


@pytest.fixture(scope="module")
def excludes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("config") / "my ignore file"


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = repository(tmp_path_factory.mktemp("tree") / "workspace")
    write(folder, "kitchen/hidden.py", text=HIDDEN)
    write(folder, "kitchen/shown.py", "shown.py", text=SHOWN)
    return folder


@pytest.fixture(scope="module")
def worker(
    tmp_path_factory: pytest.TempPathFactory, root: Path, excludes: Path
) -> Iterator[Worker]:
    config = excludes.with_name("gitconfig")
    config.write_text(f'[core]\nexcludesFile = "{excludes.as_posix()}"\n')
    environment = {"GIT_CONFIG_GLOBAL": str(config)}
    cache_dir = tmp_path_factory.mktemp("cache")
    with Worker(cache_dir, is_hurried=True, environment=environment) as started:
        started.open(root)
        started.until_current(root)
        yield started


PLACES: dict[str, Callable[[Path, Path], Path]] = {
    ".gitignore": lambda root, excludes: root / ".gitignore",
    "a nested .gitignore": lambda root, excludes: root / "kitchen" / ".gitignore",
    ".composerignore": lambda root, excludes: root / ".composerignore",
    "a nested .composerignore": lambda root, excludes: root / "kitchen" / ".composerignore",
    "info/exclude": lambda root, excludes: root / ".git" / "info" / "exclude",
    "core.excludesFile": lambda root, excludes: excludes,
}


@pytest.mark.parametrize("place", PLACES.values(), ids=list(PLACES))
def test_an_ignore_file_comes_and_goes(
    worker: Worker, root: Path, excludes: Path, place: Callable[[Path, Path], Path]
):
    file = place(root, excludes)
    worker.until(lambda: worker.knows("secret_recipe"), "the file to be there")
    file.write_text("hidden.py\n")
    worker.until(lambda: not worker.knows("secret_recipe"), "it to be obeyed")
    assert worker.search("secret recipe", root) == [] or all(
        found["path"] != "kitchen/hidden.py" for found in worker.search("secret recipe", root)
    )
    assert len(worker.ask("definitions", name="total_price")) == 2
    location = Path(worker.status(root)["location"])
    worker.until(lambda: b"secret_recipe" not in bytes_in(location), "it to leave the disk")
    file.unlink()
    worker.until(lambda: worker.knows("secret_recipe"), "the file to be back")
    assert b"secret_recipe" in bytes_in(location)


def test_a_folder_that_is_ignored(worker: Worker, root: Path):
    (root / ".gitignore").write_text("kitchen/\n")
    worker.until(lambda: not worker.knows("secret_recipe"), "it to be obeyed")
    write(root, "kitchen/later.py", text="def later_recipe():\n    pass\n")
    worker.until_current(root)
    assert not worker.knows("later_recipe")
    (root / ".gitignore").unlink()
    worker.until(lambda: worker.knows("later_recipe"), "the folder to be back")
    assert worker.knows("secret_recipe")


def bytes_in(location: Path) -> bytes:
    data: list[bytes] = []
    for folder, _, names in os.walk(location):
        for name in names:
            with suppress(FileNotFoundError):  # removed just now
                data.append(Path(folder, name).read_bytes())
    return b"".join(data)


@pytest.mark.parametrize("num_times", [20, pytest.param(200, marks=pytest.mark.soak)])
def test_rewriting_files_does_not_grow_the_index(worker: Worker, root: Path, num_times: int):
    paths = [root / f"again_{number}.py" for number in range(30)]

    def rewrite(version: int) -> None:
        for number, path in enumerate(paths):
            text = "".join(
                f"def again_{number}_{part}():\n    return {version}\n\n\n" for part in range(40)
            )
            path.write_text(f"{text}def version_{version}():\n    pass\n")
        worker.until(
            lambda: len(worker.ask("definitions", name=f"version_{version}")) == len(paths),
            f"version {version}",
        )

    def disk_bytes() -> int:
        return worker.status(root)["disk_bytes"]

    rewrite(0)
    worker.ask("rebuild")
    worker.until_current(root)
    fresh = disk_bytes()
    for version in range(1, num_times + 1):
        rewrite(version)
    worker.until(lambda: disk_bytes() < 3 * fresh, f"few bytes again, {fresh} of a fresh index")
    for path in paths:
        path.unlink()
    worker.until_current(root)

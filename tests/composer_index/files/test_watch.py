import asyncio
import os
import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import aclosing
from pathlib import Path

import pytest

from composer_index.files import watch as watch_module
from composer_index.files.changes import Batch
from composer_index.files.listing import list_files
from composer_index.files.observed import ObservedTree
from composer_index.files.reconcile import reconcile
from composer_index.files.watch import WatchConfig, Watcher, batches
from composer_index.ignores import git
from composer_index.ignores.rules import Rules
from tests.composer_index.files.trees import (
    TIMEOUT_S,
    listed,
    repository,
    run_git,
    wait_until,
    write,
)

linux_only = pytest.mark.skipif(sys.platform != "linux", reason="inotify")


class Watched:
    """A watcher that is ready, and all that it has told since."""

    def __init__(self, root: Path, config: WatchConfig | None = None) -> None:
        self.root = root
        self.rules = Rules(root)
        self.told: list[Batch] = []
        self.first: Batch | None = None
        self.watcher = Watcher(Rules(root), self._take, config)
        self.watcher.start()
        wait_until(lambda: self.first is not None, "the first batch")

    def _take(self, batch: Batch) -> None:
        if self.first is None:
            self.first = batch
        else:
            self.told.append(batch)

    @property
    def paths(self) -> set[str]:
        return {path for batch in self.told for path in batch.paths}

    @property
    def folders(self) -> set[str]:
        return {path for batch in self.told for path in batch.folders}

    def is_overflow(self) -> bool:
        return any(batch.is_overflow for batch in self.told)

    def is_root_gone(self) -> bool:
        return any(batch.is_root_gone for batch in self.told)

    def wait_for(self, *paths: str) -> None:
        wait_until(lambda: self.paths >= set(paths), f"{paths}, of which came {self.paths}")

    def settle(self) -> None:
        """Until whatever happened before has been told: a later change is told later."""
        mark = f"mark-{time.monotonic_ns()}"
        write(self.root, mark)
        wait_until(lambda: mark in self.paths or self.is_overflow(), mark)


@pytest.fixture
def watched(tmp_path: Path) -> Iterator[Callable[..., Watched]]:
    made: list[Watched] = []

    def make(root: Path, config: WatchConfig | None = None) -> Watched:
        made.append(Watched(root, config))
        return made[-1]

    yield make
    for each in made:
        each.watcher.close()


def _observed(rules: Rules, wake: Callable[[], None], _: WatchConfig) -> ObservedTree:
    """For a system that watches a tree at once."""
    return ObservedTree(rules, wake)


def num_watches() -> int:
    num = 0
    for place in Path("/proc/self/fdinfo").iterdir():
        try:
            num += sum(line.startswith("inotify") for line in place.read_text().splitlines())
        except OSError:
            continue
    return num


def test_the_first_batch_asks_for_a_reconcile(
    tmp_path: Path, watched: Callable[..., Watched]
) -> None:
    assert watched(tmp_path).first == Batch(is_overflow=True)


@pytest.mark.parametrize("has_git", [True, False])
def test_files(tmp_path: Path, watched: Callable[..., Watched], has_git: bool) -> None:
    root = tmp_path / "r"
    write(root, "a.py", "sub/b.py", "sub/gone.py", "from.py", "atomic.py")
    if has_git:
        repository(root)
    told = watched(root)
    write(root, "a.py", text="changed")
    write(root, "sub/new.py")
    (root / "sub" / "gone.py").unlink()
    (root / "from.py").rename(root / "sub" / "to.py")
    write(root, "atomic.py~")
    (root / "atomic.py~").replace(root / "atomic.py")
    told.wait_for("a.py", "sub/new.py", "sub/gone.py", "from.py", "sub/to.py", "atomic.py")
    assert not told.is_overflow()


def test_hints_close_together_are_one_batch(
    tmp_path: Path, watched: Callable[..., Watched]
) -> None:
    told = watched(tmp_path, WatchConfig(debounce_s=0.5, max_delay_s=TIMEOUT_S))
    for number in range(50):
        write(tmp_path, f"{number}.py")
    told.wait_for("49.py")
    assert len(told.told) == 1


def test_new_nested_folders(tmp_path: Path, watched: Callable[..., Watched]) -> None:
    told = watched(tmp_path)
    files = [f"n{number}/a/b/x.py" for number in range(200)]
    for path in files:
        write(tmp_path, path)
    told.wait_for(*files)
    write(tmp_path, "n7/a/b/later.py")
    told.wait_for("n7/a/b/later.py")


def test_folders_moved_and_deleted(tmp_path: Path, watched: Callable[..., Watched]) -> None:
    root = tmp_path / "r"
    write(root, "one/deep/a.py", "two/b.py", "three/c.py")
    write(tmp_path, "outside/deep/d.py")
    told = watched(root)
    (root / "one").rename(root / "moved")
    told.wait_for("moved/deep/a.py")
    assert "one" in told.folders
    write(root, "moved/deep/new.py")
    told.wait_for("moved/deep/new.py")
    (tmp_path / "outside").rename(root / "inside")
    told.wait_for("inside/deep/d.py")
    shutil.rmtree(root / "two")
    (root / "three").rename(tmp_path / "three")
    wait_until(lambda: told.folders >= {"two", "three"}, "gone folders")
    write(tmp_path, "three/unseen.py")
    told.settle()
    assert not any(path.endswith("unseen.py") for path in told.paths)


@linux_only
def test_ignored_folders_are_not_watched(tmp_path: Path, watched: Callable[..., Watched]) -> None:
    root = repository(tmp_path / "r", "src/a.py")
    write(root, ".gitignore", text="node_modules/\n")
    for number in range(100):
        write(root, f"node_modules/m{number}/lib/i.js")
    told = watched(root)
    assert num_watches() < 10
    write(root, "pkg/src/b.py", "pkg/node_modules/m/lib/i.js")
    told.wait_for("pkg/src/b.py")
    write(root, "pkg/node_modules/m/lib/j.js", "node_modules/m1/lib/j.js")
    told.settle()
    assert not any("node_modules" in path for path in told.paths)
    assert num_watches() < 12


@linux_only
def test_a_changed_ignore_file_changes_what_is_watched(
    tmp_path: Path, watched: Callable[..., Watched]
) -> None:
    root = repository(tmp_path / "r", "src/a.py")
    write(root, ".gitignore", text="out/\n")
    write(root, "out/a.py")
    told = watched(root)
    write(root, ".gitignore", text="src2/\n")
    wait_until(told.is_overflow, "an overflow")
    wait_until(lambda: len(told.told) > 1, "the new folder's watch")
    write(root, "out/b.py")
    told.wait_for("out/b.py")


@pytest.mark.parametrize(
    "where", [".gitignore", "sub/.composerignore", ".git/info/exclude", "mine"]
)
def test_an_ignore_file_takes_effect(
    tmp_path: Path, watched: Callable[..., Watched], monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    config = tmp_path / "config"
    config.mkdir()
    (config / "gitconfig").write_text(f"[core]\nexcludesFile = {config.as_posix()}/mine\n")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(config / "gitconfig"))
    root = repository(tmp_path / "r", "a.py")
    write(root, "sub/x.txt")
    told = watched(root)
    known = [(file.path, file.size, file.changed_ns) for file in list_files(told.rules)]
    write(config if where == "mine" else root, where, text="x.txt\n")
    wait_until(told.is_overflow, "an overflow")
    assert reconcile(known, list_files(told.rules)).gone == ("sub/x.txt",)


def _name_another(root: Path, home: Path) -> None:
    write(home, "other", text="x.txt\n")
    run_git(root, "config", "core.excludesFile", (home / "other").as_posix())


def _name_another_for_all(root: Path, home: Path) -> None:
    write(home, "other", text="x.txt\n")
    run_git(root, "config", "--global", "core.excludesFile", (home / "other").as_posix())


def _appear(root: Path, home: Path) -> None:
    write(home, "git/ignore", text="x.txt\n")


def _include(root: Path, home: Path) -> None:
    write(home, "included", text="[core]\nexcludesFile = other\n")
    write(root, "other", text="x.txt\n")


def _change_its_own(root: Path, home: Path) -> None:
    write(root, "own", text="x.txt\n")


@pytest.mark.parametrize(
    "change", [_name_another, _name_another_for_all, _appear, _include, _change_its_own]
)
@pytest.mark.parametrize("place", ["whole", "linked work tree", "whole tree at once"])
def test_settings_of_git_take_effect(
    tmp_path: Path,
    watched: Callable[..., Watched],
    monkeypatch: pytest.MonkeyPatch,
    plain_git: Path,
    change: Callable[[Path, Path], None],
    place: str,
) -> None:
    home = plain_git.parent
    root = repository(tmp_path / "r", "a.py")
    if place == "linked work tree":
        run_git(root, "worktree", "add", "-q", str(tmp_path / "w"))
        root = tmp_path / "w"
    elif place == "whole tree at once":
        (home / "git").mkdir()
        monkeypatch.setattr(watch_module, "_tree", _observed)
    if change is _include:
        write(home, "included", text="[user]\nname = x\n")
        run_git(root, "config", "include.path", (home / "included").as_posix())
    elif change is _change_its_own:
        write(root, "own")
        run_git(root, "config", "core.excludesFile", "own")
    write(root, "sub/x.txt")
    told = watched(root)
    known = [(file.path, file.size, file.changed_ns) for file in list_files(told.rules)]
    change(root, home)
    wait_until(
        lambda: told.is_overflow() and "sub/x.txt" in reconcile(known, list_files(told.rules)).gone,
        "an overflow",
    )
    told.told.clear()
    ignore_file = Path(git.excludes_file(str(root)) or "")
    ignore_file.write_text("")
    wait_until(told.is_overflow, "the ignore file, which is watched now")


@linux_only
def test_a_device_in_place_of_settings_is_not_watched(
    tmp_path: Path, watched: Callable[..., Watched], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    told = watched(repository(tmp_path / "r", "a.py"))
    Path(os.devnull).write_text("x")
    told.settle()
    assert not told.is_overflow()


def _checkout(root: Path) -> None:
    run_git(root, "checkout", "-q", "other")


def _add(root: Path) -> None:
    write(root, "b.py")
    run_git(root, "add", "b.py")


@pytest.mark.parametrize("act", [_checkout, _add])
@pytest.mark.parametrize("place", ["whole", "subfolder", "linked work tree", "submodule"])
def test_git_state(
    tmp_path: Path, watched: Callable[..., Watched], act: Callable[[Path], None], place: str
) -> None:
    root = work_tree = repository(tmp_path / "r", "a.py", "sub/b.py")
    if place == "subfolder":
        root = work_tree / "sub"
    elif place == "linked work tree":
        root = work_tree = tmp_path / "w"
        run_git(tmp_path / "r", "worktree", "add", "-q", str(work_tree))
    elif place == "submodule":
        library = repository(tmp_path / "library", "a.py")
        run_git(root, "submodule", "--quiet", "add", str(library), "lib")
        work_tree = root / "lib"
    run_git(work_tree, "branch", "other")
    told = watched(root)
    act(work_tree)
    wait_until(told.is_overflow, "an overflow")
    assert not any(".git" in path.split("/") for path in told.paths)


def test_a_repository_appears(tmp_path: Path, watched: Callable[..., Watched]) -> None:
    told = watched(tmp_path)
    run_git(tmp_path, "init", "-q")
    wait_until(told.is_overflow, "an overflow")


@linux_only
def test_more_folders_than_may_be_watched(tmp_path: Path, watched: Callable[..., Watched]) -> None:
    for number in range(30):
        write(tmp_path, f"d{number}/a.py")
    told = watched(tmp_path, WatchConfig(max_num_watches=10, interval_s=0.05))
    assert told.first is not None
    assert "more than 10 folders" in told.first.notice
    assert num_watches() <= 10
    wait_until(lambda: len(told.told) > 2, "periodic batches")
    assert all(batch == Batch(is_overflow=True) for batch in told.told)


@linux_only
def test_no_watching_at_all(
    tmp_path: Path, watched: Callable[..., Watched], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(24, "inotify instance limit reached")

    monkeypatch.setattr(watch_module, "_tree", refuse)
    told = watched(tmp_path, WatchConfig(interval_s=0.05))
    assert told.first is not None
    assert "instance limit" in told.first.notice
    wait_until(lambda: len(told.told) > 2, "periodic batches")
    tmp_path.rename(tmp_path.with_name("elsewhere"))
    wait_until(told.is_root_gone, "the root's end")


def test_many_changes_are_an_overflow(tmp_path: Path, watched: Callable[..., Watched]) -> None:
    told = watched(tmp_path, WatchConfig(max_num_paths=20, debounce_s=0.3, max_delay_s=TIMEOUT_S))
    for number in range(50):
        write(tmp_path, f"{number}.py")
    wait_until(told.is_overflow, "an overflow")
    assert not told.paths


@linux_only
def test_lost_events(
    tmp_path: Path, watched: Callable[..., Watched], monkeypatch: pytest.MonkeyPatch
) -> None:
    from composer_index.files import inotify

    monkeypatch.setattr(inotify, "_MAX_NUM_EVENTS", 20)
    write(tmp_path, "d/a.py")
    told = watched(tmp_path, WatchConfig(debounce_s=0.3, max_delay_s=TIMEOUT_S))
    shutil.rmtree(tmp_path / "d")
    for number in range(60):
        write(tmp_path, f"new{number}/d/a.py")
    write(tmp_path, "d/a.py")
    wait_until(told.is_overflow, "an overflow")
    monkeypatch.setattr(inotify, "_MAX_NUM_EVENTS", 1 << 16)
    wait_until(lambda: len(told.told) > 1, "what is watched anew")
    write(tmp_path, "d/b.py", "new30/d/b.py")
    told.wait_for("d/b.py", "new30/d/b.py")


def _delete(root: Path) -> None:
    shutil.rmtree(root)


def _rename(root: Path) -> None:
    root.rename(root.with_name("other"))


def _replace(root: Path) -> None:
    root.rename(root.with_name("other"))
    root.mkdir()


@pytest.mark.parametrize("act", [_delete, _rename, _replace])
def test_the_root_goes(
    tmp_path: Path, watched: Callable[..., Watched], act: Callable[[Path], None]
) -> None:
    root = tmp_path / "r"
    write(root, "sub/a.py")
    told = watched(root)
    act(root)
    wait_until(told.is_root_gone, "the root's end")


def test_a_root_that_is_not_there(tmp_path: Path, watched: Callable[..., Watched]) -> None:
    assert watched(tmp_path / "gone").first == Batch(is_root_gone=True)


def test_no_thread_is_left(tmp_path: Path) -> None:
    before = set(threading.enumerate())
    told = Watched(tmp_path)
    write(tmp_path, "a.py")
    told.watcher.close()
    assert set(threading.enumerate()) <= before
    num_told = len(told.told)
    write(tmp_path, "b.py")
    assert len(told.told) == num_told


async def test_batches(tmp_path: Path) -> None:
    root = tmp_path / "r"
    root.mkdir()
    before = set(threading.enumerate())
    async with asyncio.timeout(TIMEOUT_S), aclosing(batches(Rules(root))) as told:
        assert await anext(told) == Batch(is_overflow=True)
        write(root, "a.py")
        assert (await anext(told)).paths == {"a.py"}
        root.rename(tmp_path / "other")
        assert (await anext(told)).is_root_gone
        with pytest.raises(StopAsyncIteration):
            await anext(told)
    left = set(threading.enumerate()) - before
    assert not [thread for thread in left if "asyncio" not in thread.name]


async def test_batches_nobody_asks_for_are_merged(tmp_path: Path) -> None:
    config = WatchConfig(debounce_s=0.001, max_delay_s=0.001, max_num_paths=20)
    async with asyncio.timeout(TIMEOUT_S), aclosing(batches(Rules(tmp_path), config)) as told:
        await anext(told)
        for number in range(60):
            write(tmp_path, f"{number}.py")
            await asyncio.sleep(0.002)
        batch = await anext(told)
        while not batch.is_overflow:
            batch = batch.merged(await anext(told), max_num_paths=20)
        assert not batch.paths


@pytest.mark.skipif(os.name == "nt", reason="on Linux, in place of macOS")
def test_systems_that_watch_whole_trees(
    tmp_path: Path, watched: Callable[..., Watched], monkeypatch: pytest.MonkeyPatch
) -> None:
    root = repository(tmp_path / "r", "a.py", "sub/b.py")

    monkeypatch.setattr(watch_module, "_tree", _observed)
    told = watched(root)
    write(root, "a.py", text="changed")
    (root / "sub" / "b.py").unlink()
    told.wait_for("a.py", "sub/b.py")
    assert not any(".git" in path.split("/") for path in told.paths)
    assert not told.is_overflow()
    write(root, "c.py")
    run_git(root, "add", "c.py")
    wait_until(told.is_overflow, "an overflow")
    shutil.rmtree(root)
    wait_until(told.is_root_gone, "the root's end")


@pytest.mark.parametrize("num_files", [500, pytest.param(10_000, marks=pytest.mark.soak)])
def test_exact_after_a_checkout(
    tmp_path: Path, watched: Callable[..., Watched], num_files: int
) -> None:
    """Whatever the hints were, a consumer that does what they say knows the truth."""
    root = repository(tmp_path / "r")
    write(root, *(f"d{number % 50}/f{number}.py" for number in range(num_files)))
    run_git(root, "add", "-A")
    run_git(root, "commit", "-qm", "Files")
    told = watched(root)
    rules = Rules(root)
    known = {file.path: (file.size, file.changed_ns) for file in list_files(rules)}
    taken = 0

    def catch_up() -> bool:
        nonlocal taken
        while taken < len(told.told):
            batch = told.told[taken]
            taken += 1
            if batch.is_overflow:
                states = [(path, *state) for path, state in known.items()]
                difference = reconcile(states, list_files(rules))
                known.update({f.path: (f.size, f.changed_ns) for f in difference.changed})
                for path in difference.gone:
                    del known[path]
        return known.keys() == listed(root)

    run_git(root, "checkout", "-q", "HEAD~1")
    wait_until(lambda: catch_up() and not known, "no file")
    run_git(root, "checkout", "-q", "-")
    wait_until(lambda: catch_up() and len(known) == num_files, "all files")

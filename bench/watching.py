"""How a workspace is watched, beside its peers: `python -m bench.watching`. Linux, five minutes.

A repository of 10,000 files in 500 folders beside an ignored `node_modules` of 6,000 folders. Each
watcher runs in a process of its own, on a tree of its own, while this one changes files: a checkout
of all of them, then new files three folders deep. "+ all" is a reconcile that ours asks for. Peers:
watchdog's observer, and watchfiles, if it is installed (`pip install watchfiles==1.3.0`).
"""

import logging
import multiprocessing
import os
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from multiprocessing.connection import Connection
from pathlib import Path

from bench.measure import row

NUM_FILES = 10_000
NUM_FOLDERS = 500
NUM_IGNORED = 6_000
NUM_NESTED = 200
NUM_ROUNDS = 3
QUIET_S = 10.0
"""After each change, and for the idle time: whoever has not told by then never does."""

Tell = Callable[[str], None]
"""Called with each path, absolute or relative, that a watcher tells of."""


def watchdog_observer(root: Path, tell: Tell, _: Callable[[], None]) -> object:
    from watchdog.events import FileSystemEvent, FileSystemEventHandler
    from watchdog.observers import Observer

    class Handler(FileSystemEventHandler):
        def on_any_event(self, event: FileSystemEvent) -> None:
            if event.event_type not in ("opened", "closed_no_write"):
                tell(os.fsdecode(event.dest_path or event.src_path))

    observer = Observer()
    observer.schedule(Handler(), str(root), recursive=True)
    observer.start()
    return observer


def watchfiles_watch(root: Path, tell: Tell, _: Callable[[], None]) -> object:
    from watchfiles import watch

    def run() -> None:
        for changes in watch(root):
            for _, path in changes:
                tell(path)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    return thread


def ours(root: Path, tell: Tell, overflow: Callable[[], None]) -> object:
    from composer_index.files.changes import Batch
    from composer_index.files.watch import Watcher
    from composer_index.ignores.rules import Rules

    def on_batch(batch: Batch) -> None:
        if batch.is_overflow:
            overflow()
        for path in batch.paths:
            tell(path)

    watcher = Watcher(Rules(root), on_batch)
    watcher.start()
    return watcher


WATCHERS = {"watchdog": watchdog_observer, "watchfiles": watchfiles_watch, "ours": ours}


def serve(name: str, root: Path, pipe: Connection) -> None:
    """Watches; to each line from the parent, says what was told since the last, and the cost."""
    # watchdog logs each loss, hundreds of times.
    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")
    told: set[str] = set()
    overflows: list[bool] = []
    kept = WATCHERS[name](root, told.add, lambda: overflows.append(True))
    while pipe.recv():
        names = {os.path.basename(path) for path in set(told)}  # noqa: PTH119 - any watcher's paths
        times = os.times()
        cpu_s = times.user + times.system + times.children_user + times.children_system
        pipe.send((names, bool(overflows), cpu_s, _num_watches()))
        told.clear()
        overflows.clear()
    del kept


def _num_watches() -> int:
    files = Path("/proc/self/fdinfo").glob("*")
    texts = [file.read_text() for file in files if file.exists()]
    return sum(text.count("inotify wd:") for text in texts)


class Watched:
    """A watcher's process, asked from here."""

    def __init__(self, name: str, root: Path) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=serve, args=(name, root, theirs), daemon=True)
        self._process.start()
        self._cpu_s = 0.0

    def ask(self, *, after_s: float) -> tuple[set[str], bool, float, int]:
        """Names told of, whether a reconcile was asked for, CPU seconds since the last, watches."""
        time.sleep(after_s)
        self._pipe.send(True)
        names, is_overflow, cpu_s, num_watches = self._pipe.recv()
        since, self._cpu_s = cpu_s - self._cpu_s, cpu_s
        return names, is_overflow, since, num_watches

    def close(self) -> None:
        self._process.kill()
        self._process.join()


def measure(name: str, root: Path) -> list[str]:
    """The cells of a watcher's row, in the order of `TITLES`."""
    make_repository(root)
    watched = Watched(name, root)
    try:
        _, _, start_s, num_watches = watched.ask(after_s=QUIET_S)
        git(root, "checkout", "-q", "first")
        told, is_overflow, checkout_s, _ = watched.ask(after_s=QUIET_S)
        num_told = sum(one.startswith("file") for one in told)
        nested: list[str] = []
        for number in range(NUM_ROUNDS):
            make_nested(root, number)
            told, _, _, _ = watched.ask(after_s=QUIET_S)
            nested.append(str(sum(one.startswith("nested") for one in told)))
        _, _, idle_s, _ = watched.ask(after_s=QUIET_S)
    finally:
        watched.close()
    asked = f"{num_told:,}{' + all' if is_overflow else ''}"
    cells = [f"{num_watches:,}", f"{start_s:.2f}", asked, f"{checkout_s:.2f}"]
    return [*cells, ", ".join(nested), f"{idle_s:.3f}"]


TITLES = (
    "inotify watches",
    "start, CPU s (with Python's own start)",
    f"checkout: files told, of {NUM_FILES:,}",
    f"checkout: CPU s in {QUIET_S:.0f} s",
    f"new nested folders: files told, of {NUM_NESTED}",
    f"idle: CPU s in {QUIET_S:.0f} s",
)


def make_repository(root: Path) -> None:
    """Two commits that differ in every file; the second is checked out."""
    root.mkdir()
    git(root, "init", "-q", "-b", "first")
    (root / ".gitignore").write_text("node_modules/\n")
    for commit in ("first", "second"):
        for number in range(NUM_FILES):
            folder = root / f"folder{number % NUM_FOLDERS}"
            folder.mkdir(exist_ok=True)
            (folder / f"file{number}.py").write_text(f"# {commit} {number}\n")
        git(root, "checkout", "-q", "-B", commit)
        git(root, "add", "-A")
        git(root, "commit", "-q", "-m", commit)
    for number in range(NUM_IGNORED):
        (root / "node_modules" / f"package{number}").mkdir(parents=True)


def make_nested(root: Path, number: int) -> None:
    for each in range(NUM_NESTED):
        folder = root / f"round{number}" / f"new{each}" / "deep"
        folder.mkdir(parents=True)
        (folder / f"nested{each}.py").write_text("pass\n")


def git(root: Path, *arguments: str) -> None:
    who = ["-c", "user.name=bench", "-c", "user.email=bench@example.invalid", "-c", "gc.auto=0"]
    subprocess.run(["git", "-C", str(root), *who, *arguments], check=True)


def main() -> None:
    columns: dict[str, list[str]] = {}
    for name in WATCHERS:
        try:
            label = name if name == "ours" else f"{name} {version(name)}"
        except PackageNotFoundError:
            print(f"{name} is not installed: left out", file=sys.stderr)
            continue
        with tempfile.TemporaryDirectory(prefix="composer-watching-") as folder:
            columns[label] = measure(name, Path(folder) / "tree")
    row("", *columns)
    for index, title in enumerate(TITLES):
        row(title, *(cells[index] for cells in columns.values()))


if __name__ == "__main__":
    main()

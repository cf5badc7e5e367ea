"""A tree of 100,000 files: does the index get through, in how much memory, and how soon is it current
again after a restart? The files are copies of the installed packages' sources, each a little
different. Takes some ten minutes, so only on demand: `python -m bench index-large`."""

import itertools
import resource
import sys
import sysconfig
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import psutil

from bench.measure import row
from composer_index.root import RootIndex

NUM_FILES = 100_000
NUM_A_FOLDER = 200
SUFFIXES = (".py", ".pyi", ".md", ".js", ".h", ".json", ".toml", ".txt")
MAX_BYTES = 60_000


async def run() -> None:
    with tempfile.TemporaryDirectory(prefix="c-") as folder:
        tree, cache = Path(folder) / "tree", Path(folder) / "cache"
        # In a process of its own: it holds all sources in memory, which is not to be counted here.
        with ProcessPoolExecutor(1) as other:
            other.submit(_make, tree).result()
        before = _peak_bytes()
        process = psutil.Process()
        index = RootIndex(tree, cache_dir=cache)
        index.open()
        started, cpu = time.perf_counter(), sum(process.cpu_times()[:2])
        index.refresh()
        seconds, cpu = time.perf_counter() - started, sum(process.cpu_times()[:2]) - cpu
        peak, built = _peak_bytes(), index.status()
        index.search("where are redirects followed")
        while index.compact(grace_s=0):
            pass
        tidied_peak, tidied = _peak_bytes(), index.status()
        index.close()
        again = RootIndex(tree, cache_dir=cache)
        again.open()
        restarted = time.perf_counter()
        again.refresh()
        reconciled = time.perf_counter() - restarted
        again.close()
    row(f"{built.num_files:,} files, {built.num_chunks:,} pieces", "")
    row("whole index, s", f"{seconds:.0f}")
    row("whole index, s of CPU", f"{cpu:.0f}")
    row("", "built", "tidied up", "at first")
    row(
        "resident memory at most, MB",
        *(f"{each / 1e6:.0f}" for each in (peak, tidied_peak, before)),
    )
    row("on disk, MB", *(f"{each.disk_bytes / 1e6:.0f}" for each in (built, tidied)))
    row("current again after a restart, s", f"{reconciled:.1f}")


def _peak_bytes() -> int:
    """This process's most resident memory so far."""
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else most * 1024


def _make(tree: Path) -> None:
    texts = itertools.cycle(_sources())
    for number in range(NUM_FILES):
        folder = tree / f"package_{number // NUM_A_FOLDER:03}"
        if number % NUM_A_FOLDER == 0:
            folder.mkdir(parents=True)
        suffix, text = next(texts)
        (folder / f"module_{number}{suffix}").write_bytes(text + b"\n# %d\n" % number)


def _sources() -> Iterator[tuple[str, bytes]]:
    for path in sorted(Path(sysconfig.get_path("purelib")).rglob("*")):
        if path.suffix in SUFFIXES and path.is_file() and 200 < path.stat().st_size < MAX_BYTES:
            yield path.suffix, path.read_bytes()

"""`composer-lsp doctor`'s look at the workspace index."""

import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

from composer_inference.environment import cache_dir
from composer_lsp.cli.ago import ago
from composer_lsp.cli.check import Check, can_be_written

_LIMIT_S = 60.0
_LIMITS = Path("/proc/sys/fs/inotify")
_ROOM = {"max_user_watches": 1_048_576, "max_user_instances": 1024}
"""Limits that are enough for any workspace."""


def index_checks() -> Iterator[Check]:
    """Of the index in general, and of the current folder's."""
    yield _cache()
    # Not in this process: native code that does not suit the machine may end it.
    command = [
        sys.executable,
        "-P",
        "-m",
        "composer_index.probe",
        str(Path.cwd()),
        str(cache_dir()),
    ]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=_LIMIT_S, check=False
        )
    except subprocess.TimeoutExpired:
        yield _broken(f"its packages do not load within {_LIMIT_S:.0f} s")
        return
    if done.returncode != 0:
        yield _broken(_last_words(done))
        return
    found: Mapping[str, Any] = json.loads(done.stdout)
    detail = f"lancedb {version('lancedb')} and {found['num_grammars']} grammars load"
    yield Check(name="index", ok=True, detail=detail)
    yield _workspace(found["index"])
    yield _ripgrep(found["ripgrep"])
    yield _watching(found["watching_trouble"])


def _broken(detail: str) -> Check:
    mend = "pip install --force-reinstall composer-lsp"
    return Check(name="index", ok=False, detail=detail, mend=mend)


def _last_words(done: "subprocess.CompletedProcess[str]") -> str:
    if done.returncode < 0:
        name = signal.Signals(-done.returncode).name
        return f"the process that loads its packages was ended by {name}"
    lines = done.stderr.strip().splitlines()
    return f"its packages do not load: {lines[-1] if lines else f'status {done.returncode}'}"


def _cache() -> Check:
    folder = cache_dir() / "index"
    if folder.exists() and not can_be_written(folder):
        mend = f"chmod u+rwx {folder}" if folder.is_dir() else f"rm {folder}"
        detail = f"{folder} cannot be written"
        return Check(name="index cache", ok=False, detail=detail, mend=mend)
    number = sum(1 for _ in folder.glob("*/current.json"))
    size = sum(path.lstat().st_size for path in folder.rglob("*") if path.is_file())
    detail = f"{number} {'index' if number == 1 else 'indices'}, {size / 1e6:,.0f} MB in {folder}"
    return Check(name="index cache", ok=True, detail=detail)


def _workspace(index: Mapping[str, Any]) -> Check:
    if index["state"] == "unbuilt":
        how = "not indexed yet: open it in an editor, or run composer-lsp index build in it"
    elif index["state"] == "outdated":
        how = "its index is broken or of another version; whoever opens it next builds it anew"
    else:
        left = f", {index['num_left']:,} left to index" if index["num_left"] else ""
        changed = ago(time.time() - index["changed_at"])
        how = f"{index['num_files']:,} files indexed{left}, changed {changed}"
    writer = "; a process keeps it current" if index["has_writer"] else ""
    return Check(name="workspace", ok=True, detail=f"{index['root']}: {how}{writer}")


def _ripgrep(program: str | None) -> Check:
    missing = "not found; until a folder is indexed, its text is searched without it, more slowly"
    return Check(name="ripgrep", ok=True, detail=program or missing)


def _watching(trouble: str) -> Check:
    limits = {name: _limit(name) for name in _ROOM}
    if not trouble:
        told = ", ".join(f"{name} {limit}" for name, limit in limits.items() if limit)
        detail = f"the system tells of changed files{f' ({told})' if told else ''}"
        return Check(name="watching", ok=True, detail=detail)
    name = next(name for name in _ROOM if name in trouble)
    return Check(
        name="watching",
        ok=False,
        detail=f"{trouble} ({limits[name]}), so changed files are found within 30 s only",
        mend=f"sudo sysctl fs.inotify.{name}={_ROOM[name]}",
    )


def _limit(name: str) -> str:
    """Empty where the system has none."""
    try:
        return (_LIMITS / name).read_text().strip()
    except OSError:
        return ""

import json
import os
import shutil
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest


@pytest.fixture
def homes(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Folders of its own for one test; engines that it left running are ended."""
    # Not tmp_path: a socket's path must be short.
    base = Path(tempfile.mkdtemp(prefix="c-"))
    for kind in ("RUNTIME", "DATA", "CACHE", "STATE"):
        monkeypatch.setenv(f"COMPOSER_{kind}_DIR", str(base / kind[0].lower()))
    monkeypatch.setenv("COMPOSER_LOG_LEVEL", "info")
    yield base
    for process in engine_processes(base):
        os.kill(process.pid, signal.SIGKILL)
    shutil.rmtree(base, ignore_errors=True)


@pytest.fixture
def script(homes: Path) -> Path:
    """Rules for the scripted engine."""
    path = homes / "script.json"
    rules = [
        {"match": "slow", "text": "word " * 2000, "token_delay_ms": 20},
        {"match": "quick", "text": "one two three"},
    ]
    path.write_text(json.dumps({"rules": rules, "default": {"text": "42"}}))
    return path


def engine_processes(base: Path) -> list[psutil.Process]:
    """Engine processes that belong to a test's folders."""
    found: list[psutil.Process] = []
    for process in psutil.process_iter():
        try:
            mine = process.environ().get("COMPOSER_RUNTIME_DIR", "").startswith(str(base))
            if mine and "engine" in process.cmdline() and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
        except psutil.Error:
            continue
    return found

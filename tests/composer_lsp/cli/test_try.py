"""`composer-lsp try`: without a model it asks for nothing where nobody can answer; with one, which
a scripted engine stands in for, it tells what happened."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from composer_inference.models.installed import InstalledModel, write_manifest
from composer_lsp.config import EngineSettings
from composer_lsp.engine.launcher import Launcher
from tests.composer_lsp.cli.conftest import LIMIT_S, Cli

MODEL = "qwen2.5-coder-0.5b"
RULES = [
    {"match": "slow", "text": "word " * 2000, "token_delay_ms": 20},
    {"match": "= lon", "text": "g_suggestion"},
    {"match": "= short", "text": ""},
    {"match": "= sho", "text": "rt"},
    {"match": "", "text": ""},
]


@pytest.fixture
def engine(home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A scripted engine for `cli`, and a model of which there is no more than a name."""
    for name in ("RUNTIME", "DATA", "CACHE", "STATE"):
        monkeypatch.setenv(f"COMPOSER_{name}_DIR", str(home / name.lower()))
    script = home / "script.json"
    script.write_text(json.dumps({"rules": RULES}))
    folder = home / "data/models" / MODEL
    folder.mkdir(parents=True)
    (folder / "a.gguf").touch()
    model = InstalledModel(
        name=MODEL, path=folder / "a.gguf", size_bytes=0, sha256="", source="", registered=False
    )
    write_manifest(folder, model)
    arguments = ("--backend=scripted", f"--script={script}")
    asyncio.run(Launcher(EngineSettings, arguments=arguments).ensure())
    yield
    for process in processes(home, "engine"):
        process.kill()


def processes(home: Path, command: str) -> list[psutil.Process]:
    found: list[psutil.Process] = []
    for process in psutil.process_iter():
        try:
            folder = process.environ().get("COMPOSER_RUNTIME_DIR", "")
            if folder.startswith(str(home)) and command in process.cmdline():
                found.append(process)
        except psutil.Error:
            continue
    return [process for process in found if process.status() != psutil.STATUS_ZOMBIE]


@pytest.mark.usefixtures("engine")
def test_what_is_typed_through_comes_from_memory(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("x = lon")
    done = cli("try", f"{tmp_path / 'a.py'}:1")

    assert (done.stderr, done.returncode) == ("", 0)
    assert "Typing 'g_su' of it: the rest came from memory" in done.stdout
    assert "tokens prefilled" in done.stdout


@pytest.mark.usefixtures("engine")
def test_nothing_of_a_short_suggestion_is_claimed_for_memory(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("x = sho")
    done = cli("try", f"{tmp_path / 'a.py'}:1")

    assert (done.stderr, done.returncode) == ("", 0)
    assert "Typing 'rt', all of it: a new one was asked for, and there is none" in done.stdout


@pytest.mark.usefixtures("engine")
def test_ctrl_c_leaves_no_process_and_no_traceback(home: Path, tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("slow = ")
    process = subprocess.Popen(
        [sys.executable, "-m", "composer_lsp", "try", f"{tmp_path / 'a.py'}:1"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert process.stdout is not None
    assert "Loading the model" in process.stdout.readline()
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does
    _, stderr = process.communicate(timeout=LIMIT_S)

    assert (stderr, process.returncode) == ("", 130)
    assert processes(home, "serve") == []


def test_without_a_model_and_a_terminal_it_names_the_command(cli: Cli) -> None:
    done = cli("try")

    assert done.returncode == 1
    assert "composer-lsp model pull qwen2.5-coder-" in done.stderr
    assert "--yes" in done.stderr


def test_a_place_that_is_not_there_is_told(cli: Cli, tmp_path: Path) -> None:
    done = cli("try", f"{tmp_path / 'none.py'}:3")

    assert done.returncode == 1
    assert "none.py" in done.stderr and "Traceback" not in done.stderr


def test_a_hidden_file_is_told(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / ".composerignore").write_text("a.py")
    (tmp_path / "a.py").write_text("x = ")
    done = cli("try", f"{tmp_path / 'a.py'}:1", "--yes")

    assert done.returncode == 1
    assert f"a.py is hidden by {tmp_path / '.composerignore'}" in done.stderr

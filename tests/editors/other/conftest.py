"""Fixtures of the tests of other editors. `scripts/editors/` installs what they drive."""

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NoReturn

import pytest

from tests.editors.neovim.harness import scripted_engine, short_folder

from .harness import BatchEmacs, Terminal, environment_with_server, terminal

StartEngine = Callable[[list[dict[str, Any]]], None]


def unavailable(reason: str) -> NoReturn:
    """Skips the test, or fails it where everything has to be there (COMPOSER_REQUIRE_EDITORS=1)."""
    if os.environ.get("COMPOSER_REQUIRE_EDITORS") == "1":
        pytest.fail(reason)
    pytest.skip(reason)


@pytest.fixture(scope="session")
def emacs_program() -> Path:
    program = shutil.which("emacs")
    if program is None:
        unavailable("Emacs is not on the PATH: run scripts/editors/emacs.sh")
    command = [program, "--batch", "--eval", "(princ emacs-major-version)"]
    version = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    if int(version) < 29:
        unavailable(f"Emacs {version} has no eglot: run scripts/editors/emacs.sh")
    return Path(program)


@pytest.fixture(scope="session")
def testbeds() -> Path:
    return Path(os.environ.get("COMPOSER_TESTBEDS", Path.home() / ".cache/composer-testbeds"))


@pytest.fixture(scope="session")
def rass_folder(testbeds: Path) -> Path:
    """The folder of the programs rass and pylsp."""
    folder = testbeds / "emacs" / "bin"
    if not (folder / "rass").exists():
        unavailable(f"rass is not in {folder}: run scripts/editors/emacs.sh")
    return folder


@pytest.fixture(scope="session")
def helix_program(testbeds: Path) -> Path:
    program = testbeds / "helix" / "hx"
    if not program.exists():
        unavailable(f"Helix is not at {program}: run scripts/editors/helix.sh")
    return program


@pytest.fixture
def runtime() -> Iterator[Path]:
    with short_folder() as folder:
        yield folder


@pytest.fixture
def environment(tmp_path: Path, runtime: Path) -> dict[str, str]:
    return environment_with_server(tmp_path, runtime)


@pytest.fixture
def start_engine(tmp_path: Path, environment: dict[str, str]) -> Iterator[StartEngine]:
    """Starts an engine with canned answers."""
    with ExitStack() as stack:
        yield lambda rules: stack.enter_context(scripted_engine(rules, tmp_path, environment))


@pytest.fixture
def emacs(emacs_program: Path, tmp_path: Path, environment: dict[str, str]) -> BatchEmacs:
    return BatchEmacs(emacs_program, tmp_path, environment)


@pytest.fixture
def screen(runtime: Path) -> Iterator[Terminal]:
    if shutil.which("tmux") is None:
        unavailable("tmux is not on the PATH: run scripts/editors/helix.sh")
    with terminal(runtime) as opened:
        yield opened


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The folder of the files that the test edits."""
    folder = tmp_path / "project"
    folder.mkdir()
    return folder

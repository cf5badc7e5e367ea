"""Fixtures of the Neovim tests. `scripts/editors/neovim.sh` installs what they drive."""

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NoReturn

import pytest

from .harness import Neovim, scripted_engine, short_folder, user_environment

VERSIONS = ("0.12", "0.11")

StartNeovim = Callable[..., Neovim]


def unavailable(reason: str) -> NoReturn:
    """Skips the test, or fails it where everything has to be there (COMPOSER_REQUIRE_EDITORS=1)."""
    if os.environ.get("COMPOSER_REQUIRE_EDITORS") == "1":
        pytest.fail(reason)
    pytest.skip(reason)


@pytest.fixture(params=VERSIONS)
def version(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def program(version: str) -> Path:
    """The editor's program."""
    folder = Path(os.environ.get("COMPOSER_TESTBEDS", Path.home() / ".cache/composer-testbeds"))
    program = folder / "neovim" / version / "nvim"
    if not program.exists():
        unavailable(f"Neovim {version} is not at {program}: run scripts/editors/neovim.sh")
    return program


@pytest.fixture
def environment(tmp_path: Path) -> Iterator[dict[str, str]]:
    with short_folder() as runtime:
        yield user_environment(tmp_path, runtime)


@pytest.fixture
def start_neovim(
    program: Path, environment: dict[str, str], tmp_path: Path
) -> Iterator[StartNeovim]:
    """Starts Neovim and, with `rules`, an engine with canned answers beforehand."""
    with ExitStack() as stack:

        def start(
            rules: list[dict[str, Any]] | None = None,
            *,
            variables: Mapping[str, str] | None = None,
            **setup: Any,
        ) -> Neovim:
            everything = {**environment, **(variables or {})}
            if rules is not None:
                stack.enter_context(scripted_engine(rules, tmp_path, everything))
            neovim = Neovim(program, tmp_path, everything, **setup)
            stack.callback(neovim.close)
            return neovim

        yield start


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The folder of the files that the test edits."""
    folder = tmp_path / "project"
    folder.mkdir()
    return folder

"""Fixtures of the VS Code tests. `scripts/editors/vscode.sh` installs what they drive."""

import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NoReturn

import pytest

from .harness import (
    ROOT,
    VSCode,
    drain_engine,
    install_extensions,
    scripted_engine,
    short_folder,
    user_environment,
)

VSIX = ROOT / "build" / "composer.vsix"


@pytest.fixture(scope="session")
def testbed() -> Path:
    folder = Path(os.environ.get("COMPOSER_TESTBEDS", Path.home() / ".cache/composer-testbeds"))
    if not (folder / "vscode" / "versions").exists():
        unavailable(f"VS Code is not in {folder / 'vscode'}: run scripts/editors/vscode.sh")
    return folder / "vscode"


@pytest.fixture(scope="session")
def extensions(testbed: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An extensions folder with the packaged extension installed."""
    if not VSIX.exists():
        unavailable(f"{VSIX} is missing: run make vscode")
    folder = tmp_path_factory.mktemp("extensions")
    install_extensions(testbed, folder, VSIX)
    return folder


StartVSCode = Callable[..., VSCode]


@pytest.fixture
def start_vscode(testbed: Path, extensions: Path, tmp_path: Path) -> Iterator[StartVSCode]:
    """Starts VS Code and, with `rules`, an engine with canned answers beforehand."""
    with ExitStack() as stack:

        def start(
            rules: list[dict[str, str]] | None = None,
            *,
            settings: Mapping[str, Any] | None = None,
            trust_everything: bool = True,
            environment: Mapping[str, str] | None = None,
            extensions: Path = extensions,
        ) -> VSCode:
            runtime = short_folder()
            stack.callback(shutil.rmtree, runtime, ignore_errors=True)
            stack.callback(drain_engine, runtime)
            variables = user_environment(tmp_path, runtime)
            variables |= environment or {}
            if rules is not None:
                stack.enter_context(scripted_engine(rules, tmp_path, variables))
            vscode = VSCode(
                testbed=testbed, extensions=extensions, home=tmp_path, environment=variables
            )
            stack.enter_context(
                vscode.running(settings=settings or {}, trust_everything=trust_everything)
            )
            return vscode

        yield start


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The folder that the test opens."""
    folder = tmp_path / "project"
    folder.mkdir()
    return folder


def unavailable(reason: str) -> NoReturn:
    """Skips the test, or fails it where everything has to be there (COMPOSER_REQUIRE_EDITORS=1)."""
    if os.environ.get("COMPOSER_REQUIRE_EDITORS") == "1":
        pytest.fail(reason)
    pytest.skip(reason)

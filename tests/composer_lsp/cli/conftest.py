"""The command as a user runs it, with folders of its own."""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

LIMIT_S = 60.0

Cli = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def home() -> Iterator[Path]:
    """Where the command's four folders lie; short, for the sake of the socket's path."""
    path = Path(tempfile.mkdtemp(prefix="c-"))
    yield path
    shutil.rmtree(path)


@pytest.fixture
def cli(home: Path) -> Cli:
    """`cli("model", "list")` runs `composer-lsp model list`; keywords are environment variables."""

    def run(*arguments: str, **variables: str) -> "subprocess.CompletedProcess[str]":
        folders = {
            f"COMPOSER_{name}_DIR": str(home / name.lower())
            for name in ("RUNTIME", "DATA", "CACHE", "STATE")
        }
        return subprocess.run(
            [sys.executable, "-m", "composer_lsp", *arguments],
            env={**os.environ, **folders, **variables},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            check=False,
        )

    return run

"""Folders and repositories to test with, and waiting for what threads do."""

import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from composer_index.files.listing import Listing, list_files
from composer_index.ignores import git
from composer_index.ignores.rules import Rules

TIMEOUT_S = 30.0


def write(root: Path, *paths: str, text: str = "x\n") -> None:
    for path in paths:
        place = root / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)


def run_git(folder: Path, *arguments: str) -> str:
    """As a user would, from a terminal."""
    identity = (
        "-c",
        "user.name=x",
        "-c",
        "user.email=x@example.com",
        "-c",
        "protocol.file.allow=always",
    )
    environment = {
        name: value
        for name, value in os.environ.items()
        if name not in ("GIT_DIR", "GIT_INDEX_FILE", "GIT_WORK_TREE")
    }
    command = ["git", "-C", str(folder), *identity, *arguments]
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
    return done.stdout


def repository(folder: Path, *paths: str) -> Path:
    """With the paths in its first commit."""
    folder.mkdir(parents=True, exist_ok=True)
    run_git(folder, "init", "-q")
    write(folder, *paths)
    run_git(folder, "add", "-A")
    run_git(folder, "commit", "-q", "--allow-empty", "-m", "First")
    return folder


def listed(root: Path, listing: Listing | None = None, **options: tuple[str, ...]) -> set[str]:
    paths = [file.path for file in list_files(Rules(root, **options), listing)]
    assert len(paths) == len(set(paths))
    return set(paths)


def without_git(monkeypatch: object) -> None:
    """Makes git be missing."""
    assert hasattr(monkeypatch, "setattr")

    def missing(*_: object, **__: object) -> None:
        raise FileNotFoundError("git")

    monkeypatch.setattr(git.subprocess, "run", missing)  # type: ignore[attr-defined]


def wait_until(condition: Callable[[], bool], what: str) -> None:
    latest = time.monotonic() + TIMEOUT_S
    while not condition():
        assert time.monotonic() < latest, f"waited {TIMEOUT_S:g} s for {what}"
        time.sleep(0.01)

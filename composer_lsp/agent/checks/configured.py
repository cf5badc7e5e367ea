"""Whether a folder configures a linter, and where its program is."""

import json
import os
import re
import shutil
import tomllib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

Configured = Callable[[Path], bool]
"""Whether this very folder does."""

_BIN = ("bin", "Scripts")
_VENVS = (".venv", "venv")


def any_of(*tests: Configured) -> Configured:
    return lambda folder: any(test(folder) for test in tests)


def has_file(*names: str) -> Configured:
    """Names may hold `*`."""

    def test(folder: Path) -> bool:
        return any(
            any(folder.glob(name)) if "*" in name else (folder / name).is_file() for name in names
        )

    return test


def has_table(name: str, table: str) -> Configured:
    """A TOML file with a table, such as `tool.ruff`."""

    def test(folder: Path) -> bool:
        try:
            found: Any = tomllib.loads((folder / name).read_text("utf-8"))
        except (OSError, ValueError):
            return False
        return _holds(found, *table.split("."))

    return test


def has_section(name: str, section: str) -> Configured:
    """An INI file with a section of that name, or one that begins with it and `-`, `:` or `.`."""
    pattern = re.compile(rf"^\[(?:tool:)?{section}(?:[-:.][^\]\n]*)?\]", re.MULTILINE)

    def test(folder: Path) -> bool:
        try:
            return pattern.search((folder / name).read_text("utf-8", "replace")) is not None
        except OSError:
            return False

    return test


def has_key(name: str, key: str) -> Configured:
    """A JSON file with a key."""

    def test(folder: Path) -> bool:
        try:
            return _holds(json.loads((folder / name).read_text("utf-8")), key)
        except (OSError, ValueError, RecursionError):
            return False

    return test


def _holds(found: Any, *keys: str) -> bool:
    for key in keys:
        if not isinstance(found, Mapping) or key not in found:
            return False
        found = found[key]  # pyright: ignore[reportUnknownVariableType]
    return True


def up_to(root: Path, folder: Path) -> Iterator[Path]:
    """The folder and those above it, up to the root that holds it."""
    for each in (folder, *folder.parents):
        yield each
        if each == root:
            return


def find_program(name: str, folder: Path, root: Path) -> str | None:
    """The workspace's own program, nearest first, else that of PATH."""
    own = [path for each in up_to(root, folder) for path in _own_bins(each)]
    path = os.pathsep.join([*map(str, own), os.environ.get("PATH", os.defpath)])
    return shutil.which(name, path=path)


def find_interpreter(folder: Path, root: Path) -> str | None:
    """Python of the virtual environment in the folder or above."""
    for each in up_to(root, folder):
        for venv in _VENVS:
            for name in ("bin/python", "Scripts/python.exe"):
                if (path := each / venv / name).exists():
                    return str(path)
    return None


def _own_bins(folder: Path) -> Iterator[Path]:
    for venv in _VENVS:
        yield from (folder / venv / each for each in _BIN)
    yield folder / "node_modules/.bin"
    yield folder / "vendor/bin"

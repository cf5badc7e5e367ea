"""What a command has left in the upper folder of an overlay."""

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

Kind = Literal[
    "file",
    "link",
    "special",  # a pipe, a socket
    "folder",  # with nothing in it
    "gone",  # hidden: the file of the disk, or the folder with all that is in it
]
DERIVED_FOLDERS = frozenset(
    [
        *("node_modules", "__pycache__", ".venv", ".tox", ".nox", ".eggs", ".gradle"),
        *(".pytest_cache", ".mypy_cache", ".ruff_cache", ".hypothesis"),
    ]
)
"""Made by tools and never by hand, whether git ignores them or not."""
BUILD_FOLDERS = DERIVED_FOLDERS | frozenset(
    [
        *("build", "dist", "target", "out", "obj", "coverage", "htmlcov", "_build", "CMakeFiles"),
        *(".next", ".nuxt", ".svelte-kit", ".turbo", ".parcel-cache", ".cache", ".dart_tool"),
    ]
)
"""Where git ignores them, a tool can make anew all that is in them."""

_MAX_IGNORE_BYTES = 4096


@dataclass(frozen=True, slots=True)
class Entry:
    path: str
    """Relative to the root, with `/` between its parts."""
    kind: Kind
    is_derived: bool
    """By the name of a folder around it, or since a folder around it tells git to ignore it."""


def is_derived(path: str) -> bool:
    return not DERIVED_FOLDERS.isdisjoint(path.split("/"))


def build_folder(path: str) -> str | None:
    """The outermost one that an ignored path is or lies in."""
    parts = path.split("/")
    number = next((n for n, part in enumerate(parts) if part in BUILD_FOLDERS), None)
    return None if number is None else "/".join(parts[: number + 1])


def filled_folders(root: Path) -> set[Path]:
    """The derived ones with something in them, in the root and right in its folders."""
    places = [root / name for name in DERIVED_FOLDERS]
    places += [folder / name for folder in _folders(root) for name in DERIVED_FOLDERS]
    return {place for place in places if not is_empty(place)}


def is_empty(folder: Path) -> bool:
    """Or not there at all."""
    try:
        return not any(folder.iterdir())
    except OSError:
        return True


def _folders(root: Path) -> Iterator[Path]:
    with os.scandir(root) as entries:
        yield from (Path(entry) for entry in entries if entry.is_dir(follow_symlinks=False))


def read_upper(upper: Path, root: Path) -> Iterator[Entry]:
    """After the overlay is gone. `root`: its lower folder. Raises: OSError."""
    yield from _read(str(upper), str(root), "", is_derived=False)


def _read(upper: str, root: str, folder: str, *, is_derived: bool) -> Iterator[Entry]:
    if not os.access(f"{upper}/{folder}", os.R_OK | os.X_OK):
        os.chmod(f"{upper}/{folder}", stat.S_IRWXU)  # noqa: PTH101
    with os.scandir(f"{upper}/{folder}") as scanned:
        entries = sorted(scanned, key=lambda entry: entry.name)
    is_new = bool(folder) and _mode(f"{root}/{folder}") is None
    derived = is_derived or (is_new and _is_self_ignored(f"{upper}/{folder}"))
    for entry in entries:
        path = f"{folder}/{entry.name}" if folder else entry.name
        yield from _entry(upper, root, path, entry, is_derived=derived)
    if not entries and is_new:
        yield Entry(folder, "folder", derived)


def _entry(
    upper: str, root: str, path: str, entry: "os.DirEntry[str]", *, is_derived: bool
) -> Iterator[Entry]:
    status = entry.stat(follow_symlinks=False)
    is_derived = is_derived or entry.name in DERIVED_FOLDERS
    below = _mode(f"{root}/{path}")
    was_folder = below is not None and stat.S_ISDIR(below)
    if stat.S_ISDIR(status.st_mode):
        if below is not None and not was_folder:
            yield Entry(path, "gone", is_derived)
        elif was_folder and _is_opaque(entry.path):
            for name in sorted(os.listdir(f"{root}/{path}")):  # noqa: PTH208
                if not os.path.lexists(f"{entry.path}/{name}"):
                    yield Entry(f"{path}/{name}", "gone", is_derived)
        yield from _read(upper, root, path, is_derived=is_derived)
        return
    kind = _kind(status)
    if was_folder and kind != "gone":
        yield Entry(path, "gone", is_derived)
    yield Entry(path, kind, is_derived)


def _kind(status: os.stat_result) -> Kind:
    if stat.S_ISREG(status.st_mode):
        return "file"
    if stat.S_ISLNK(status.st_mode):
        return "link"
    is_whiteout = stat.S_ISCHR(status.st_mode) and status.st_rdev == 0
    return "gone" if is_whiteout else "special"


def _is_opaque(folder: str) -> bool:
    try:
        return os.getxattr(folder, "user.overlay.opaque", follow_symlinks=False) == b"y"
    except OSError:
        return False


def _is_self_ignored(folder: str) -> bool:
    """Caches and virtual environments bring a `.gitignore` that says `*`."""
    path = f"{folder}/.gitignore"
    mode = _mode(path)
    if mode is None or not stat.S_ISREG(mode):
        return False
    lines = Path(path).read_bytes()[:_MAX_IGNORE_BYTES].splitlines()
    return [line.strip() for line in lines if line.strip() and not line.startswith(b"#")] == [b"*"]


def _mode(path: str) -> int | None:
    try:
        return os.lstat(path).st_mode
    except OSError:
        return None

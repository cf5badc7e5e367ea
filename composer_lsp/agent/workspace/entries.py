"""Writes single entries of folders: files, links, and their absence.

Each folder on the way is opened by itself, and no link is followed: whatever takes the place of one
of them meanwhile, nothing outside of the root is written.
"""

import os
import secrets
import stat
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from composer_lsp.agent.descriptors import opened_below
from composer_lsp.agent.workspace.paths import Place

_HAS_DESCRIPTORS = os.open in os.supports_dir_fd
_NEW_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)


@dataclass(frozen=True, slots=True)
class Link:
    target: str
    """As the link says it."""


Content = bytes | Link | None
"""None: there is nothing of that name."""


def link_at(place: Place) -> Link | None:
    """None if it is no link."""
    try:
        return Link(os.readlink(place.absolute))  # noqa: PTH115 - the text as it stands
    except (OSError, ValueError):
        return None


def mode_of(place: Place) -> int | None:
    """The permissions of the file, or of the one that a link leads to; None if there is none."""
    try:
        return stat.S_IMODE(os.stat(place.absolute).st_mode)  # noqa: PTH116
    except OSError:
        return None


def write(place: Place, content: Content, mode: int | None = None) -> None:
    """Replace what is there as a whole, a link itself and not what it leads to; None removes it. Makes
    the folders above. `mode`: that of a file; None: as it is, or the usual one. Raises: OSError."""
    with _folder_of(place, makes=content is not None) as (folder, name):
        if content is None:
            with suppress(FileNotFoundError):
                os.unlink(name, dir_fd=folder)
            return
        temporary = _beside(name)
        try:
            if isinstance(content, Link):
                os.symlink(content.target, temporary, dir_fd=folder)
            else:
                mode = _mode_at(name, folder) if mode is None else mode
                _write_new(temporary, folder, content, mode)
            os.replace(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
        except BaseException:
            with suppress(OSError):
                os.unlink(temporary, dir_fd=folder)
            raise


def missing_folders(place: Place) -> Sequence[Place]:
    """Those that `write` would make, the deepest first."""
    missing: list[Place] = []
    relative = place.relative.rpartition("/")[0]
    while relative and not os.path.lexists(
        (folder := Place(place.root, relative, relative)).absolute
    ):
        missing.append(folder)
        relative = relative.rpartition("/")[0]
    return missing


def remove_folder(place: Place) -> None:
    """Raises: OSError if it is not empty."""
    with _folder_of(place, makes=False) as (folder, name):
        os.rmdir(name, dir_fd=folder)


def remove_folders(place: Place) -> None:
    """A folder, and those in it. Raises: OSError if anything else is in them."""
    for folder, _, _ in os.walk(place.absolute, topdown=False):
        relative = os.path.relpath(folder, place.root).replace(os.sep, "/")
        remove_folder(Place(place.root, relative, relative))


@contextmanager
def _folder_of(place: Place, *, makes: bool) -> Generator[tuple[int | None, str]]:
    """The folder's descriptor, and the name in it; where the system has no such descriptors, None
    and the absolute path."""
    if not _HAS_DESCRIPTORS:
        if makes:
            os.makedirs(os.path.dirname(place.absolute), exist_ok=True)  # noqa: PTH103, PTH120
        yield None, place.absolute
        return
    *folders, name = place.relative.split("/")
    with opened_below(place.root, folders, makes=makes) as folder:
        yield folder, name


def _beside(name: str) -> str:
    head, slash, _ = name.rpartition(os.sep)
    return f"{head}{slash}.composer-{secrets.token_hex(8)}"


def _write_new(name: str, folder: int | None, data: bytes, mode: int) -> None:
    with os.fdopen(os.open(name, _NEW_FLAGS, 0o600, dir_fd=folder), "wb") as file:
        file.write(data)
        if hasattr(os, "fchmod"):
            os.fchmod(file.fileno(), mode)


def _mode_at(name: str, folder: int | None) -> int:
    try:
        status = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return _default_mode()
    return stat.S_IMODE(status.st_mode) if stat.S_ISREG(status.st_mode) else _default_mode()


def _default_mode() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask

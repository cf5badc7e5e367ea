"""What git obeys in a repository's own folder, and how a command that may write there is kept from it.

Nothing can be mounted on what is not there, and whatever a command makes, the user's own git may
obey a moment later. So what is absent is made before the command runs, such that git takes it for
nothing: empty, or a `commondir` that names its own folder. It is removed with the run.

Known limits: while a command runs, it may write to the `config.lock` of a git that changes the
configuration at that moment; and it may break `HEAD`, so that git looks for a repository elsewhere.
"""

import os
import re
import tempfile
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from composer_lsp.agent.commands.repositories import is_git_folder
from composer_lsp.agent.commands.shared_folders import Mount

_COMMON = "commondir"
_OWN_FOLDER = ".\n"
_FOLDERS = ("hooks", "info", "modules", "branches", "remotes")
_FILES = {"config": "", "config.worktree": "", _COMMON: _OWN_FOLDER, "objects/info/alternates": ""}
"""And what git takes for nothing there."""
_HELD = ("objects", "objects/info")
"""Folders that something protected lies in: what is mounted cannot be moved away with it."""
_OF_WORKTREE = (_COMMON, "gitdir", "config.worktree")
_IGNORED_BESIDE_COMMON = re.compile(
    r"\bworktree\s*=|\bbare\s*(?:=\s*(?:true|yes|on|1)|$)", re.IGNORECASE | re.MULTILINE
)
"""Settings that git leaves unread where there is a `commondir`."""


class GitFolders:
    """Those that the commands of one run may write to."""

    def __init__(self) -> None:
        self._making = threading.Lock()
        self._locks: dict[Path, int] = {}
        self._made: list[Path] = []

    def writable(self, folder: Path) -> list[Mount]:
        """How to mount a git folder for a command that may write to it: as a whole read-only where
        what git obeys cannot be protected in it. Makes what is absent."""
        try:
            with self._making:
                if _can_be_protected(folder):
                    self._lock(folder)
                    return [("--bind", folder, folder), *self._protected(folder)]
        except OSError:
            pass
        return [_read_only(folder)]

    def close(self) -> None:
        """Remove what was made, once no command runs any more; from a folder that another process
        uses too, nothing is removed."""
        import fcntl

        for folder, descriptor in self._locks.items():
            with suppress(OSError):
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                # Another process may have left its own.
                for path in (folder / _COMMON, *self._made):
                    if path.is_relative_to(folder):
                        _remove(path, _OWN_FOLDER if path == folder / _COMMON else "")
            os.close(descriptor)
        self._locks.clear()

    def _lock(self, folder: Path) -> None:
        """So that nobody else removes what this process has made or found."""
        import fcntl

        if folder not in self._locks:
            self._locks[folder] = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
            fcntl.flock(self._locks[folder], fcntl.LOCK_SH)

    def _protected(self, folder: Path) -> Iterator[Mount]:
        """Raises: OSError."""
        for name in _HELD:
            (folder / name).mkdir(exist_ok=True)
            yield ("--bind", folder / name, folder / name)
        for name in _FOLDERS:
            if not (folder / name).exists():
                (folder / name).mkdir()
                self._made.append(folder / name)
            yield _read_only(folder / name)
        for name, text in _FILES.items():
            self._make_file(folder / name, text)
            yield _read_only(folder / name)
        if (folder / "worktrees").is_dir():
            yield from self._protected_worktrees(folder / "worktrees")

    def _protected_worktrees(self, folder: Path) -> Iterator[Mount]:
        yield ("--bind", folder, folder)
        for own in sorted(folder.iterdir()):
            names = [own / name for name in _OF_WORKTREE]
            if own.is_symlink() or any(path.is_symlink() for path in names):
                raise OSError(f"{own} has links in it")
            if not all(path.is_file() for path in names[:-1]):
                yield _read_only(own)
                continue
            self._make_file(names[-1], "")
            yield ("--bind", own, own)
            yield from map(_read_only, names)

    def _make_file(self, path: Path, text: str) -> None:
        """Whole at once: a git that runs meanwhile may read it."""
        if path.exists():
            return
        if not text:
            path.touch(exist_ok=False)
        else:
            with tempfile.NamedTemporaryFile("w", dir=path.parent, delete=False) as file:
                file.write(text)
            Path(file.name).replace(path)
        self._made.append(path)


def _can_be_protected(folder: Path) -> bool:
    """Raises: OSError."""
    names = (*_HELD, *_FOLDERS, *_FILES, "worktrees")
    if not is_git_folder(folder) or any((folder / name).is_symlink() for name in names):
        return False
    config = folder / "config"
    if (folder / _COMMON).exists() or not config.exists():
        return True
    return not _IGNORED_BESIDE_COMMON.search(config.read_text("utf-8", "replace"))


def _remove(path: Path, text: str) -> None:
    """If it is as it was made."""
    with suppress(OSError):
        if path.is_dir():
            path.rmdir()
        elif path.read_text("utf-8", "replace") == text:
            path.unlink()


def _read_only(path: Path) -> Mount:
    return ("--ro-bind", path, path)

"""Staged files, written into the upper folder of an overlay before it is mounted."""

import hashlib
import os
import stat
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

Staged = Mapping[Path, bytes | None]
"""What files are to be, by absolute path without links, in the roots; None: there is none."""


class Staging:
    """Remembers from command to command what the bytes of a staged file do not tell: a build tool
    takes a file for changed when its time is another, so the same bytes keep the same time."""

    def __init__(self) -> None:
        self.modes: dict[Path, int] = {}
        """Permission bits that commands gave to staged files."""
        self._times_s: dict[Path, tuple[bytes, int]] = {}

    def write(self, uppers: Mapping[Path, Path], staged: Staged) -> dict[Path, int]:
        """`uppers`: the upper folder of each root, all of them empty. Writes what is staged.
        Returns the permission bits of all that it wrote. Raises: OSError."""
        written: dict[Path, int] = {}
        for path, data in staged.items():
            if data is not None:
                written[path] = self._write(_upper_path(uppers, path), path, data)
        for path, data in staged.items():
            if data is None and _exists(path):
                _delete(_upper_path(uppers, path), path)
        return written

    def _write(self, upper: Path, path: Path, data: bytes) -> int:
        _make_parents(upper, path)
        upper.write_bytes(data)
        mode = self.modes.get(path)
        if mode is None and path.is_file() and not path.is_symlink():
            mode = stat.S_IMODE(path.stat().st_mode) & 0o777
        if mode is not None:
            upper.chmod(mode)
        time_s = self._time_s(path, data)
        os.utime(upper, (time_s, time_s))
        return stat.S_IMODE(upper.stat().st_mode)

    def _time_s(self, path: Path, data: bytes) -> int:
        """Whole seconds, since that is all that compiled Python files hold of their source's."""
        digest = hashlib.sha256(data).digest()
        known, last_s = self._times_s.get(path, (b"", _time_ns(path) // 1_000_000_000))
        if known != digest:
            last_s = max(int(time.time()), last_s + 1)
            self._times_s[path] = (digest, last_s)
        return last_s


def _upper_path(uppers: Mapping[Path, Path], path: Path) -> Path:
    """Raises: OSError."""
    roots = [root for root in uppers if path.is_relative_to(root)]
    if not roots:
        raise PermissionError(f"{path} is outside of the workspace")
    root = max(roots, key=lambda root: len(root.parts))
    return uppers[root] / path.relative_to(root)


def _make_parents(upper: Path, path: Path) -> None:
    """Folders like those of the disk, where there are some."""
    missing: list[tuple[Path, Path]] = []
    for folder, real in zip(upper.parents, path.parents, strict=False):
        if folder.is_dir():
            break
        missing.append((folder, real))
    for folder, real in reversed(missing):
        folder.mkdir()
        if real.is_dir() and not real.is_symlink():
            folder.chmod(stat.S_IMODE(real.stat().st_mode) | stat.S_IRWXU)


def _delete(upper: Path, path: Path) -> None:
    """A whiteout, as overlayfs has them; none where something else was staged in the way."""
    with suppress(NotADirectoryError, FileExistsError):
        _make_parents(upper, path)
        os.mknod(upper, stat.S_IFCHR, os.makedev(0, 0))


def _exists(path: Path) -> bool:
    return os.path.lexists(path)


def _time_ns(path: Path) -> int:
    try:
        return path.lstat().st_mtime_ns
    except OSError:
        return 0

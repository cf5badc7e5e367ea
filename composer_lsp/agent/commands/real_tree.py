"""Writing what commands made into a root of the workspace, and nowhere else: no link on the way is
followed, since a command may have planted it."""

import errno
import os
import shutil
import stat
import uuid
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path, PurePosixPath

from composer_lsp.agent.descriptors import opened_below

_FILE = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)


class RealTree:
    """Paths are relative to the root, with `/` between their parts. All raise OSError, also for a
    link in a path's folder."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def put(self, path: str, source: Path) -> None:
        """Move a file or a link here, in the place of what is there, unless that is a folder."""
        _drop_overlay_marks(source)
        with self._parent(path, make=True) as (parent, name):
            try:
                os.rename(source, name, dst_dir_fd=parent)
            except OSError as error:
                if error.errno != errno.EXDEV:
                    raise
                _copy(source, parent, name)

    def make_folder(self, path: str) -> None:
        with self._parent(path, make=True) as (parent, name), suppress(FileExistsError):
            os.mkdir(name, dir_fd=parent)

    def set_mode(self, path: str, mode: int) -> None:
        """The permission bits of a file."""
        with self._parent(path, make=False) as (parent, name):
            descriptor = os.open(name, _FILE, dir_fd=parent)
            try:
                os.fchmod(descriptor, mode)
            finally:
                os.close(descriptor)

    def remove(self, path: str) -> None:
        """A file, a link, or a folder with all in it. Nothing if it is not there."""
        with suppress(FileNotFoundError), self._parent(path, make=False) as (parent, name):
            if stat.S_ISDIR(os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode):
                shutil.rmtree(name, dir_fd=parent)
            else:
                os.unlink(name, dir_fd=parent)

    @contextmanager
    def _parent(self, path: str, *, make: bool) -> Generator[tuple[int, str]]:
        *folders, name = PurePosixPath(path).parts
        assert name != ".."
        with opened_below(self._root, folders, makes=make) as parent:
            yield parent, name


def _copy(source: Path, parent: int, name: str) -> None:
    """From another file system; the file appears as a whole."""
    passing = f".composer-{uuid.uuid4().hex}"
    status = source.lstat()
    try:
        if stat.S_ISLNK(status.st_mode):
            os.symlink(os.readlink(source), passing, dir_fd=parent)  # noqa: PTH115
        else:
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
            target = os.open(passing, flags, stat.S_IRUSR | stat.S_IWUSR, dir_fd=parent)
            with source.open("rb") as reading, os.fdopen(target, "wb") as writing:
                shutil.copyfileobj(reading, writing)
                writing.flush()
                os.fchmod(writing.fileno(), stat.S_IMODE(status.st_mode) & 0o777)
                os.utime(writing.fileno(), ns=(status.st_atime_ns, status.st_mtime_ns))
        os.rename(passing, name, src_dir_fd=parent, dst_dir_fd=parent)
    except OSError:
        with suppress(OSError):
            os.unlink(passing, dir_fd=parent)
        raise


def _drop_overlay_marks(source: Path) -> None:
    """Which would mean something once the file lies in a lower folder."""
    if source.is_symlink():
        return
    with suppress(OSError):
        for name in os.listxattr(source, follow_symlinks=False):
            if name.startswith("user.overlay."):
                os.removexattr(source, name, follow_symlinks=False)

"""Reads a file of the workspace, and nothing else."""

import os
import stat
from pathlib import Path


class ReadError(Exception):
    """The file is not to be had; the message says why."""


class TooLargeError(ReadError):
    """The file is larger than asked for."""


def read_file(root: str, path: str, *, max_bytes: int) -> bytes:
    """The bytes of `path`, relative to `root`. Whatever takes the place of one of its parts between
    asking whether it may be read and reading it, nothing outside of the root is read, and no pipe
    waited for. Raises: ReadError."""
    try:
        root = os.path.realpath(root)
        place = os.path.realpath(Path(root, path))
        inside = Path(place).relative_to(root).parts
    except (OSError, ValueError) as error:
        raise ReadError(f"{path!a} is not in the workspace") from error
    try:
        with open(_opened(root, inside), "rb") as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise ReadError(f"{path!a} is no file")
            data = b"" if status.st_size > max_bytes else file.read(max_bytes + 1)
    except OSError as error:
        raise ReadError(f"{path!a} cannot be read: {error.strerror}") from error
    if status.st_size > max_bytes or len(data) > max_bytes:
        raise TooLargeError(f"{path!a} is larger than {max_bytes} bytes")
    return data


def _opened(root: str, parts: tuple[str, ...]) -> int:
    """A descriptor, opened part by part without following links, where the system can."""
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    if os.open not in os.supports_dir_fd:
        return os.open(Path(root, *parts), flags)
    folder = os.open(root, os.O_RDONLY | os.O_DIRECTORY)
    try:
        for part in parts[:-1]:
            below = os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=folder)
            os.close(folder)
            folder = below
        return os.open(parts[-1] if parts else ".", flags | os.O_NOFOLLOW, dir_fd=folder)
    finally:
        os.close(folder)

"""Folders by descriptors, so that no link is followed on the way, even one that comes meanwhile."""

import os
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

_FLAGS = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_NOFOLLOW", 0)


@contextmanager
def opened_below(root: str | Path, folders: Sequence[str], *, makes: bool) -> Generator[int]:
    """The last of the folders, each in the one before it. `makes`: those that are missing are made.
    Raises: OSError, also for a link."""
    descriptor = os.open(root, _FLAGS)
    try:
        for folder in folders:
            if makes:
                with suppress(FileExistsError):
                    os.mkdir(folder, dir_fd=descriptor)
            below = os.open(folder, _FLAGS, dir_fd=descriptor)
            os.close(descriptor)
            descriptor = below
        yield descriptor
    finally:
        os.close(descriptor)

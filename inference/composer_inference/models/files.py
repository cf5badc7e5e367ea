"""Digests, and writes that a crash or a reader never sees half-done."""

import hashlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

_BLOCK_BYTES = 1 << 20

OnBytes = Callable[[int, int], None]
"""Told the bytes done and the total."""


def ignore_bytes(done_bytes: int, total_bytes: int) -> None:
    """The `OnBytes` of a caller that shows no progress."""


def sha256_of(path: Path, on_bytes: OnBytes = ignore_bytes) -> str:
    """The file's digest in hexadecimal. What `on_bytes` raises ends it."""
    digest, done_bytes, total_bytes = hashlib.sha256(), 0, path.stat().st_size
    with path.open("rb") as file:
        while block := file.read(_BLOCK_BYTES):
            digest.update(block)
            done_bytes += len(block)
            on_bytes(done_bytes, total_bytes)
    return digest.hexdigest()


def write_durably(path: Path, text: str) -> None:
    """Replace the file as a whole: a reader, or a crash, sees the old text or the new one."""
    partial = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    with partial.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    partial.replace(path)
    sync_dir(path.parent)


def sync_file(file: BinaryIO) -> None:
    """Have what was written on the disk, and not only in the system's memory."""
    file.flush()
    os.fsync(file.fileno())


def sync_dir(path: Path) -> None:
    """Make a rename inside the folder survive a power cut, where the system allows it."""
    if os.name == "nt":
        return
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)

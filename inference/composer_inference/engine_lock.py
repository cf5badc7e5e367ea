"""The lock whose holder is the engine of this machine and user.

The process that holds it is written to a file beside it: Windows lets nobody read a locked file, and
older releases of filelock empty it when another process asks for the lock.
"""

import os
from contextlib import suppress
from pathlib import Path

from filelock import FileLock, Timeout

from composer_inference.endpoint import (
    EndpointError,
    find_endpoint,
    is_listening,
    lock_path,
    write_private,
)

LEAVE_WAIT_S = 5.0
"""How long a starting engine waits for one that cannot be reached any more and is about to leave."""

_POLL_S = 0.05


class AlreadyRunningError(Exception):
    """Another engine of this user holds the lock."""


class EngineLock:
    """Held for as long as the engine accepts requests; the system frees it when its process dies."""

    def __init__(self) -> None:
        """Raises: EndpointError."""
        self._path = lock_path()
        self._lock = FileLock(self._path, mode=0o600)

    def acquire(self) -> None:
        """Raises: AlreadyRunningError, EndpointError."""
        endpoint = find_endpoint()
        # Whoever listens is the engine; one that lost its socket leaves as soon as it notices.
        is_reachable = endpoint is not None and is_listening(endpoint)
        try:
            self._lock.acquire(timeout=0 if is_reachable else LEAVE_WAIT_S, poll_interval=_POLL_S)
            write_private(_pid_path(self._path), str(os.getpid()))
        except Timeout:
            raise AlreadyRunningError(_already_running(self._path)) from None
        except OSError as error:
            self._lock.release()
            raise EndpointError(f"cannot lock {self._path}: {error.strerror}") from error

    def release(self) -> None:
        """May be called again."""
        self._lock.release()


def is_engine_lock_held() -> bool:
    """Whether some process is the engine, even if it cannot be reached. Raises: EndpointError."""
    path = lock_path()
    if not path.exists():
        return False
    lock = FileLock(path, mode=0o600)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        return True
    except OSError as error:
        raise EndpointError(f"cannot lock {path}: {error.strerror}") from error
    lock.release()
    return False


def lock_holder() -> int | None:
    """The process that took the lock last, None where that is not known. Raises: EndpointError."""
    with suppress(OSError, ValueError):
        return int(_pid_path(lock_path()).read_text(encoding="ascii"))
    return None


def _pid_path(lock: Path) -> Path:
    return lock.with_suffix(".pid")


def _already_running(path: Path) -> str:
    pid = lock_holder()
    if pid is None:
        return f"an engine already runs (it holds {path})"
    return (
        f"an engine already runs: process {pid} holds {path}; if it does not answer, end it with: "
        f"kill -9 {pid}"
    )

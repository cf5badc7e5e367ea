"""One writer a store: whoever holds the lock writes, and the others only read.

The operating system lets go of the lock when its holder dies, however it dies, so a reader that
tries again takes over.
"""

from pathlib import Path

from filelock import FileLock, Timeout


class WriterLock:
    """The lock file beside a store's database."""

    def __init__(self, location: Path) -> None:
        self._lock = FileLock(location / "lock", mode=0o600, thread_local=False)

    @property
    def is_held(self) -> bool:
        """By this process."""
        return self._lock.is_locked

    def try_acquire(self) -> bool:
        """Returns whether this process is the writer now; never waits."""
        if self.is_held:
            return True
        try:
            self._lock.acquire(timeout=0)
        except Timeout:
            return False
        return True

    @property
    def is_lost(self) -> bool:
        """Whether its file was deleted: another process could take the lock as well."""
        return not Path(self._lock.lock_file).exists()

    def release(self) -> None:
        """Does nothing where it is not held."""
        self._lock.release()

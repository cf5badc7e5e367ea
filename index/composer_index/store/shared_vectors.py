"""Vectors by content hash, shared by all roots of a user: branches, worktrees and windows embed a
chunk once. For embedders that take long; a static table is quicker than the look-up.

SQLite, because it is a look-up by key, by several processes at once: no search is done in it.
"""

import sqlite3
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import numpy as np

from composer_index.embedding.embedder import Vectors
from composer_index.store.errors import StoreBrokenError, StoreError, StoreFullError

_DAY_S = 86_400
UNUSED_DAYS = 60
_A_QUERY = 500
"""Hashes of one statement: SQLite bounds their number."""


class SharedVectors:
    """One embedder's vectors. Used by one thread at a time; by any number of processes."""

    def __init__(self, location: Path) -> None:
        """Opens or makes the file (see `shared_vectors_location`); one that is broken is replaced.

        Raises: StoreError.
        """
        self._location = location
        try:
            location.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._connection = self._open()
        except sqlite3.DatabaseError:
            for path in location.parent.glob(f"{location.name}*"):
                path.unlink(missing_ok=True)
            self._connection = self._open()
        except OSError as error:
            raise StoreError(f"vectors cannot be shared: {error}") from error

    def close(self) -> None:
        """Lets go of the file."""
        self._connection.close()

    def get(self, hashes: Sequence[str]) -> Mapping[str, Vectors]:
        """Returns the vectors that are there, by content hash.

        Raises: StoreBrokenError.
        """
        found: dict[str, Vectors] = {}
        today = int(time.time()) // _DAY_S
        try:
            for start in range(0, len(hashes), _A_QUERY):
                some = hashes[start : start + _A_QUERY]
                marks = ", ".join("?" * len(some))
                query = f"SELECT hash, vector, used FROM vectors WHERE hash IN ({marks})"
                rows: list[tuple[str, bytes, int]] = self._connection.execute(
                    query, some
                ).fetchall()
                for key, data, _ in rows:
                    found[key] = np.frombuffer(data, np.float16).astype(np.float32)
                old = [(today, key) for key, _, used in rows if used < today]
                self._connection.executemany("UPDATE vectors SET used = ? WHERE hash = ?", old)
        except sqlite3.DatabaseError as error:
            raise _translated(error) from error
        return found

    def put(self, vectors: Mapping[str, Vectors]) -> None:
        """Adds vectors, by content hash.

        Raises: StoreFullError, StoreBrokenError.
        """
        today = int(time.time()) // _DAY_S
        rows = [(key, row.astype(np.float16).tobytes(), today) for key, row in vectors.items()]
        try:
            self._connection.execute("BEGIN IMMEDIATE")
            self._connection.executemany("INSERT OR IGNORE INTO vectors VALUES (?, ?, ?)", rows)
            self._connection.execute("COMMIT")
        except sqlite3.DatabaseError as error:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            raise _translated(error) from error

    def prune(self, unused_days: int = UNUSED_DAYS) -> None:
        """Removes vectors that no root has asked for in so many days, and the files of other
        embedders that nobody has opened in as many.

        Raises: StoreFullError, StoreBrokenError.
        """
        oldest = int(time.time()) // _DAY_S - unused_days
        try:
            self._connection.execute("DELETE FROM vectors WHERE used < ?", (oldest,))
            self._connection.execute("PRAGMA incremental_vacuum").fetchall()
        except sqlite3.DatabaseError as error:
            raise _translated(error) from error
        with suppress(OSError):  # Another process removed them first, or has one open on Windows.
            self._prune_others(time.time() - unused_days * _DAY_S)

    def _prune_others(self, oldest: float) -> None:
        for path in self._location.parent.glob("*.sqlite3"):
            files = [*path.parent.glob(f"{path.name}*")]
            if path != self._location and all(each.stat().st_mtime < oldest for each in files):
                for each in files:
                    each.unlink(missing_ok=True)

    def _open(self) -> sqlite3.Connection:
        connection = sqlite3.connect(
            self._location, timeout=10, isolation_level=None, check_same_thread=False
        )
        connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.execute(
            "CREATE TABLE IF NOT EXISTS vectors"
            " (hash TEXT PRIMARY KEY, vector BLOB NOT NULL, used INTEGER NOT NULL) WITHOUT ROWID"
        )
        return connection


def _translated(error: sqlite3.DatabaseError) -> StoreError:
    if getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_FULL:
        return StoreFullError("sharing vectors: the disk is full")
    return StoreBrokenError(f"sharing vectors: {error}")

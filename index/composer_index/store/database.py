"""One Lance database: its tables, opened or made, and Lance's errors as ours."""

import stat
from collections.abc import Collection, Generator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

from composer_index.store import schema
from composer_index.store.errors import StoreBrokenError, StoreFullError
from composer_index.store.lance import ArrowSchema, Table, lancedb, pa
from composer_index.store.location import slug

_INDEX_CACHE_BYTES = 384 << 20
"""Holds the word lists and the quantised vectors of about a million chunks."""
_METADATA_CACHE_BYTES = 32 << 20
_FULL = ("os error 28)", "os error 122)", "No space left on device", "Disk quota exceeded")


@contextmanager
def translated(what: str) -> Generator[None]:
    """Raises Lance's failures as StoreFullError or StoreBrokenError, `what` said first."""
    try:
        yield
    except (RuntimeError, ValueError, OSError, pa.ArrowException) as error:
        text = str(error)
        if any(sign in text for sign in _FULL):
            raise StoreFullError(f"{what}: the disk is full") from error
        raise StoreBrokenError(f"{what}: {text[:300]}") from error
    except BaseException as error:
        # A panic in Lance's Rust code, as damaged files cause; its class derives from BaseException.
        if type(error).__name__ == "PanicException":
            raise StoreBrokenError(f"{what}: {str(error)[:300]}") from error
        raise


def is_refusal(error: StoreBrokenError) -> bool:
    """Whether Lance would not take a question for what it says, a condition that is none among
    others: that tells nothing of the database."""
    return isinstance(error.__cause__, ValueError) and "Invalid input" in str(error.__cause__)


class Database:
    """The tables of one folder. Safe to use from several threads; sees other processes' commits."""

    def __init__(self, folder: Path, *, create: bool) -> None:
        """Opens the tables, or makes those that are missing if `create`.

        Raises:
            StoreBrokenError: it cannot be read.
            StoreFullError: it cannot be made.
        """
        self.folder = folder
        session = lancedb.Session(
            index_cache_size_bytes=_INDEX_CACHE_BYTES,
            metadata_cache_size_bytes=_METADATA_CACHE_BYTES,
        )
        with translated(f"opening {folder}"):
            if create:
                folder.mkdir(parents=True, exist_ok=True)
            elif not folder.is_dir():
                raise FileNotFoundError(f"no such folder: {folder}")
            self._connection: Any = lancedb.connect(
                str(folder), session=session, read_consistency_interval=timedelta(0)
            )
            self.chunks = self._open("chunks", schema.CHUNKS, create)
            self.definitions = self._open("definitions", schema.DEFINITIONS, create)
            self.files = self._open("files", schema.FILES, create)
            self._vectors: dict[str, Table] = {
                name: self._connection.open_table(name)
                for name in (path.stem for path in sorted(folder.glob("vectors_*.lance")))
            }

    def vectors(self, embedder: str, dim: int = 0) -> Table | None:
        """Returns the table of `embedder`'s vectors. Where there is none, makes it if `dim` is
        given, else returns None."""
        name = f"vectors_{slug(embedder)}"
        if name not in self._vectors:
            with translated(f"opening {name}"):
                if not dim and not (self.folder / f"{name}.lance").is_dir():
                    return None
                self._vectors[name] = self._open(name, schema.vectors(dim), bool(dim))
        return self._vectors[name]

    def drop_vectors_except(self, embedders: Collection[str]) -> None:
        """Removes the tables of all other embedders' vectors."""
        kept = {f"vectors_{slug(embedder)}" for embedder in embedders}
        for path in self.folder.glob("vectors_*.lance"):
            if path.stem not in kept:
                self._vectors.pop(path.stem, None)
                with translated(f"dropping {path.stem}"):
                    self._connection.drop_table(path.stem)

    def tables(self) -> list[Table]:
        """Returns every table."""
        return [self.chunks, self.definitions, self.files, *self.vector_tables()]

    def vector_tables(self) -> list[Table]:
        """Returns every table of vectors."""
        return list(self._vectors.values())

    def disk_bytes(self) -> int:
        """Returns the size of all files."""
        return sum(map(_size, self.folder.rglob("*")))

    def _open(self, name: str, columns: ArrowSchema, create: bool) -> Table:
        if create and not (self.folder / f"{name}.lance").is_dir():
            return self._connection.create_table(name, schema=columns)
        table = self._connection.open_table(name)
        if table.schema.names != columns.names:
            raise ValueError(f"{name} has other columns: {table.schema.names}")
        return table


def _size(path: Path) -> int:
    try:
        found = path.lstat()
    except FileNotFoundError:
        return 0
    return found.st_size if stat.S_ISREG(found.st_mode) else 0

"""One workspace root's store: the writer's commits, everyone's questions, and its repair.

A file is replaced so: its new rows are added to chunks, vectors and definitions under a higher
generation; its row in `files` follows, which is what acknowledges the file; then the old rows go.
Each step is one atomic commit. A process that dies in between leaves rows of another generation
than the file's row in `files`: the next writer removes them. A reader that comes in between takes
the newest.
"""

import logging
import shutil
import threading
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from errno import EDQUOT, ENOSPC
from pathlib import Path
from typing import Self, TypeVar

import numpy as np

from composer_index.chunk import SkippedFile
from composer_index.embedding.embedder import Vectors
from composer_index.store import reading, rows, schema, upkeep
from composer_index.store.database import Database, is_refusal, translated
from composer_index.store.errors import (
    NotWriterError,
    StoreBrokenError,
    StoreError,
    StoreFullError,
)
from composer_index.store.lance import ArrowTable, Table
from composer_index.store.lock import WriterLock
from composer_index.store.records import (
    Counts,
    FileStat,
    Filter,
    FoundDefinition,
    Hit,
    IndexedFile,
    KnownFile,
    StoredChunk,
    StoreEvent,
)
from composer_index.store.sql import decode_path, encode_path, ends_with, is_in, paths_in, quote

logger = logging.getLogger(__name__)

_Answer = TypeVar("_Answer")
OnEvent = Callable[[StoreEvent], None]

GRACE_S = 60.0
"""How long a version that a reader may still be reading stays on the disk."""


def _ignore(_: StoreEvent) -> None: ...


class Store:
    """Opened by every worker of a root; one of them writes. Safe to use from several threads.

    Questions never fail for the database's state: a broken one answers with nothing, and the writer
    replaces it. Changes raise NotWriterError, StoreFullError, and StoreBrokenError after the
    database was replaced by an empty one (then index everything anew).
    """

    def __init__(self, location: Path, on_event: OnEvent = _ignore) -> None:
        """Use `Store.open`."""
        self._location = location
        self._on_event = on_event
        self._lock = WriterLock(location)
        self._mutex = threading.RLock()
        self._seen: tuple[int, int] | None = None
        self._current: schema.Current | None = None
        self._database: Database | None = None
        self._present: set[str] = set()
        self._generation = 0
        self._is_full = False

    @classmethod
    def open(cls, location: Path, on_event: OnEvent = _ignore) -> Self:
        """Opens the store in `location` (see `location.py`), as its writer if there is none.

        Raises:
            StoreFullError: the disk is full.
            StoreError: the folder cannot be used.
        """
        store = cls(location, on_event)
        try:
            location.mkdir(mode=0o700, parents=True, exist_ok=True)
            location.chmod(0o700)
        except OSError as error:
            kind = StoreFullError if error.errno in (ENOSPC, EDQUOT) else StoreError
            raise kind(f"the index needs a folder of its own: {error}") from error
        store.try_become_writer()
        return store

    def close(self) -> None:
        """Lets another process write. The store answers nothing from here on."""
        with self._mutex:
            self._database = None
            self._lock.release()

    @property
    def is_writer(self) -> bool:
        """Whether this process holds the lock."""
        return self._lock.is_held

    @property
    def num_present(self) -> int:
        """How many files it knows, indexed or skipped, where this process writes."""
        return len(self._present)

    @property
    def embedder(self) -> str:
        """The name of the embedder whose vectors answer; empty before the first vectors."""
        self._attach()
        return self._current.embedder if self._current else ""

    def try_become_writer(self) -> bool:
        """Takes the lock if nobody has it; returns whether this process is the writer now.

        Raises: StoreFullError.
        """
        with self._mutex:
            if self._lock.is_held:
                return True
            if not self._lock.try_acquire():
                return False
            try:
                self._load()
            except BaseException:
                self._lock.release()
                raise
            return True

    # Changes: the writer's.

    def upsert_files(self, files: Sequence[IndexedFile]) -> None:
        """Replaces everything known about some files (distinct ones) in one round of commits; they
        are acknowledged when this returns.

        Raises: NotWriterError, StoreFullError, StoreBrokenError.
        """
        if not files:
            return
        with self._writing("storing files") as database:
            generation = self._next_generation()
            tables = [
                (database.chunks, rows.chunk_rows(files, generation)),
                (database.definitions, rows.definition_rows(files, generation)),
                *self._vector_rows(database, files, generation),
                (database.files, rows.file_rows(files, generation)),
            ]
            self._replace(database, tables, [file.parsed.path for file in files], generation)

    def mark_skipped(self, skipped: Iterable[tuple[SkippedFile, FileStat]]) -> None:
        """Notes files that are not indexed, and why; forgets what was indexed of them.

        Raises: NotWriterError, StoreFullError, StoreBrokenError.
        """
        noted = [(file.path, file.reason, stat) for file, stat in skipped]
        if not noted:
            return
        with self._writing("storing files") as database:
            generation = self._next_generation()
            table = rows.skipped_rows(noted, generation)
            paths = [path for path, _, _ in noted]
            self._replace(database, [(database.files, table)], paths, generation)

    def delete_files(self, paths: Iterable[str]) -> None:
        """Forgets files, known or not. Compaction takes their text off the disk.

        Raises: NotWriterError, StoreFullError, StoreBrokenError.
        """
        with self._writing("deleting files") as database:
            gone = self._present.intersection(map(encode_path, paths))
            for some in _pieces(sorted(gone), 1000):
                where = paths_in(some)
                for table in reversed(database.tables()):
                    table.delete(where)
                self._present.difference_update(some)

    def refresh_indices(self) -> None:
        """Takes all new rows into the indices: after a long run of `upsert_files`.

        Raises: NotWriterError, StoreFullError, StoreBrokenError.
        """
        with self._writing("indexing") as database:
            upkeep.index_all(database)

    def compact(self, *, purge: bool = False, grace_s: float = GRACE_S) -> bool:
        """Does one step of compaction, for idle times. With `purge`, also takes what was deleted or
        replaced off the disk, at the cost of rewriting the rest: about 6 s of CPU time for 36,000
        chunks, so after files became hidden, and else once in a long while.

        Returns whether to call again (with the same `purge`), `grace_s` seconds from now. When that
        is False, nothing of what was to go is left.
        Raises: NotWriterError, StoreFullError, StoreBrokenError.
        """
        with self._writing("compacting") as database:
            return upkeep.compact(database, grace_s, purge=purge)

    def clear(self) -> None:
        """Begins an empty database, and removes the old one from the disk.

        Raises: NotWriterError, StoreFullError.
        """
        if not self._lock.is_held:
            raise NotWriterError("another window writes this workspace's index")
        with self._mutex:
            self._begin()

    # Vectors that come later than their files.

    def unembedded(self, embedder: str) -> list[str]:
        """Returns the files some of whose chunks have no vectors by `embedder`."""

        def query(database: Database) -> list[str]:
            table = database.vectors(embedder)
            have = {} if table is None else reading.generations(table)
            wanted = reading.generations(database.chunks)
            return sorted(decode_path(path) for path, at in wanted.items() if have.get(path) != at)

        return self._read(query, [])

    def put_vectors(self, embedder: str, chunks: Sequence[StoredChunk], vectors: Vectors) -> None:
        """Adds the vectors [num_chunks, dim] of whole files, as `chunks_of` gave their chunks. A
        file that was replaced meanwhile stays among the `unembedded`.

        Raises: NotWriterError, StoreFullError, StoreBrokenError.
        """
        if not chunks:
            return
        with self._writing("storing vectors") as database:
            table = database.vectors(embedder, vectors.shape[1])
            old = {chunk.path for chunk in chunks}
            assert table is not None
            table.delete(paths_in(old))
            table.add(rows.vector_rows(chunks, vectors))

    def switch_embedder(self, embedder: str, keep: Collection[str] = ()) -> None:
        """Lets `embedder`'s vectors answer from now on; those of all others but `keep` are removed.

        Raises: NotWriterError, StoreFullError, StoreBrokenError.
        """
        with self._writing("switching the embedder") as database:
            assert self._current is not None
            if self._current.embedder != embedder:
                self._write_current(replace(self._current, embedder=embedder))
            database.drop_vectors_except({embedder, *keep})

    # Questions: everyone's.

    def known_files(self) -> Iterator[KnownFile]:
        """Yields every file of the store, indexed or skipped. Raises: StoreBrokenError."""
        self._attach()
        database = self._database
        if database is not None:
            try:
                yield from reading.known_files(database)
            except StoreBrokenError as error:
                self._repair(str(error), database)
                raise

    def match_words(self, words: Sequence[str], limit: int, chosen: Filter) -> list[Hit]:
        """Returns the best chunks by BM25, best first; `words` are as `query_words` gives them."""
        if not words:
            return []
        return self._read(lambda database: reading.match_words(database, words, limit, chosen), [])

    def nearest(self, embedder: str, vector: Vectors, limit: int, chosen: Filter) -> list[Hit]:
        """Returns the chunks whose vectors by `embedder` are nearest, best first."""

        def query(database: Database) -> list[Hit]:
            table = database.vectors(embedder)
            return [] if table is None else reading.nearest(table, vector, limit, chosen)

        return self._read(query, [])

    def word_weight(self, word: str, average_length: float) -> float:
        """Returns a word's inverse document frequency."""
        return self._read(lambda database: reading.word_weight(database, word, average_length), 1.0)

    def average_length(self) -> float:
        """Returns the words of an average chunk."""
        return self._read(reading.average_length, 1.0)

    def chunks_at(self, hits: Sequence[Hit]) -> Mapping[tuple[str, int], StoredChunk]:
        """Returns the hits' chunks by (path, ordinal); without those that were replaced since."""
        return self._read(lambda database: reading.chunks_at(database, hits), {})

    def words_at(self, hits: Sequence[Hit]) -> Mapping[tuple[str, int], list[str]]:
        """Returns the words of the hits' chunks, as `chunks_at` returns the chunks."""
        return self._read(lambda database: reading.words_at(database, hits), {})

    def num_chunks(self) -> int:
        """Returns the number of chunks."""
        return self._read(reading.num_chunks, 0)

    def chunks_of(self, paths: Sequence[str]) -> list[StoredChunk]:
        """Returns all chunks of some files, in order."""
        return self._read(lambda database: reading.chunks_of(database, paths), []) if paths else []

    def mentions(self, name: str, limit: int) -> list[StoredChunk]:
        """Returns chunks in which the identifier `name` occurs."""
        return self._read(lambda database: reading.mentions(database, name, limit), [])

    def definitions_named(self, name: str, limit: int = 100) -> list[FoundDefinition]:
        """Returns the definitions of exactly this name."""
        return self.definitions_where(f"name = {quote(name)}", limit)

    def definitions_where(self, condition: str, limit: int) -> list[FoundDefinition]:
        """Returns definitions that meet a condition in SQL, over the columns of
        `schema.DEFINITIONS`."""
        return self._read(lambda database: reading.definitions(database, condition, limit), [])

    def imports_of(self, path: str) -> tuple[str, ...]:
        """Returns what a file imports, as written."""
        return self._read(lambda database: reading.imports_of(database, path), ())

    def indexed_among(self, paths: Sequence[str]) -> set[str]:
        """Returns those of `paths` that are indexed."""
        if not paths:
            return set()
        return self._read(lambda database: reading.indexed(database, paths_in(paths)), set[str]())

    def paths_ending(self, endings: Sequence[str]) -> list[str]:
        """Returns the indexed files whose last path components are one of `endings`; one that ends
        in `/` is any file of that folder. At most a thousand."""
        if not endings:
            return []
        pattern = ends_with(endings)
        found = self._read(lambda database: reading.indexed(database, pattern), set[str]())
        return sorted(found)

    def counts(self) -> Counts:
        """Returns how much is stored."""

        def query(database: Database) -> Counts:
            with translated("counting"):
                reasons: list[str] = []
                for batch in database.files.search().select(["skipped"]).to_batches():
                    reasons += batch.column("skipped").to_pylist()
                skipped = {reason: reasons.count(reason) for reason in set(reasons) - {""}}
                return Counts(
                    num_files=reasons.count(""),
                    num_chunks=database.chunks.count_rows(),
                    num_definitions=database.definitions.count_rows(),
                    num_skipped=skipped,
                    disk_bytes=database.disk_bytes(),
                )

        nothing = Counts(num_files=0, num_chunks=0, num_definitions=0, num_skipped={}, disk_bytes=0)
        return self._read(query, nothing)

    # Within.

    def _replace(
        self,
        database: Database,
        tables: Sequence[tuple[Table, ArrowTable]],
        paths: Sequence[str],
        generation: int,
    ) -> None:
        encoded = {encode_path(path) for path in paths}
        known = sorted(encoded & self._present)
        self._present |= encoded
        for table, new in tables:
            if new.num_rows:
                table.add(new)
        for some in _pieces(known, 1000):
            where = f"generation < {generation} AND {paths_in(some)}"
            for table in database.tables():
                table.delete(where)

    def _vector_rows(
        self, database: Database, files: Sequence[IndexedFile], generation: int
    ) -> list[tuple[Table, ArrowTable]]:
        tables: list[tuple[Table, ArrowTable]] = []
        for embedder in sorted({name for file in files for name in file.vectors}):
            have = [file for file in files if embedder in file.vectors and file.parsed.chunks]
            if not have:
                continue
            keys = [key for file in have for key in rows.embedded(file, generation)]
            vectors = np.concatenate([file.vectors[embedder] for file in have])
            table = database.vectors(embedder, vectors.shape[1])
            tables.append((table, rows.vector_rows(keys, vectors)))
            if self._current and not self._current.embedder:
                self._write_current(replace(self._current, embedder=embedder))
        return tables

    def _next_generation(self) -> int:
        self._generation += 1
        return self._generation

    @contextmanager
    def _writing(self, what: str) -> Generator[Database]:
        if not self._lock.is_held:
            raise NotWriterError("another window writes this workspace's index")
        with self._mutex:
            try:
                if self._database is None:
                    self._load()
                assert self._database is not None
                with translated(what):
                    yield self._database
            except StoreFullError as error:
                if not self._is_full:
                    self._is_full = True
                    self._on_event(
                        StoreEvent(kind="full", message=f"The index stands still: {error}")
                    )
                raise
            except StoreBrokenError as error:
                self._rebuild(str(error))
                raise
            if self._is_full:
                self._is_full = False
                self._on_event(StoreEvent(kind="room", message="The index goes on: there is room"))

    def _read(self, query: Callable[[Database], _Answer], nothing: _Answer) -> _Answer:
        for is_last in (False, True):
            self._attach()
            database = self._database
            if database is None:
                return nothing
            try:
                return query(database)
            except StoreBrokenError as error:
                # Perhaps only replaced while being read: look again before giving it up.
                self._seen = None
                if is_last:
                    logger.warning("the index does not answer: %s", error)
                    if not is_refusal(error):
                        self._repair(str(error), database)
            except StoreError as error:
                logger.warning("the index does not answer: %s", error)
                return nothing
        return nothing

    def _repair(self, reason: str, broken: Database | None) -> None:
        """Unless another thread has replaced the `broken` one already."""
        if self._lock.is_held:
            with self._mutex, suppress(StoreError, OSError):
                if self._database is broken:
                    self._rebuild(reason)

    def _attach(self) -> None:
        """Opens the database that is the current one, unless it is open; None if it cannot be."""
        try:
            found = (self._location / schema.CURRENT).stat()
            seen = (found.st_mtime_ns, found.st_ino)
        except OSError:
            seen = None
        if seen is not None and seen == self._seen:
            return
        with self._mutex:
            self._seen = seen
            try:
                self._open_current()
                if self._database is None and self._lock.is_held:
                    raise StoreBrokenError(f"{self._location} is not there any more")
            except (StoreError, ValueError, OSError) as error:
                logger.warning("the index cannot be opened: %s", error)
                self._current = self._database = None
                self._repair(str(error), None)

    def _open_current(self) -> None:
        current = schema.read_current(self._location)
        if current is None:
            self._current = self._database = None
            return
        if current.version != schema.VERSION:
            raise StoreBrokenError(
                f"the index is of version {current.version}, and this is version {schema.VERSION}"
            )
        folder = self._location / current.database
        if self._database is None or self._database.folder != folder:
            self._database = Database(folder, create=False)
        self._current = current

    def _load(self) -> None:
        """The new writer's start: opens, repairs, or begins the database."""
        try:
            self._open_current()
            if self._database is None:
                self._begin()
            else:
                self._recover(self._database)
        except StoreFullError:
            raise
        except (StoreError, ValueError, OSError) as error:
            self._rebuild(str(error))

    def _recover(self, database: Database) -> None:
        """Removes what a writer that died left behind: rows that `files` does not vouch for."""
        found = {table: reading.generations(table) for table in database.tables()}
        newest = {path: max(each) for path, each in found[database.files].items()}
        self._present = set(newest)
        self._generation = max(
            (max(each) for pairs in found.values() for each in pairs.values()), default=0
        )
        for table, pairs in found.items():
            stray: dict[int, list[str]] = {}
            for path, each in pairs.items():
                for generation in each - {newest.get(path)}:
                    stray.setdefault(generation, []).append(path)
            for generation, paths in stray.items():
                for some in _pieces(paths, 1000):
                    with translated("recovering"):
                        table.delete(f"generation = {generation} AND {is_in('path', some)}")

    def _rebuild(self, reason: str) -> None:
        logger.warning("the index is rebuilt: %s", reason)
        self._begin()
        message = f"The index is being rebuilt, search goes on from text ({reason})"
        self._on_event(StoreEvent(kind="rebuilt", message=message))

    def _begin(self) -> None:
        """An empty database takes the place of the current one."""
        self._location.mkdir(mode=0o700, parents=True, exist_ok=True)
        if self._lock.is_lost:
            self._lock.release()
            if not self._lock.try_acquire():
                raise NotWriterError("another window writes this workspace's index")
        numbers = [
            int(path.name[5:]) for path in self._location.glob("data-*") if path.name[5:].isdigit()
        ]
        name = f"data-{max(numbers, default=0) + 1}"
        self._current = self._database = None
        self._database = Database(self._location / name, create=True)
        upkeep.make_indices(self._database)
        self._present = set()
        self._generation = 0
        self._write_current(schema.Current(version=schema.VERSION, database=name, embedder=""))
        for old in self._location.glob("data-*"):
            if old.name != name:
                shutil.rmtree(old, ignore_errors=True)

    def _write_current(self, current: schema.Current) -> None:
        with translated("writing current.json"):
            schema.write_current(self._location, current)
        self._current = current


def _pieces(items: Sequence[str], size: int) -> Iterator[Sequence[str]]:
    for start in range(0, len(items), size):
        yield items[start : start + size]

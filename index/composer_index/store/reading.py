"""The questions that a database answers. All raise StoreError."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np

from composer_index.embedding.embedder import Vectors
from composer_index.store.database import Database, translated
from composer_index.store.lance import Table, lance_query, pa
from composer_index.store.records import (
    FileStat,
    Filter,
    FoundDefinition,
    Hit,
    KnownFile,
    StoredChunk,
)
from composer_index.store.sql import condition, decode_path, paths_in, valid

_NUM_PROBES = 12
"""Partitions of the vector index that a query reads; all of them up to 200,000 chunks."""
K1, B = 1.2, 0.75
"""Lance's constants of BM25."""
_HIT = ["path", "ordinal", "generation", "language", "names", "is_function"]
_CHUNK = [
    *("path", "ordinal", "generation", "start_line", "end_line"),
    *("symbol", "signature", "language", "text", "content_hash", "names", "is_function"),
]
_DEFINITION = ["path", "generation", "name", "kind", "symbol", "start_line", "end_line"]


def match_words(database: Database, words: Sequence[str], limit: int, chosen: Filter) -> list[Hit]:
    """Returns the best chunks by BM25."""
    match = lance_query.MatchQuery(valid(" ".join(words)), "words")
    with translated("searching by words"):
        query = database.chunks.search(match, query_type="fts").select([*_HIT, "_score"])
        return _newest(_hits(query, limit, chosen))


def nearest(table: Table, vector: Vectors, limit: int, chosen: Filter) -> list[Hit]:
    """Returns the chunks whose vectors are most like `vector`, a row of length one."""
    with translated("searching by meaning"):
        query = table.search(np.asarray(vector, np.float32), vector_column_name="vector")
        query = query.distance_type("l2").nprobes(_NUM_PROBES).select([*_HIT, "_distance"])
        return _newest(_hits(query, limit, chosen))


def word_weight(database: Database, word: str, average_length: float) -> float:
    """Returns a word's inverse document frequency, out of the score of a chunk that has it."""
    with translated("weighing a word"):
        match = lance_query.MatchQuery(valid(word), "words")
        query = database.chunks.search(match, query_type="fts").select(["words", "_score"])
        rows: list[dict[str, Any]] = query.limit(1).to_list()
        if not rows:
            return math.log(1 + (database.chunks.count_rows() + 0.5) / 0.5)
    words = rows[0]["words"].split(" ")
    count, length = words.count(word), K1 * (1 - B + B * len(words) / average_length)
    return rows[0]["_score"] * (count + length) / (count * (K1 + 1))


def average_length(database: Database) -> float:
    """Returns the words of an average chunk, of a sample."""
    with translated("measuring"):
        rows: list[dict[str, Any]] = (
            database.chunks.search().select(["words"]).limit(2000).to_list()
        )
    return max(1.0, sum(row["words"].count(" ") + 1 for row in rows) / max(1, len(rows)))


def mentions(database: Database, name: str, limit: int) -> list[StoredChunk]:
    """Returns chunks whose text has the identifier `name`."""
    operator = lance_query.FullTextOperator.AND
    exact = lance_query.MatchQuery(valid(name), "identifiers", operator=operator)
    with translated("searching by identifier"):
        query = database.chunks.search(exact, query_type="fts").select([*_CHUNK, "_score"])
        return _newest(map(_chunk, query.limit(limit).to_list()))


def chunks_at(database: Database, hits: Iterable[Hit]) -> dict[tuple[str, int], StoredChunk]:
    """Returns the chunks by (path, ordinal); those that have since been replaced are not among
    them."""
    return {key: _chunk(row) for key, row in _rows_at(database, hits, _CHUNK)}


def words_at(database: Database, hits: Iterable[Hit]) -> dict[tuple[str, int], list[str]]:
    """Returns the words of the chunks, as `chunks_at` returns the chunks."""
    columns = ["path", "ordinal", "generation", "words"]
    return {key: row["words"].split(" ") for key, row in _rows_at(database, hits, columns)}


def _rows_at(
    database: Database, hits: Iterable[Hit], columns: Sequence[str]
) -> Iterator[tuple[tuple[str, int], dict[str, Any]]]:
    """Those of the hits' chunks that have not been replaced."""
    wanted = {(hit.path, hit.ordinal): hit.generation for hit in hits}
    if not wanted:
        return
    ordinals = ", ".join(map(str, sorted({ordinal for _, ordinal in wanted})))
    where = f"{paths_in({path for path, _ in wanted})} AND ordinal IN ({ordinals})"
    with translated("reading chunks"):
        rows: list[dict[str, Any]] = (
            database.chunks.search().where(where).select(list(columns)).to_list()
        )
    for row in rows:
        key = (decode_path(row["path"]), row["ordinal"])
        if wanted.get(key) == row["generation"]:
            yield key, row


def num_chunks(database: Database) -> int:
    """Returns the number of chunks."""
    with translated("counting"):
        return database.chunks.count_rows()


def chunks_of(database: Database, paths: Iterable[str]) -> list[StoredChunk]:
    """Returns all chunks of some files, in order."""
    with translated("reading chunks"):
        query = database.chunks.search().where(paths_in(paths)).select(_CHUNK)
        found = _newest(map(_chunk, query.to_list()))
    return sorted(found, key=lambda chunk: (chunk.path, chunk.ordinal))


def definitions(database: Database, condition: str, limit: int) -> list[FoundDefinition]:
    """Returns definitions that meet a condition in SQL."""
    with translated("reading definitions"):
        query = database.definitions.search().where(condition).select(_DEFINITION)
        rows: list[dict[str, Any]] = query.limit(limit).to_list()
    newest = _generations((row["path"], row["generation"]) for row in rows)
    return [
        FoundDefinition(
            path=decode_path(row["path"]),
            name=row["name"],
            kind=row["kind"],
            symbol=row["symbol"],
            start_line=row["start_line"],
            end_line=row["end_line"],
        )
        for row in rows
        if row["generation"] == newest[row["path"]]
    ]


def imports_of(database: Database, path: str) -> tuple[str, ...]:
    """Returns what a file imports, as written; empty for an unknown file."""
    with translated("reading imports"):
        query = database.files.search().where(paths_in([path])).select(["generation", "imports"])
        rows: list[dict[str, Any]] = query.to_list()
    newest = max(rows, key=lambda row: row["generation"], default=None)
    return tuple(newest["imports"]) if newest else ()


def indexed(database: Database, condition: str) -> set[str]:
    """Returns the indexed files that meet a condition in SQL, a thousand at most."""
    with translated("looking for files"):
        query = database.files.search().where(f"skipped = '' AND {condition}")
        found = query.select(["path"]).limit(1000).to_arrow()
    return {decode_path(path) for path in found.column("path").to_pylist()}


def known_files(database: Database) -> Iterator[KnownFile]:
    """Yields every file, indexed or skipped."""
    columns = ["path", "size", "mtime_ns", "content_hash", "skipped"]
    with translated("reading the list of files"):
        for batch in database.files.search().select(columns).to_batches():
            for path, size, mtime_ns, content_hash, skipped in zip(
                *(batch.column(name).to_pylist() for name in columns), strict=True
            ):
                stat = FileStat(size=size, mtime_ns=mtime_ns, content_hash=content_hash)
                yield KnownFile(path=decode_path(path), stat=stat, skipped=skipped)


def generations(table: Table) -> dict[str, set[int]]:
    """Returns the generations of each (encoded) path's rows: one, unless a writer died."""
    found: dict[str, set[int]] = {}
    with translated("reading generations"):
        for batch in table.search().select(["path", "generation"]).to_batches():
            pairs = pa.Table.from_batches([batch]).group_by(["path", "generation"]).aggregate([])
            for path, generation in zip(
                pairs.column("path").to_pylist(),
                pairs.column("generation").to_pylist(),
                strict=True,
            ):
                found.setdefault(path, set()).add(generation)
    return found


def _limited(query: Any, limit: int, chosen: Filter) -> Any:
    where = condition(chosen)
    return (query.where(where, prefilter=True) if where else query).limit(limit)


def _hits(query: Any, limit: int, chosen: Filter) -> list[Hit]:
    found = _limited(query, limit, chosen).to_arrow()
    columns = {name: found.column(name).to_pylist() for name in found.column_names}
    # Vectors have length one, so 1 - |a - b|² / 2 is their cosine. Lance is three times quicker by
    # this distance than by the dot product.
    scores = (
        columns["_score"]
        if "_score" in columns
        else [1 - distance / 2 for distance in columns["_distance"]]
    )
    return [
        Hit(
            path=decode_path(path),
            ordinal=ordinal,
            generation=generation,
            language=language,
            names=tuple(names.split("\n")) if names else (),
            is_function=is_function,
            score=score,
        )
        for path, ordinal, generation, language, names, is_function, score in zip(
            *(columns[name] for name in _HIT), scores, strict=True
        )
    ]


def _chunk(row: Mapping[str, Any]) -> StoredChunk:
    fields: dict[str, Any] = {name: row[name] for name in _CHUNK}
    fields["path"] = decode_path(row["path"])
    fields["names"] = tuple(row["names"].split("\n")) if row["names"] else ()
    return StoredChunk(**fields)


_Found = TypeVar("_Found", Hit, StoredChunk)


def _newest(found: Iterable[_Found]) -> list[_Found]:
    """Between a file's new rows and the deletion of its old ones, a reader meets both."""
    every = list(found)
    newest = _generations((each.path, each.generation) for each in every)
    return [each for each in every if each.generation == newest[each.path]]


def _generations(pairs: Iterable[tuple[str, int]]) -> dict[str, int]:
    newest: dict[str, int] = {}
    for path, generation in pairs:
        newest[path] = max(generation, newest.get(path, 0))
    return newest

"""Parsed files to Arrow tables."""

from collections.abc import Iterable, Sequence

import numpy as np

from composer_index.chunk import ParsedFile
from composer_index.embedding.embedder import Vectors
from composer_index.store import schema
from composer_index.store.lance import ArrowSchema, ArrowTable, pa
from composer_index.store.naming import chunk_words, naming
from composer_index.store.records import FileStat, Hit, IndexedFile, StoredChunk
from composer_index.store.sql import encode_path


def chunk_rows(files: Sequence[IndexedFile], generation: int) -> ArrowTable:
    """Returns a row for each chunk."""
    rows = [row for file in files for row in _chunk_rows(file, generation)]
    return _table(rows, schema.CHUNKS)


def _chunk_rows(file: IndexedFile, generation: int) -> Iterable[tuple[object, ...]]:
    parsed = file.parsed
    path = encode_path(parsed.path)
    for ordinal, (chunk, named) in enumerate(zip(parsed.chunks, naming(parsed), strict=True)):
        words = file.words[ordinal] if file.words else " ".join(chunk_words(chunk, named))
        yield (
            path,
            generation,
            ordinal,
            chunk.start_line,
            chunk.end_line,
            _valid(chunk.symbol),
            _valid(chunk.signature),
            chunk.language,
            chunk.content_hash,
            _valid(chunk.text),
            _valid("\n".join(named.names)),
            named.is_function,
            _valid(words),
            _valid(" ".join(chunk.identifiers)),
        )


def definition_rows(files: Sequence[IndexedFile], generation: int) -> ArrowTable:
    """Returns a row for each definition."""
    rows = [
        (
            encode_path(file.parsed.path),
            generation,
            _valid(found.name),
            found.kind,
            _valid(found.symbol),
            found.start_line,
            found.end_line,
        )
        for file in files
        for found in file.parsed.definitions
    ]
    return _table(rows, schema.DEFINITIONS)


def file_rows(files: Sequence[IndexedFile], generation: int) -> ArrowTable:
    """Returns a row for each file."""
    rows = [_file_row(file.parsed, file.stat, generation) for file in files]
    return _table(rows, schema.FILES)


def _file_row(parsed: ParsedFile, stat: FileStat, generation: int) -> tuple[object, ...]:
    return (
        encode_path(parsed.path),
        generation,
        stat.size,
        stat.mtime_ns,
        stat.content_hash,
        "",
        parsed.language,
        len(parsed.chunks),
        [_valid(name) for name in parsed.imports],
    )


def skipped_rows(skipped: Iterable[tuple[str, str, FileStat]], generation: int) -> ArrowTable:
    """Returns a row for each (path, reason, stat)."""
    rows: list[tuple[object, ...]] = [
        (encode_path(path), generation, at.size, at.mtime_ns, at.content_hash, reason, "", 0, [])
        for path, reason, at in skipped
    ]
    return _table(rows, schema.FILES)


def vector_rows(chunks: Sequence[Hit | StoredChunk], vectors: Vectors) -> ArrowTable:
    """Returns a row for each chunk and its vector."""
    flat = pa.array(np.ascontiguousarray(vectors, dtype=np.float16).ravel())
    return pa.table(
        [
            pa.array([encode_path(chunk.path) for chunk in chunks], pa.string()),
            pa.array([chunk.generation for chunk in chunks], pa.int64()),
            pa.array([chunk.ordinal for chunk in chunks], pa.int32()),
            pa.array([chunk.language for chunk in chunks], pa.string()),
            pa.array([_valid("\n".join(chunk.names)) for chunk in chunks], pa.string()),
            pa.array([chunk.is_function for chunk in chunks], pa.bool_()),
            pa.FixedSizeListArray.from_arrays(flat, vectors.shape[1]),
        ],
        schema=schema.vectors(vectors.shape[1]),
    )


def embedded(file: IndexedFile, generation: int) -> list[Hit]:
    """Returns the keys of a file's vectors, in order."""
    return [
        Hit(
            path=file.parsed.path,
            ordinal=ordinal,
            generation=generation,
            language=chunk.language,
            names=named.names,
            is_function=named.is_function,
            score=0.0,
        )
        for ordinal, (chunk, named) in enumerate(
            zip(file.parsed.chunks, naming(file.parsed), strict=True)
        )
    ]


def _table(rows: Sequence[tuple[object, ...]], columns: ArrowSchema) -> ArrowTable:
    values = list(zip(*rows, strict=True)) if rows else [()] * len(columns)
    arrays = [pa.array(each, field.type) for each, field in zip(values, columns, strict=True)]
    return pa.table(arrays, schema=columns)


def _valid(text: str) -> str:
    """Arrow holds valid Unicode only: what no encoding has becomes a question mark."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()

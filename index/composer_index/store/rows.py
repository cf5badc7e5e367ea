"""Parsed files to Arrow tables."""

from collections.abc import Iterable, Sequence

import numpy as np

from composer_index.chunk import Chunk, ParsedFile
from composer_index.embedding.embedder import Vectors
from composer_index.store import schema
from composer_index.store.lance import ArrowSchema, ArrowTable, pa
from composer_index.store.records import FileStat, IndexedFile
from composer_index.store.sql import encode_path
from composer_index.words import split_words


def chunk_rows(files: Sequence[IndexedFile], generation: int) -> ArrowTable:
    """Returns a row for each chunk."""
    rows = [row for file in files for row in _chunk_rows(file, generation)]
    return _table(rows, schema.CHUNKS)


def _chunk_rows(file: IndexedFile, generation: int) -> Iterable[tuple[object, ...]]:
    parsed = file.parsed
    path = encode_path(parsed.path)
    for ordinal, chunk in enumerate(parsed.chunks):
        words = file.words[ordinal] if file.words else " ".join(split_words(chunk.text))
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
            _valid(words),
            _valid(" ".join(name_words(chunk))),
            _valid(" ".join(chunk.identifiers)),
        )


def name_words(chunk: Chunk) -> list[str]:
    """Returns the words of the chunk's path and symbol."""
    return split_words(f"{chunk.path} {chunk.symbol}")


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


def vector_rows(keys: Sequence[tuple[str, int, int, str, str]], vectors: Vectors) -> ArrowTable:
    """Returns a row for each (path, generation, ordinal, symbol, language) and its vector."""
    columns = schema.vectors(vectors.shape[1])
    paths, generations, ordinals, symbols, languages = zip(*keys, strict=True)
    flat = pa.array(np.ascontiguousarray(vectors, dtype=np.float16).ravel())
    return pa.table(
        [
            pa.array(map(encode_path, paths), pa.string()),
            pa.array(generations, pa.int64()),
            pa.array(ordinals, pa.int32()),
            pa.array(map(_valid, symbols), pa.string()),
            pa.array(languages, pa.string()),
            pa.FixedSizeListArray.from_arrays(flat, vectors.shape[1]),
        ],
        schema=columns,
    )


def _table(rows: Sequence[tuple[object, ...]], columns: ArrowSchema) -> ArrowTable:
    values = list(zip(*rows, strict=True)) if rows else [()] * len(columns)
    arrays = [pa.array(each, field.type) for each, field in zip(values, columns, strict=True)]
    return pa.table(arrays, schema=columns)


def _valid(text: str) -> str:
    """Arrow holds valid Unicode only: what no encoding has becomes a question mark."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()

"""The database's tables, and the small file that says which database is the current one.

    location/lock         held by the writer
    location/current.json version, name of the database's folder, embedder in use; replaced by rename
    location/data-N/      the Lance database: chunks, definitions, files, vectors_EMBEDDER

Every row carries its file's path and the generation of its write.
"""

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path

from composer_index.store.lance import ArrowField, ArrowSchema, pa

VERSION = 2
"""Of everything below and of what the columns mean (word splitting included): raise it with any
change, and every store of another version is rebuilt."""

CURRENT = "current.json"

_COMPRESSED = {"lance-encoding:compression": "zstd"}


def _row(*columns: ArrowField) -> ArrowSchema:
    return pa.schema([pa.field("path", pa.string()), pa.field("generation", pa.int64()), *columns])


CHUNKS = _row(
    pa.field("ordinal", pa.int32()),
    pa.field("start_line", pa.int32()),
    pa.field("end_line", pa.int32()),
    pa.field("symbol", pa.string()),
    pa.field("signature", pa.string()),
    pa.field("language", pa.string()),
    pa.field("content_hash", pa.string()),
    pa.field("text", pa.string(), metadata=_COMPRESSED),
    pa.field("names", pa.string()),
    pa.field("is_function", pa.bool_()),
    pa.field("words", pa.string(), metadata=_COMPRESSED),
    pa.field("identifiers", pa.string(), metadata=_COMPRESSED),
)
"""`words` (of path, symbol, names and text) and `identifiers` are joined by spaces, `names` by line
feeds: a heading is a name too."""

DEFINITIONS = _row(
    pa.field("name", pa.string()),
    pa.field("kind", pa.string()),
    pa.field("symbol", pa.string()),
    pa.field("start_line", pa.int32()),
    pa.field("end_line", pa.int32()),
)

FILES = _row(
    pa.field("size", pa.int64()),
    pa.field("mtime_ns", pa.int64()),
    pa.field("content_hash", pa.string()),
    pa.field("skipped", pa.string()),
    pa.field("language", pa.string()),
    pa.field("num_chunks", pa.int32()),
    pa.field("imports", pa.list_(pa.string())),
)


def vectors(dim: int) -> ArrowSchema:
    """Returns the schema of a table of `dim`-dimensional vectors, one row a chunk."""
    return _row(
        pa.field("ordinal", pa.int32()),
        pa.field("language", pa.string()),
        pa.field("names", pa.string()),
        pa.field("is_function", pa.bool_()),
        pa.field("vector", pa.list_(pa.float16(), dim)),
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class Current:
    """What `current.json` says."""

    version: int
    database: str
    """The folder's name."""
    embedder: str
    """The name of the one that answers; empty before the first vectors."""


def read_current(location: Path) -> Current | None:
    """Returns None where there is no store yet.

    Raises:
        ValueError: the file holds something else.
        OSError: it cannot be read.
    """
    try:
        fields = json.loads((location / CURRENT).read_bytes())
        return Current(
            version=int(fields["version"]),
            database=Path(str(fields["database"])).name,
            embedder=str(fields["embedder"]),
        )
    except FileNotFoundError:
        return None
    except (KeyError, TypeError) as error:
        raise ValueError(f"{location / CURRENT} lacks a field: {error}") from error


def write_current(location: Path, current: Current) -> None:
    """Replaces the file at once: a reader sees the old or the new one.

    Raises:
        OSError: the disk is full, or the folder cannot be written.
    """
    partial = location / f"{CURRENT}.partial"
    with partial.open("w") as file:
        json.dump(asdict(current), file)
        file.flush()
        os.fsync(file.fileno())
    partial.replace(location / CURRENT)

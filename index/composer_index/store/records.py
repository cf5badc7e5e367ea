"""What goes into the store and comes out of it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from composer_index.chunk import DefinitionKind, ParsedFile
from composer_index.embedding.embedder import Vectors


@dataclass(frozen=True, kw_only=True, slots=True)
class FileStat:
    """A file as it was when it was read: compare it to know whether it has to be read again."""

    size: int
    """Bytes."""
    mtime_ns: int
    content_hash: str
    """Of the bytes; empty where they were not read. Any hash will do, as long as it is always the
    same one."""


@dataclass(frozen=True, kw_only=True, slots=True)
class IndexedFile:
    """A parsed file, ready to be stored."""

    parsed: ParsedFile
    stat: FileStat
    words: tuple[str, ...] | None = None
    """One a chunk: its `chunk_words` joined by spaces; None: the store splits."""
    vectors: Mapping[str, Vectors] = field(default_factory=dict[str, Vectors])
    """By embedder, [num_chunks, dim], rows of length one, of the `chunk_words`; without any,
    they follow later."""


@dataclass(frozen=True, kw_only=True, slots=True)
class KnownFile:
    """A file that the store knows, indexed or skipped."""

    path: str
    stat: FileStat
    skipped: str
    """The `SkipReason`; empty if the file is indexed."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Hit:
    """A chunk that a query found; `path` and `ordinal` name it."""

    path: str
    ordinal: int
    """Which of the file's chunks, from 0."""
    generation: int
    """Which write of the file; a higher one replaces all lower ones."""
    language: str
    names: tuple[str, ...]
    """Of the definitions that begin in the chunk, and of the innermost that it lies in."""
    is_function: bool
    """A function, a method or a macro begins in it."""
    score: float
    """BM25's, or the cosine similarity."""


@dataclass(frozen=True, kw_only=True, slots=True)
class StoredChunk:
    """A chunk as stored."""

    path: str
    ordinal: int
    generation: int
    start_line: int
    """1-based."""
    end_line: int
    """Inclusive."""
    symbol: str
    signature: str
    language: str
    text: str
    content_hash: str
    names: tuple[str, ...]
    """As a `Hit`'s."""
    is_function: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class FoundDefinition:
    """Where a name is defined."""

    path: str
    name: str
    kind: DefinitionKind
    symbol: str
    start_line: int
    """1-based."""
    end_line: int
    """Inclusive."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Filter:
    """Which chunks take part in a search at all."""

    path_glob: str = ""
    """As in `git ls-files ':(glob)…'`: `*` stays within a folder, `**/` spans folders; without a
    slash it means the file's name. Empty: every path."""
    language: str = ""
    """LSP language id. Empty: every language."""
    without: frozenset[str] = frozenset()
    """Paths to leave out."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Counts:
    """How much the store holds."""

    num_files: int
    """Indexed ones."""
    num_chunks: int
    num_definitions: int
    num_skipped: Mapping[str, int]
    """By reason."""
    disk_bytes: int


@dataclass(frozen=True, kw_only=True, slots=True)
class StoreEvent:
    """Something the user should be told."""

    kind: Literal["rebuilt", "full", "room"]
    """An empty store was begun; the disk is full; there is room again."""
    message: str

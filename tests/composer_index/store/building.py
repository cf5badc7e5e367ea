"""Parsed files made by hand: a chunk a text, so that tests say what they store."""

from hashlib import blake2b

import numpy as np

from composer_index.chunk import Chunk, Definition, ParsedFile
from composer_index.store.records import FileStat, IndexedFile

DIM = 8


def parsed(path: str, *texts: str, language: str = "python", imports: tuple[str, ...] = ()):
    """A file whose chunks are `texts`, ten lines each; a text's first word is its definition."""
    chunks = tuple(
        Chunk(
            path=path,
            start_line=ordinal * 10 + 1,
            end_line=ordinal * 10 + len(text.splitlines()),
            symbol=text.split()[0],
            signature=f"def {text.split()[0]}():",
            language=language,
            text=text,
            content_hash=blake2b(text.encode("utf-8", "replace"), digest_size=16).hexdigest(),
            identifiers=tuple(dict.fromkeys(text.split())),
        )
        for ordinal, text in enumerate(texts)
    )
    definitions = tuple(
        Definition(
            name=chunk.symbol,
            kind="function",
            symbol=chunk.symbol,
            start_line=chunk.start_line,
            end_line=chunk.end_line,
        )
        for chunk in chunks
    )
    return ParsedFile(
        path=path,
        language=language,
        num_lines=len(texts) * 10,
        chunks=chunks,
        definitions=definitions,
        imports=imports,
        is_broken=False,
    )


def stat_of(number: int) -> FileStat:
    """A file's state, different for different numbers."""
    return FileStat(size=number, mtime_ns=number * 10**9, content_hash=f"{number:032x}")


def one_hot(*positions: int) -> np.ndarray:
    """Unit vectors, each with its one at a position."""
    return np.eye(DIM, dtype=np.float32)[list(positions)]


def indexed(path: str, *texts: str, number: int = 1, vectors: dict[str, np.ndarray] | None = None):
    """A file ready to be stored."""
    return IndexedFile(parsed=parsed(path, *texts), stat=stat_of(number), vectors=vectors or {})


def texts_in(store: object) -> dict[str, list[str]]:
    """What the store holds, by path."""
    files = [file.path for file in store.known_files() if not file.skipped]  # type: ignore[attr-defined]
    found: dict[str, list[str]] = {path: [] for path in files}
    for chunk in store.chunks_of(files):  # type: ignore[attr-defined]
        found[chunk.path].append(chunk.text)
    return found

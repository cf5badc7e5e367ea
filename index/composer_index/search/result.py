"""What a search gives back."""

from dataclasses import dataclass
from typing import Self

from composer_index.store.records import StoredChunk


@dataclass(frozen=True, kw_only=True, slots=True)
class Result:
    """A piece of code that answers a query, with why it does."""

    path: str
    """POSIX, relative to the workspace's root."""
    start_line: int
    """1-based."""
    end_line: int
    """Inclusive."""
    symbol: str
    """The definition it is in; empty outside of any."""
    signature: str
    """That definition's head on one line; empty without one."""
    language: str
    """LSP language id."""
    score: float
    """Comparable within one search only; higher is better."""
    why: tuple[str, ...]
    """"word: parse url", "symbol", "path", "meaning": what matched, the strongest first."""
    root: str = ""
    """The workspace's root; empty where a store alone was asked."""
    text: str
    """The lines, as they were when they were indexed; the buffer's where that is newer."""

    @classmethod
    def of(cls, chunk: StoredChunk, *, score: float, why: tuple[str, ...], root: str = "") -> Self:
        """Returns a chunk as a result."""
        return cls(
            root=root,
            path=chunk.path,
            start_line=chunk.start_line,
            end_line=chunk.end_line,
            symbol=chunk.symbol,
            signature=chunk.signature,
            language=chunk.language,
            score=score,
            why=why,
            text=chunk.text,
        )

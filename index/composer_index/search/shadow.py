"""Unsaved buffers: their chunks in memory, found and scored as if the store held them.

A buffer's path is left out of the store's answers, and its chunks are ranked among them. For that
their scores have to be comparable: a dot product is, and BM25 is with the store's own weights of
the words, which `Weights` supplies.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from composer_index.chunk import Chunk, ParsedFile
from composer_index.embedding.embedder import Vectors
from composer_index.store.naming import Naming, chunk_words, naming
from composer_index.store.records import Filter, FoundDefinition, Hit, StoredChunk
from composer_index.store.sql import matches

K1, B = 1.2, 0.75
"""Lance's constants of BM25."""


class Weights(Protocol):
    """The store's side of BM25."""

    def weight(self, word: str) -> float:
        """Returns the inverse document frequency of a word."""
        ...

    def average_length(self) -> float:
        """Returns the words of an average chunk."""
        ...


@dataclass(frozen=True, kw_only=True, slots=True)
class Shadow:
    """What the open buffers hold, once parsed."""

    files: Mapping[str, ParsedFile] = field(default_factory=dict[str, ParsedFile])
    """By path. One without chunks hides what the disk has."""
    vectors: Mapping[str, Vectors] = field(default_factory=dict[str, Vectors])
    """By path, [num_chunks, dim] of the store's embedder."""

    @property
    def paths(self) -> frozenset[str]:
        """The paths that the store is not to answer for."""
        return frozenset(self.files)

    def found_definitions(self) -> list[FoundDefinition]:
        """Returns every definition."""
        return [
            FoundDefinition(
                path=path,
                name=each.name,
                kind=each.kind,
                symbol=each.symbol,
                start_line=each.start_line,
                end_line=each.end_line,
            )
            for path, file in self.files.items()
            for each in file.definitions
        ]

    def match_words(self, words: Sequence[str], chosen: Filter, weights: Weights) -> list[Hit]:
        """Returns the chunks that match, with the scores of `Store.match_words`."""
        wanted = set(words)
        hits: list[Hit] = []
        for ordinal, chunk, named in self._chunks(chosen):
            score = bm25(chunk_words(chunk, named), wanted, weights)
            if score > 0:
                hits.append(_hit(chunk, ordinal, named, score))
        return hits

    def nearest(self, vector: Vectors, chosen: Filter) -> list[Hit]:
        """Returns the chunks that have vectors, with the scores of `Store.nearest`."""
        return [
            _hit(chunk, ordinal, named, float(self.vectors[chunk.path][ordinal] @ vector))
            for ordinal, chunk, named in self._chunks(chosen)
            if chunk.path in self.vectors
        ]

    def chunk(self, path: str, ordinal: int) -> StoredChunk:
        """Returns a chunk that a search of this shadow found."""
        found = self.files[path].chunks[ordinal]
        named = naming(self.files[path])[ordinal]
        return StoredChunk(
            path=path,
            ordinal=ordinal,
            generation=SHADOW,
            start_line=found.start_line,
            end_line=found.end_line,
            symbol=found.symbol,
            signature=found.signature,
            language=found.language,
            text=found.text,
            content_hash=found.content_hash,
            names=named.names,
            is_function=named.is_function,
        )

    def words(self, path: str, ordinal: int) -> list[str]:
        """Returns the words of a chunk that a search of this shadow found."""
        return chunk_words(self.files[path].chunks[ordinal], naming(self.files[path])[ordinal])

    def mentions(self, name: str) -> list[StoredChunk]:
        """Returns the chunks in which the identifier `name` occurs."""
        return [
            self.chunk(chunk.path, ordinal)
            for ordinal, chunk, _ in self._chunks(Filter())
            if name in chunk.identifiers
        ]

    def _chunks(self, chosen: Filter) -> list[tuple[int, Chunk, Naming]]:
        return [
            (ordinal, chunk, named)
            for path, file in self.files.items()
            for ordinal, (chunk, named) in enumerate(zip(file.chunks, naming(file), strict=True))
            if matches(chosen, path, chunk.language)
        ]


SHADOW = -1
"""The generation of what is not in the store."""


def _hit(chunk: Chunk, ordinal: int, named: Naming, score: float) -> Hit:
    return Hit(
        path=chunk.path,
        ordinal=ordinal,
        generation=SHADOW,
        language=chunk.language,
        names=named.names,
        is_function=named.is_function,
        score=score,
    )


def bm25(words: Sequence[str], wanted: set[str], weights: Weights) -> float:
    """Returns the score of a chunk by its words, for the words that are `wanted`."""
    counts = Counter(word for word in words if word in wanted)
    if not counts:
        return 0.0
    length = K1 * (1 - B + B * len(words) / weights.average_length())
    return sum(weights.weight(word) * saturated(count, length) for word, count in counts.items())


def saturated(count: int, length: float) -> float:
    """Returns BM25's factor for a word's count, `length` being its normalisation by length."""
    return count * (K1 + 1) / (count + length)

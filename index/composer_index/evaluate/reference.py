"""A search in memory over a tree's chunks: what the index does, without a store.

It weighs words, vectors and boosts as the store's search does, so that a table or a weight is
judged in seconds; and it gives the simpler methods that the index has to beat.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from composer_index.chunk import Chunk, ParsedFile
from composer_index.embedding.static import StaticEmbedder
from composer_index.evaluate.queries import Place, list_files
from composer_index.parsing.parse import parse_file
from composer_index.search.boost import Candidate, boost
from composer_index.search.fuse import fuse
from composer_index.store.naming import Naming, chunk_words, naming
from composer_index.words import query_words

Search = Callable[[str], Sequence[Place]]
"""A question to places, the best first."""

NUM_CANDIDATES = 100
"""Of each ranking."""

_K1, _B = 1.2, 0.75


@dataclass(frozen=True, kw_only=True, slots=True)
class Entry:
    """A chunk as a search sees it."""

    place: Place
    candidate: Candidate
    words: list[str]
    """Of its path, its symbol, the names that begin in it, and its text."""
    text: str


def read_entries(tree: Path) -> list[Entry]:
    """Parses all files of a tree."""
    entries: list[Entry] = []
    for path in list_files(tree):
        parsed = parse_file(path, (tree / path).read_bytes())
        if isinstance(parsed, ParsedFile):
            pairs = zip(parsed.chunks, naming(parsed), strict=True)
            entries += [_entry(chunk, named) for chunk, named in pairs]
    return entries


def _entry(chunk: Chunk, named: Naming) -> Entry:
    return Entry(
        place=Place(path=chunk.path, start_line=chunk.start_line, end_line=chunk.end_line),
        candidate=Candidate(
            path=chunk.path,
            language=chunk.language,
            names=named.names,
            is_function=named.is_function,
        ),
        words=chunk_words(chunk, named),
        text=chunk.text,
    )


class Reference:
    """Searches of growing strength over the same chunks."""

    def __init__(self, entries: Sequence[Entry], embedder: StaticEmbedder) -> None:
        self.entries = entries
        self._embedder = embedder
        self._bm25 = _BM25([entry.words for entry in entries])

    @cached_property
    def _vectors(self) -> NDArray[np.float32]:
        return self._embedder.embed_words([entry.words for entry in self.entries])

    @cached_property
    def _lowered(self) -> list[str]:
        return [entry.text.lower() for entry in self.entries]

    def by_keywords(self, query: str) -> list[Place]:
        """Distinct words of the question that a chunk's text holds, as of ripgrep; then how often."""
        words = {word for word in query.lower().split() if len(word) > 3}
        scores = [
            sum(1 + min(count, 9) / 100 for word in words if (count := text.count(word)))
            for text in self._lowered
        ]
        return self._places(_best(np.array(scores, np.float32)))

    def by_words(self, query: str) -> list[Place]:
        return self._places(_best(self._bm25.scores(query_words(query))))

    def by_meaning(self, query: str) -> list[Place]:
        return self._places(_best(self._vectors @ self._embedder.embed([query])[0]))

    def by_both(self, query: str) -> list[Place]:
        return self._places(self._fused(query))

    def boosted(self, query: str) -> list[Place]:
        words = query_words(query)
        return self._places(
            {
                i: score * boost(query, words, self.entries[i].candidate)
                for i, score in self._fused(query).items()
            }
        )

    def _fused(self, query: str) -> dict[int, float]:
        vector = self._embedder.embed([query])[0]
        return fuse(
            _best(self._bm25.scores(query_words(query))),
            _best(self._vectors @ vector),
            limit=NUM_CANDIDATES,
        )

    def _places(self, scores: dict[int, float]) -> list[Place]:
        return [self.entries[i].place for i in sorted(scores, key=lambda i: (-scores[i], i))]


class _BM25:
    """Robertson and Zaragoza, "The Probabilistic Relevance Framework" (2009), section 3."""

    def __init__(self, documents: Sequence[Sequence[str]]) -> None:
        self._number = len(documents)
        lengths = np.array([len(document) for document in documents], np.float32)
        discount = _K1 * (
            1 - _B + _B * lengths / max(1.0, float(lengths.mean() if len(lengths) else 1))
        )
        occurrences: defaultdict[str, list[tuple[int, int]]] = defaultdict(list)
        for i, document in enumerate(documents):
            for word, count in Counter(document).items():
                occurrences[word].append((i, count))
        self._impacts = {
            word: self._impact(np.array(found, np.int32), discount)
            for word, found in occurrences.items()
        }

    def _impact(
        self, found: NDArray[np.int32], discount: NDArray[np.float32]
    ) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
        where, counts = found[:, 0], found[:, 1].astype(np.float32)
        rarity = math.log(1 + (self._number - len(where) + 0.5) / (len(where) + 0.5))
        impact = np.float32(rarity * (_K1 + 1)) * counts / (counts + discount[where])
        return where, impact.astype(np.float32)

    def scores(self, words: Sequence[str]) -> NDArray[np.float32]:
        scores = np.zeros(self._number, np.float32)
        for word in words:
            if (impact := self._impacts.get(word)) is not None:
                scores[impact[0]] += impact[1]
        return scores


def _best(scores: NDArray[np.float32]) -> dict[int, float]:
    """The candidates above zero, the best first, and their scores."""
    number = min(NUM_CANDIDATES, len(scores))
    if not number:
        return {}
    best = np.argpartition(-scores, number - 1)[:number]
    best = best[np.lexsort((best, -scores[best]))]
    return {int(i): float(scores[i]) for i in best if scores[i] > 0}

"""Search: BM25 over words, vectors, and what names the code, as one ranking."""

import re
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from composer_index.embedding.embedder import Embedder
from composer_index.search.boost import Candidate, boost
from composer_index.search.fuse import fuse
from composer_index.search.history import History
from composer_index.search.meaning import NUM_CANDIDATES, Meaning
from composer_index.search.related import find_related
from composer_index.search.rerank import DEPTH as RERANK_DEPTH
from composer_index.search.rerank import Reranker, is_question, reranked
from composer_index.search.result import Result
from composer_index.search.shadow import SHADOW, Shadow
from composer_index.search.symbols import find_symbols
from composer_index.store.records import Filter, FoundDefinition, Hit, StoredChunk
from composer_index.words import query_words, split_words

if TYPE_CHECKING:
    from composer_index.store.store import Store

_SPARE = 5
"""Results more than wanted: a chunk may have been replaced since it was found."""

_Key = tuple[str, int]
_LINE_END = re.compile(r"\r\n|\n|\r")


@dataclass(frozen=True, kw_only=True, slots=True)
class Reference:
    """A line that has a name in it."""

    path: str
    line: int
    """1-based."""
    text: str


class Searcher:
    """Answers from the store and from unsaved buffers. Safe to use from several threads."""

    def __init__(
        self, store: "Store", table: Embedder | None = None, reranker: Reranker | None = None
    ) -> None:
        """`table` embedded the store's files and the shadow."""
        self._store = store
        self.meaning = Meaning(store, table)
        self.reranker = reranker
        """None: results stay as they are ranked."""
        self._weights = _StoreWeights(store)
        self._threads = ThreadPoolExecutor(max_workers=2, thread_name_prefix="search")
        self.shadow = Shadow()
        """The unsaved buffers; replace it as a whole."""

    def search(
        self, query: str, k: int = 10, path_glob: str | None = None, language: str | None = None
    ) -> list[Result]:
        """Returns the `k` best chunks, best first. The filters choose what takes part, before
        anything is ranked."""
        shadow = self.shadow
        words = query_words(query)
        chosen = Filter(path_glob=path_glob or "", language=language or "")
        reranker = self.reranker if is_question(query) else None
        meaning = self._threads.submit(self.meaning.nearest, query, chosen, shadow)
        by_words = self._by_words(words, chosen, shadow)
        by_meaning = meaning.result()
        hits = {(hit.path, hit.ordinal): hit for hit in [*by_meaning, *by_words]}
        fused = fuse(_scores(by_words), _scores(by_meaning))
        ranking = [
            (hits[key], score * _boost(query, words, hits[key])) for key, score in fused.items()
        ]
        ranking.sort(key=lambda each: -each[1])
        wanted = max(k, RERANK_DEPTH) if reranker else k
        chunks = self._chunks([hit for hit, _ in ranking[: wanted + _SPARE]], shadow)
        meant = _scores(by_meaning)
        results = [
            _result(chunks[key], score, words, is_meant=key in meant)
            for hit, score in ranking[: wanted + _SPARE]
            if (key := (hit.path, hit.ordinal)) in chunks
        ]
        if reranker:
            results = reranked(reranker, query, results[:wanted])
        return results[:k]

    def definitions(self, name: str) -> list[FoundDefinition]:
        """Returns where exactly this name is defined; "Class.method" narrows it down."""
        last = re.split(r"[.:#]+", name)[-1]
        shadow = self.shadow
        found = [
            each for each in self._store.definitions_named(last) if each.path not in shadow.files
        ]
        found += [each for each in shadow.found_definitions() if each.name == last]
        exact = [each for each in found if each.symbol.endswith(name)] if last != name else found
        return exact or found

    def references(self, name: str, limit: int = 200) -> list[Reference]:
        """Returns the lines in which the identifier `name` occurs, file by file."""
        shadow = self.shadow
        stored = self._store.mentions(name, limit)
        chunks = [each for each in stored if each.path not in shadow.files] + shadow.mentions(name)
        whole = re.compile(rf"(?<![\w$]){re.escape(name)}(?![\w$])")
        found = [
            Reference(path=chunk.path, line=chunk.start_line + offset, text=line)
            for chunk in sorted(chunks, key=lambda chunk: (chunk.path, chunk.start_line))
            for offset, line in enumerate(_LINE_END.split(chunk.text))
            if whole.search(line)
        ]
        return found[:limit]

    def symbols(self, query: str, limit: int = 100) -> list[FoundDefinition]:
        """Returns definitions by a part of their name; see `find_symbols`."""
        return find_symbols(self._store, self.shadow, query, limit)

    def related(
        self, path: str, line: int, *, history: History | None = None, limit: int = 12
    ) -> list[Result]:
        """Returns what belongs to a line (1-based); see `find_related`."""
        shadow = self.shadow
        return find_related(self._store, shadow, path, line, history=history, limit=limit)

    def _by_words(self, words: Sequence[str], chosen: Filter, shadow: Shadow) -> list[Hit]:
        stored = replace(chosen, without=shadow.paths)
        hits = self._store.match_words(words, NUM_CANDIDATES, stored)
        return _best(hits + shadow.match_words(words, chosen, self._weights))

    def _chunks(self, hits: Sequence[Hit], shadow: Shadow) -> dict[_Key, StoredChunk]:
        chunks = dict(self._store.chunks_at([hit for hit in hits if hit.generation != SHADOW]))
        for hit in hits:
            if hit.generation == SHADOW:
                chunks[hit.path, hit.ordinal] = shadow.chunk(hit.path, hit.ordinal)
        return chunks


def _best(hits: Sequence[Hit]) -> list[Hit]:
    return sorted(hits, key=lambda hit: -hit.score)[:NUM_CANDIDATES]


def _scores(hits: Sequence[Hit]) -> dict[_Key, float]:
    return {(hit.path, hit.ordinal): hit.score for hit in hits if hit.score > 0}


def _boost(query: str, words: Sequence[str], hit: Hit) -> float:
    candidate = Candidate(
        path=hit.path, language=hit.language, names=hit.names, is_function=hit.is_function
    )
    return boost(query, words, candidate)


def _result(chunk: StoredChunk, score: float, words: Sequence[str], *, is_meant: bool) -> Result:
    return Result(
        path=chunk.path,
        start_line=chunk.start_line,
        end_line=chunk.end_line,
        symbol=chunk.symbol,
        signature=chunk.signature,
        language=chunk.language,
        score=score,
        why=_why(chunk, words, is_meant=is_meant),
        text=chunk.text,
    )


def _why(chunk: StoredChunk, words: Sequence[str], *, is_meant: bool) -> tuple[str, ...]:
    wanted = set(words)
    here = set(split_words(chunk.text))
    matched = [word for word in words if word in here]
    reasons = [
        (f"word: {' '.join(matched)}", bool(matched)),
        ("symbol", not wanted.isdisjoint(split_words(chunk.symbol))),
        ("path", not wanted.isdisjoint(split_words(chunk.path))),
        ("meaning", is_meant),
    ]
    return tuple(reason for reason, holds in reasons if holds)


class _StoreWeights:
    """BM25's weights of the store, remembered for a while: they move slowly."""

    _LIFETIME_S = 300.0
    _MAX_WORDS = 10_000

    def __init__(self, store: "Store") -> None:
        self._store = store
        self._until = 0.0
        self._length = 1.0
        self._found: dict[str, float] = {}

    def weight(self, word: str) -> float:
        length = self.average_length()
        if word not in self._found:
            self._found[word] = self._store.word_weight(word, length)
        return self._found[word]

    def average_length(self) -> float:
        if time.monotonic() > self._until or len(self._found) > self._MAX_WORDS:
            self._until = time.monotonic() + self._LIFETIME_S
            self._length, self._found = self._store.average_length(), {}
        return self._length

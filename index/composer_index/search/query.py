"""Search: BM25 over words, vectors, and what names the code, as one ranking."""

import logging
import re
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from composer_index.embedding.embedder import Embedder
from composer_index.search.rerank import DEPTH as RERANK_DEPTH
from composer_index.search.rerank import Reranker, reranked
from composer_index.search.result import Result
from composer_index.search.shadow import SHADOW, Shadow
from composer_index.search.symbols import find_symbols
from composer_index.store.records import Filter, FoundDefinition, Hit, StoredChunk, WordColumn
from composer_index.words import split_words

if TYPE_CHECKING:
    from composer_index.store.store import Store

logger = logging.getLogger(__name__)

NUM_CANDIDATES = 100
"""Of each kind of search, before they are fused."""
NAMES_BOOST = 1.0
"""How much a word in the path or the symbol counts, against one in the text."""

_NUM_BOOSTED = 50
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
        self, store: "Store", *embedders: Embedder, reranker: Reranker | None = None
    ) -> None:
        """Of `embedders` that one is used whose vectors the store answers with."""
        self._store = store
        self._embedders = {embedder.name: embedder for embedder in embedders}
        self._reranker = reranker
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
        words = list(dict.fromkeys(split_words(query)))
        chosen = Filter(path_glob=path_glob or "", language=language or "")
        meaning = self._threads.submit(self._by_meaning, query, chosen, shadow)
        names = self._threads.submit(self._by_words, "names", words, chosen, shadow)
        by_words = _summed(self._by_words("words", words, chosen, shadow), names.result())
        by_meaning = meaning.result()
        ranking = boosted(fused(by_words, by_meaning), words, [*by_words, *by_meaning])
        wanted = max(k, RERANK_DEPTH) if self._reranker else k
        results = self._results(ranking[: wanted + _SPARE], words, by_words, by_meaning, shadow)
        if self._reranker:
            results = reranked(self._reranker, query, results[:wanted])
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

    def _by_words(
        self, column: WordColumn, words: Sequence[str], chosen: Filter, shadow: Shadow
    ) -> list[Hit]:
        stored = replace(chosen, without=shadow.paths)
        hits = self._store.match_words(column, words, NUM_CANDIDATES, stored)
        return hits + shadow.match_words(column, words, chosen, self._weights)

    def _by_meaning(self, query: str, chosen: Filter, shadow: Shadow) -> list[Hit]:
        embedder = self._embedders.get(self._store.embedder)
        if embedder is None:
            return []
        try:
            vector = embedder.embed([query])[0]
        except OSError as error:
            logger.warning("search goes without meaning: %s", error)
            return []
        stored = replace(chosen, without=shadow.paths)
        hits = self._store.nearest(embedder.name, vector, NUM_CANDIDATES, stored)
        return sorted(hits + shadow.nearest(vector, chosen), key=lambda hit: -hit.score)

    def _results(
        self,
        ranking: Sequence[tuple[_Key, float]],
        words: Sequence[str],
        by_words: Sequence[Hit],
        by_meaning: Sequence[Hit],
        shadow: Shadow,
    ) -> list[Result]:
        # Hits by words come last, so that theirs are kept: they know Lance's row.
        hits = {(hit.path, hit.ordinal): hit for hit in [*by_meaning, *by_words]}
        chosen = [hits[key] for key, _ in ranking]
        chunks = dict(self._store.chunks_at([hit for hit in chosen if hit.generation != SHADOW]))
        for hit in chosen:
            if hit.generation == SHADOW:
                chunks[hit.path, hit.ordinal] = shadow.chunk(hit.path, hit.ordinal)
        meant = {(hit.path, hit.ordinal) for hit in by_meaning}
        return [
            _result(chunks[key], score, words, is_meant=key in meant)
            for key, score in ranking
            if key in chunks
        ]


def _summed(by_text: Sequence[Hit], by_names: Sequence[Hit]) -> list[Hit]:
    """One list out of two, by the sum of the scores, best first."""
    names = {(hit.path, hit.ordinal): hit for hit in by_names}
    both = [
        replace(hit, score=hit.score + NAMES_BOOST * found.score)
        if (found := names.pop((hit.path, hit.ordinal), None))
        else hit
        for hit in by_text
    ]
    only = [replace(hit, score=NAMES_BOOST * hit.score) for hit in names.values()]
    return sorted([*both, *only], key=lambda hit: -hit.score)


def fused(by_words: Sequence[Hit], by_meaning: Sequence[Hit]) -> list[tuple[_Key, float]]:
    """Reciprocal rank fusion (Cormack, Clarke, Buettcher, SIGIR 2009), best first."""
    scores: dict[_Key, float] = {}
    for weight, hits in ((1.0, by_words), (0.5, by_meaning)):
        for rank, hit in enumerate(hits):
            key = (hit.path, hit.ordinal)
            scores[key] = scores.get(key, 0.0) + weight / (60 + rank)
    return sorted(scores.items(), key=lambda item: -item[1])


def boosted(
    ranking: Sequence[tuple[_Key, float]], words: Sequence[str], hits: Sequence[Hit]
) -> list[tuple[_Key, float]]:
    """Raises what the query's words name: the symbol, the path."""
    symbols = {(hit.path, hit.ordinal): hit.symbol for hit in hits}
    wanted = set(words)

    def factor(key: _Key) -> float:
        names = set(split_words(symbols[key]))
        path = set(split_words(key[0]))
        covered = len(names & wanted) / len(names) if names else 0.0
        return 1 + 0.6 * covered + 0.4 * len(path & wanted) / max(1, len(wanted))

    scored = [(key, score * factor(key)) for key, score in ranking[:_NUM_BOOSTED]]
    return sorted(scored, key=lambda item: -item[1]) + list(ranking[_NUM_BOOSTED:])


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
        self._lengths: dict[WordColumn, float] = {}
        self._found: dict[tuple[WordColumn, str], float] = {}

    def weight(self, column: WordColumn, word: str) -> float:
        length = self.average_length(column)
        key = (column, word)
        if key not in self._found:
            self._found[key] = self._store.word_weight(column, word, length)
        return self._found[key]

    def average_length(self, column: WordColumn) -> float:
        if time.monotonic() > self._until or len(self._found) > self._MAX_WORDS:
            self._until = time.monotonic() + self._LIFETIME_S
            self._lengths, self._found = {}, {}
        if column not in self._lengths:
            self._lengths[column] = self._store.average_length(column)
        return self._lengths[column]

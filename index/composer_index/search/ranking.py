"""One ranking over the stores of one or several roots.

What the roots' searches found is fused once, over all of them, so a root in which nothing matches
well gets nothing near the top. For that scores have to be comparable: cosines of one embedder are,
and BM25 is once it goes by the words of all roots together.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from heapq import nlargest
from typing import TYPE_CHECKING, Protocol

from composer_index.search.boost import Candidate, boost
from composer_index.search.fuse import fuse
from composer_index.search.meaning import NUM_CANDIDATES, Nearest
from composer_index.search.rerank import DEPTH as RERANK_DEPTH
from composer_index.search.rerank import is_question, reranked
from composer_index.search.result import Result
from composer_index.search.shadow import Shadow, Weights, bm25
from composer_index.store.records import Filter, Hit, StoredChunk
from composer_index.words import query_words, split_words

if TYPE_CHECKING:
    from composer_index.search.query import Searcher

_SPARE = 5
"""Results more than wanted: a chunk may have been replaced since it was found."""

_Key = tuple[str, str, int]
"""Root, path and ordinal."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Candidates:
    """What one root has to offer."""

    by_words: Sequence[Hit]
    nearest: Nearest
    shadow: Shadow
    """That they were found with."""


def search_all(
    searchers: Mapping[str, "Searcher"],
    query: str,
    k: int,
    path_glob: str | None = None,
    language: str | None = None,
) -> list[Result]:
    """Returns the `k` best chunks of all roots, best first; `searchers` by root. The filters choose
    what takes part, before anything is ranked.

    Raises: GlobError.
    """
    words = query_words(query)
    chosen = Filter(path_glob=path_glob or "", language=language or "")
    found = _candidates(searchers, query, words, chosen)
    by_words = _keyed({root: each.by_words for root, each in found.items()})
    by_meaning = _keyed({root: each.nearest.hits for root, each in found.items()})
    is_model = any(each.nearest.is_model for each in found.values())
    hits = {**by_meaning, **by_words}
    fused = fuse(_scores(by_words), _scores(by_meaning), is_model=is_model)
    ranking = [(key, score * _boost(query, words, hits[key])) for key, score in fused.items()]
    ranking.sort(key=lambda each: -each[1])
    reranker = next((each.reranker for each in searchers.values() if each.reranker), None)
    reranker = reranker if is_question(query) else None
    wanted = max(k, RERANK_DEPTH) if reranker else k
    best = ranking[: wanted + _SPARE]
    chunks = _chunks(searchers, found, [(key[0], hits[key]) for key, _ in best])
    results = [
        _result(key[0], chunks[key], score, words, is_meant=key in by_meaning)
        for key, score in best
        if key in chunks
    ]
    return (reranked(reranker, query, results[:wanted]) if reranker else results)[:k]


def _chunks(
    searchers: Mapping[str, "Searcher"],
    found: Mapping[str, Candidates],
    hits: Sequence[tuple[str, Hit]],
) -> dict[_Key, StoredChunk]:
    chunks: dict[_Key, StoredChunk] = {}
    for root, searcher in searchers.items():
        read = searcher.chunks([hit for of, hit in hits if of == root], found[root].shadow)
        chunks |= {(root, *key): chunk for key, chunk in read.items()}
    return chunks


def _candidates(
    searchers: Mapping[str, "Searcher"], query: str, words: Sequence[str], chosen: Filter
) -> dict[str, Candidates]:
    # Where the roots' stores are filled by different models, the table is what they have in common.
    table_only = len({searcher.meaning.answering for searcher in searchers.values()}) > 1
    found = {
        root: searcher.candidates(query, words, chosen, table_only=table_only)
        for root, searcher in searchers.items()
    }
    if len(found) > 1:
        weights = _Together([searcher.weights for searcher in searchers.values()])
        wanted = set(words)
        for root, each in found.items():
            have = searchers[root].words_of(each.by_words, each.shadow)
            comparable = [
                replace(hit, score=bm25(have[_key(hit)], wanted, weights))
                for hit in each.by_words
                if _key(hit) in have
            ]
            found[root] = replace(each, by_words=comparable)
    return found


class CountedWeights(Weights, Protocol):
    """Weights that know how many chunks they are of."""

    def num_chunks(self) -> int:
        """Returns the number of chunks."""
        ...


class _Together:
    """The weights that one store of all would have."""

    def __init__(self, each: Sequence[CountedWeights]) -> None:
        self._each = each
        self._numbers = [one.num_chunks() for one in each]
        self._found: dict[str, float] = {}

    def weight(self, word: str) -> float:
        if word not in self._found:
            number = sum(self._numbers)
            having = sum(
                _num_having(one.weight(word), count)
                for one, count in zip(self._each, self._numbers, strict=True)
            )
            self._found[word] = math.log(1 + (number - having + 0.5) / (having + 0.5))
        return self._found[word]

    def average_length(self) -> float:
        lengths = (
            one.average_length() * count
            for one, count in zip(self._each, self._numbers, strict=True)
        )
        return max(1.0, sum(lengths) / max(1, sum(self._numbers)))


def _num_having(weight: float, number: int) -> float:
    """The chunks that have a word, of `number`, by its inverse document frequency."""
    return min(float(number), max(0.0, (number + 1) / math.exp(weight) - 0.5))


def _keyed(found: Mapping[str, Sequence[Hit]]) -> dict[_Key, Hit]:
    """The best hits of all roots, as many as one store would give."""
    every = [((root, *_key(hit)), hit) for root, hits in found.items() for hit in hits]
    matching = [each for each in every if each[1].score > 0]
    return dict(nlargest(NUM_CANDIDATES, matching, key=lambda each: each[1].score))


def _key(hit: Hit) -> tuple[str, int]:
    return hit.path, hit.ordinal


def _scores(hits: Mapping[_Key, Hit]) -> dict[_Key, float]:
    return {key: hit.score for key, hit in hits.items()}


def _boost(query: str, words: Sequence[str], hit: Hit) -> float:
    candidate = Candidate(
        path=hit.path, language=hit.language, names=hit.names, is_function=hit.is_function
    )
    return boost(query, words, candidate)


def _result(
    root: str, chunk: StoredChunk, score: float, words: Sequence[str], *, is_meant: bool
) -> Result:
    return Result(
        root=root,
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

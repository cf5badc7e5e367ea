"""One ranking over the stores of one or several roots.

What the roots' searches found is fused once, over all of them, so a root in which nothing matches
well gets nothing near the top. For that scores have to be comparable: cosines of one embedder are,
and BM25 is once it goes by the words of all roots together.

A query without spaces is a name. Its places come first where all of its words are, then where some
are: meaning orders them, and what follows.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from heapq import nlargest
from typing import TYPE_CHECKING

from composer_index.search.boost import Candidate, boost
from composer_index.search.fuse import fuse
from composer_index.search.meaning import NUM_CANDIDATES, Nearest
from composer_index.search.rerank import DEPTH as RERANK_DEPTH
from composer_index.search.rerank import is_question, reranked
from composer_index.search.result import Result
from composer_index.search.shadow import Shadow, bm25
from composer_index.search.weights import Together
from composer_index.store.records import Filter, Hit, StoredChunk
from composer_index.store.sql import glob_within
from composer_index.words import query_words, split_words, written_words

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
    if not words:
        return []
    chosen = Filter(path_glob=path_glob or "", language=language or "")
    found = _candidates(searchers, query, words, chosen)
    by_words = _keyed({root: each.by_words for root, each in found.items()})
    by_meaning = _keyed({root: each.nearest.hits for root, each in found.items()})
    hits = {**by_meaning, **by_words}
    unknown = {word for each in found.values() for word in each.nearest.unknown}
    fused = fuse(
        _scores(by_words),
        _scores(by_meaning),
        limit=NUM_CANDIDATES,
        is_model=any(each.nearest.is_model for each in found.values()),
        share=_together(searchers).share(words, unknown),
    )
    boosted = {key: score * _boost(query, words, hits[key]) for key, score in fused.items()}
    num_words = {} if is_question(query) else _num_words(searchers, found, by_words, words)
    ranking = sorted(boosted.items(), key=lambda each: (-num_words.get(each[0], 0), -each[1]))
    reranker = next((each.reranker for each in searchers.values() if each.reranker), None)
    reranker = reranker if is_question(query) else None
    wanted = max(k, RERANK_DEPTH) if reranker else k
    best = ranking[: wanted + _SPARE]
    chunks = _chunks(searchers, found, [(key[0], hits[key]) for key, _ in best])
    results = [
        _result(key[0], chunks[key], score, _why(chunks[key], query, is_meant=key in by_meaning))
        for key, score in best
        if key in chunks
    ]
    return (reranked(reranker, query, results[:wanted]) if reranker else results)[:k]


def _num_words(
    searchers: Mapping[str, "Searcher"],
    found: Mapping[str, Candidates],
    by_words: Mapping[_Key, Hit],
    words: Sequence[str],
) -> dict[_Key, int]:
    """1 for what has some of the words, 2 for what has all of them."""
    numbers = dict.fromkeys(by_words, 1)
    for root, searcher in searchers.items():
        hits = [hit for (of, *_), hit in by_words.items() if of == root]
        have = searcher.words_of(hits, found[root].shadow)
        whole = {(root, *key): 2 for key, here in have.items() if set(words).issubset(here)}
        numbers |= whole
    return numbers


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
        root: searcher.candidates(
            query,
            words,
            replace(chosen, path_glob=glob_within(chosen.path_glob, root)),
            table_only=table_only,
        )
        for root, searcher in searchers.items()
    }
    if len(found) > 1:
        weights = _together(searchers)
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


def _together(searchers: Mapping[str, "Searcher"]) -> Together:
    return Together([searcher.weights for searcher in searchers.values()])


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


def _result(root: str, chunk: StoredChunk, score: float, reasons: tuple[str, ...]) -> Result:
    return Result.of(chunk, root=root, score=score, why=reasons)


def _why(chunk: StoredChunk, query: str, *, is_meant: bool) -> tuple[str, ...]:
    words, written = query_words(query), written_words(query)
    here = set(split_words(chunk.text))
    matched = [written[word] for word in words if word in here]
    reasons = [
        (f"word: {' '.join(matched)}", bool(matched)),
        ("symbol", not set(words).isdisjoint(split_words(chunk.symbol))),
        ("path", not set(words).isdisjoint(split_words(chunk.path))),
        ("meaning", is_meant),
    ]
    return tuple(reason for reason, holds in reasons if holds)

"""A second, slower look at the best results, by a model that reads query and text together."""

import logging
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any, Protocol

from composer_index.embedding.answers import one_for_each, scores_of
from composer_index.embedding.server import ModelServer, ModelServerError
from composer_index.search.result import Result

logger = logging.getLogger(__name__)

DEPTH = 30
"""Results that are read again."""
_SMOOTHING = 5
"""Of reciprocal rank fusion (Cormack, Clarke and Büttcher, 2009): how little the first places differ.
Rerankers were trained on prose, and alone do worse on code than what they are given."""
_LATE_S = 30.0
"""How long an answer is waited for that no search waits for any more: the first one may have to load
the model, and the next has use of that."""
MAX_CHARS = 1000
"""Of a text, its path and symbol included: a cross-encoder's time grows with them."""


_ITEM_BYTES = 1024
"""Of one score in an answer, besides the text, which some servers repeat."""


class Reranker(Protocol):
    """A cross-encoder, wherever it runs."""

    def rerank(self, query: str, texts: Sequence[str]) -> Sequence[float]:
        """Returns one score a text; higher is better.

        Raises:
            OSError: the model behind it cannot be reached.
        """
        ...


class ServedReranker:
    """A `Reranker` over `/v1/rerank`, as the engine, llama-server, vLLM, Jina and Cohere serve it.
    Safe to use from several threads; they wait for each other."""

    def __init__(self, server: ModelServer) -> None:
        """`server.served.timeout_s` is how long a search waits; 0: to the end."""
        self.server = server
        self._limit_s = server.served.timeout_s or None
        self._threads = ThreadPoolExecutor(1, "rerank")

    def rerank(self, query: str, texts: Sequence[str]) -> Sequence[float]:
        """Returns one score a text, by the model's own scale.

        Raises:
            ModelServerError: no answer in time, or none that can be used.
        """
        asked = self._threads.submit(self._ask, query, texts)
        try:
            return asked.result(self._limit_s)
        except TimeoutError as error:
            asked.cancel()
            raise self._late() from error

    def _ask(self, query: str, texts: Sequence[str]) -> Sequence[float]:
        body = {"query": query, "documents": list(texts), "top_n": len(texts)}
        limit_s = self._limit_s and max(self._limit_s, _LATE_S)
        started = time.monotonic()

        def read(answer: Mapping[str, Any]) -> Sequence[float]:
            who = f"{self.server.served.origin}, asked to rerank by {self.server.served.model},"
            items = one_for_each(who, answer, "results", "scores", len(texts), is_ordered=False)
            return scores_of(who, items)

        scores = self.server.post(
            "rerank",
            body,
            read,
            max_bytes=len(texts) * _ITEM_BYTES,
            priority="agent",
            limit_s=limit_s,
        )
        if self._limit_s and time.monotonic() - started > self._limit_s:
            self.server.failed(self._late())  # It is spared work that comes to nothing.
        return scores

    def _late(self) -> ModelServerError:
        return ModelServerError(
            f"{self.server.served.origin} did not rerank within {self._limit_s or 0:g} s"
        )


def is_question(query: str) -> bool:
    """Whether reranking may help: one word names something, and words find it."""
    return len(query.split()) > 1


def reranked(reranker: Reranker, query: str, results: Sequence[Result]) -> list[Result]:
    """Returns the first `DEPTH` results in the order that both rankings give, the reranker's and the
    one they came in, the others after them; all as they came if it does not answer."""
    head = results[:DEPTH]
    if len(head) < 2:
        return list(results)
    try:
        scores = reranker.rerank(query, [_shown(result) for result in head])
    except OSError as error:
        logger.warning("results are not reranked: %s", error)
        return list(results)
    order = sorted(range(len(head)), key=lambda place: -scores[place])
    fused = [1 / (_SMOOTHING + place) for place in range(len(results))]
    for rank, place in enumerate(order):
        fused[place] += 1 / (_SMOOTHING + rank)
    # Of equals the one comes first that the reranker prefers.
    places = [*order, *range(len(head), len(results))]
    places.sort(key=lambda place: -fused[place])
    return [replace(results[place], score=fused[place]) for place in places]


def _shown(result: Result) -> str:
    return f"{result.path} {result.symbol}\n{result.text}"[:MAX_CHARS]

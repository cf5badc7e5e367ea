"""A second, slower look at the best results, by a model that reads query and text together."""

import logging
from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

from composer_index.search.result import Result

logger = logging.getLogger(__name__)

DEPTH = 30
"""Results that are read again: a cross-encoder of 12 layers takes some 20 ms a text on a core."""


class Reranker(Protocol):
    """A cross-encoder, wherever it runs."""

    def rerank(self, query: str, texts: Sequence[str]) -> Sequence[float]:
        """Returns one score a text; higher is better.

        Raises:
            OSError: the model behind it cannot be reached.
        """
        ...


def reranked(reranker: Reranker, query: str, results: Sequence[Result]) -> list[Result]:
    """Returns the first `DEPTH` results by the reranker's scores, the others after them in their
    order; all as they came if it cannot be reached."""
    head, tail = results[:DEPTH], results[DEPTH:]
    try:
        scores = reranker.rerank(query, [_shown(result) for result in head])
    except OSError as error:
        logger.warning("results are not reranked: %s", error)
        return list(results)
    scored = [replace(each, score=score) for each, score in zip(head, scores, strict=True)]
    lowest = min(scores, default=0.0)
    # The tail keeps its order, below: its scores are of another scale.
    below = [replace(each, score=lowest - 1 - rank) for rank, each in enumerate(tail)]
    return sorted(scored, key=lambda each: -each.score) + below


def _shown(result: Result) -> str:
    return f"{result.path} {result.symbol}\n{result.text}"

"""The ranking by vectors: by the model that a server runs where the store has its vectors, and by
the static table everywhere else.

The table's vectors are always there, so there is always something to fall back on: while a model's
are filled in, while its server is away, and for what has changed since, unsaved buffers above all.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from composer_index.embedding.embedder import Embedder
from composer_index.embedding.served import ServedEmbedder
from composer_index.search.shadow import Shadow
from composer_index.store.records import Filter, Hit
from composer_index.words import written_words

if TYPE_CHECKING:
    from composer_index.store.store import Store

logger = logging.getLogger(__name__)

NUM_CANDIDATES = 100
"""Of each kind of search, before they are fused."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Nearest:
    hits: list[Hit]
    """Best first."""
    is_model: bool
    """Their scores are a transformer's cosines; else the table's."""
    unknown: tuple[str, ...] = ()
    """The words of the query that the table lacks, if it answered."""


class Meaning:
    """Safe to use from several threads."""

    def __init__(self, store: "Store", table: Embedder | None) -> None:
        """`table` embeds the unsaved buffers too; None: only words are searched."""
        self._store = store
        self._table = table
        self._served: tuple[ServedEmbedder, Callable[[str], bool]] | None = None

    def use(
        self, embedder: ServedEmbedder | None, is_waiting: Callable[[str], bool] | None
    ) -> None:
        """Have a model answer, or none, once the store's vectors are its own. `is_waiting`: whether
        a file has none by it yet."""
        self._served = (embedder, is_waiting) if embedder and is_waiting else None

    @property
    def answering(self) -> str:
        """The name of the embedder on whose scale `nearest` scores; empty without any."""
        stored = self._store.embedder
        if self._served and self._served[0].made(stored):
            return stored
        return self._table.name if self._table else ""

    def nearest(
        self, query: str, chosen: Filter, shadow: Shadow, *, table_only: bool = False
    ) -> Nearest:
        """Returns the chunks most like the query; `table_only`: whatever models there are."""
        served = None if table_only else self._served
        by_model = served and self._by_model(
            served[0], query, replace(chosen, without=shadow.paths)
        )
        by_table = self._by_table(query, chosen, shadow)
        if served is None or by_model is None:
            return Nearest(hits=by_table, is_model=False, unknown=self._unknown(query))
        _, is_waiting = served
        rest = [
            hit
            for hit in _on_scale_of(by_model, by_table)
            if hit.path in shadow.paths or is_waiting(hit.path)
        ]
        waiting = {hit.path for hit in rest}
        current = [hit for hit in by_model if hit.path not in waiting]
        return Nearest(hits=_sorted(current + rest), is_model=True)

    def _by_model(self, served: ServedEmbedder, query: str, chosen: Filter) -> list[Hit] | None:
        """None where the model does not answer."""
        stored = self._store.embedder
        if not served.made(stored):
            return None
        try:
            vector = served.embed_query(query)
        except OSError as error:
            logger.warning("the table answers for the model: %s", error)
            return None
        if served.name != stored:  # It has other dimensions now.
            return None
        # None where its vectors were dropped just now, for another model's.
        return self._store.nearest(stored, vector, NUM_CANDIDATES, chosen) or None

    def _by_table(self, query: str, chosen: Filter, shadow: Shadow) -> list[Hit]:
        if self._table is None:
            return []
        try:
            vector = self._table.embed([query])[0]
        except OSError as error:
            logger.warning("search goes without meaning: %s", error)
            return []
        if not vector.any():
            return []
        stored = replace(chosen, without=shadow.paths)
        hits = self._store.nearest(self._table.name, vector, NUM_CANDIDATES, stored)
        return _sorted(hits + shadow.nearest(vector, chosen))

    def _unknown(self, query: str) -> tuple[str, ...]:
        if self._table is None:
            return ()
        written = written_words(query)
        try:
            vectors = self._table.embed(list(written.values()))
        except OSError:  # It is logged by then.
            return ()
        return tuple(
            word for word, vector in zip(written, vectors, strict=True) if not vector.any()
        )


def _on_scale_of(by_model: list[Hit], by_table: list[Hit]) -> list[Hit]:
    """The table's hits with the best and the last scored as the model's are, the others between:
    for what the model has no vectors for."""
    if not by_table:
        return []
    best, last = by_model[0].score, by_model[-1].score
    from_best, from_last = by_table[0].score, by_table[-1].score
    ratio = (best - last) / (from_best - from_last) if from_best > from_last else 0.0
    return [replace(hit, score=best - (from_best - hit.score) * ratio) for hit in by_table]


def _sorted(hits: list[Hit]) -> list[Hit]:
    return sorted(hits, key=lambda hit: -hit.score)[:NUM_CANDIDATES]

"""Two rankings to one: BM25's and the vectors'.

A convex combination of the scores, each scaled to its own list: on the seven corpora that weights
were tuned on it found more than reciprocal rank fusion does (scripts/embedding_table/README.md), as
Bruch, Gai and Ingber report in "An Analysis of Fusion Functions for Hybrid Retrieval" (2023).
"""

from collections.abc import Hashable, Mapping
from typing import TypeVar

Key = TypeVar("Key", bound=Hashable)

MEANING_WEIGHT = 0.5
"""Of the vectors' scores, against 1 for BM25's."""

FLOOR = 0.2
"""What a candidate has for being one, so that a boost can lift the last of a list."""


def fuse(by_words: Mapping[Key, float], by_meaning: Mapping[Key, float]) -> dict[Key, float]:
    """Returns a score for each candidate of either ranking, of `FLOOR` to 1.7.

    Each maps its best candidates, about 100, to scores above 0: of any scale, but 0 has to mean that
    nothing matches. One that a ranking lacks counts there as its last.
    """
    words, words_last = _scaled(by_words)
    meaning, meaning_last = _scaled(by_meaning)
    return {
        key: FLOOR + words.get(key, words_last) + MEANING_WEIGHT * meaning.get(key, meaning_last)
        for key in {**by_words, **by_meaning}
    }


def _scaled(scores: Mapping[Key, float]) -> tuple[dict[Key, float], float]:
    """The scores with the best at 1, and the last of them."""
    best = max(scores.values(), default=0.0)
    if best <= 0:
        return {}, 0.0
    scaled = {key: max(0.0, score) / best for key, score in scores.items()}
    return scaled, min(scaled.values())

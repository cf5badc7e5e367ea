"""Two rankings to one: BM25's and the vectors'.

A convex combination of the scores, each scaled to its own list: on the seven corpora that weights
were tuned on it found more than reciprocal rank fusion does (scripts/embedding_table/README.md), as
Bruch, Gai and Ingber report in "An Analysis of Fusion Functions for Hybrid Retrieval" (2023).
"""

from collections.abc import Hashable, Mapping
from typing import TypeVar

Key = TypeVar("Key", bound=Hashable)

MEANING_WEIGHT = 0.5
"""Of the table's scores, against 1 for BM25's."""
MODEL_WEIGHT = 1.0
"""Of a transformer's (docs/decisions/0007)."""

FLOOR = 0.2
"""What a candidate has for being one, so that a boost can lift the last of a list."""


def fuse(
    by_words: Mapping[Key, float],
    by_meaning: Mapping[Key, float],
    *,
    limit: int,
    is_model: bool = False,
    share: float = 1.0,
) -> dict[Key, float]:
    """Returns a score for each candidate of either ranking, of `FLOOR` to 1.7, or to 2.2 if
    `is_model`: a transformer gave the second one.

    Each maps its best candidates, at most `limit`, to scores above 0: of any scale, but 0 has to mean
    that nothing matches. A transformer's cosines crowd together far above 0, so that what counts is
    how far they are above the last. One that a ranking lacks counts there as its last if the ranking
    was cut at `limit`, and as 0 if it was not: then nothing else matches. `share` is how much of the
    question the second ranking knows, of 0 to 1.
    """
    words, words_last = _scaled(by_words, limit)
    meaning, meaning_last = _scaled(_above_last(by_meaning) if is_model else by_meaning, limit)
    weight = share * (MODEL_WEIGHT if is_model else MEANING_WEIGHT)
    return {
        key: FLOOR + words.get(key, words_last) + weight * meaning.get(key, meaning_last)
        for key in {**by_words, **by_meaning}
    }


def _above_last(scores: Mapping[Key, float]) -> Mapping[Key, float]:
    last = min(scores.values(), default=0.0)
    is_even = all(score == last for score in scores.values())
    return scores if is_even else {key: score - last for key, score in scores.items()}


def _scaled(scores: Mapping[Key, float], limit: int) -> tuple[dict[Key, float], float]:
    """The scores with the best at 1, and that of the rest."""
    best = max(scores.values(), default=0.0)
    if best <= 0:
        return {}, 0.0
    scaled = {key: max(0.0, score) / best for key, score in scores.items()}
    return scaled, min(scaled.values()) if len(scaled) >= limit else 0.0

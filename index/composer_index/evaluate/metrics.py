"""How well rankings answer questions."""

from collections.abc import Sequence
from dataclasses import dataclass

from composer_index.evaluate.queries import Place, Question

DEPTH = 10


@dataclass(frozen=True, kw_only=True, slots=True)
class Quality:
    num_questions: int
    mrr: float
    """Mean of 1 / rank of the first right result among the first 10; 0 if there is none."""
    recall: float
    """Share of questions with a right result among the first 10."""


def first_right(question: Question, results: Sequence[Place]) -> int | None:
    """Returns the rank, from 1, of the first result that overlaps an answer."""
    for rank, result in enumerate(results[:DEPTH], 1):
        if any(result.overlaps(answer) for answer in question.answers):
            return rank
    return None


def quality(ranks: Sequence[int | None]) -> Quality:
    """Sums up `first_right` of all questions."""
    number = len(ranks)
    return Quality(
        num_questions=number,
        mrr=sum(1 / rank for rank in ranks if rank) / max(1, number),
        recall=sum(rank is not None for rank in ranks) / max(1, number),
    )

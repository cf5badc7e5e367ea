"""Weights over several stores: how much of a question is known."""

import math

import pytest

from composer_index.search.weights import Together


class Counted:
    """The weights of a store in which so many chunks have a word."""

    def __init__(self, number: int, **having: int) -> None:
        self._number, self._having = number, having

    def weight(self, word: str) -> float:
        having = self._having.get(word, 0)
        return math.log(1 + (self._number - having + 0.5) / (having + 0.5))

    def average_length(self) -> float:
        return 10.0

    def num_chunks(self) -> int:
        return self._number


def test_a_rare_word_that_is_unknown_leaves_little() -> None:
    together = Together([Counted(900, text=300), Counted(100, walrus=1)])
    rare, common = math.log(1001 / 1.5), math.log(1001 / 300.5)
    share = together.share(["walrus", "text"], ["walrus"])
    assert share == pytest.approx(common / (rare + common))


def test_what_no_chunk_has_counts_nothing() -> None:
    together = Together([Counted(1000, text=300)])
    assert together.share(["txet", "text"], ["txet"]) == 1
    assert together.share(["txet"], ["txet"]) == 1


def test_a_question_is_known_whole_or_not_at_all() -> None:
    together = Together([Counted(1000, text=300, walrus=1)])
    assert together.share(["walrus", "text"], []) == 1
    assert together.share(["walrus", "text"], ["walrus", "text"]) == 0

"""Fusion of two rankings by hand-computed scores."""

import pytest

from composer_index.search.fuse import FLOOR, MEANING_WEIGHT, MODEL_WEIGHT, fuse


def test_each_ranking_counts_by_its_own_best() -> None:
    fused = fuse({"a": 20.0, "b": 10.0}, {"b": 0.8, "c": 0.4}, limit=2)
    assert fused == pytest.approx(
        {
            "a": FLOOR + 1.0 + MEANING_WEIGHT * 0.5,  # not among the vectors': as their last
            "b": FLOOR + 0.5 + MEANING_WEIGHT * 1.0,
            "c": FLOOR + 0.5 + MEANING_WEIGHT * 0.5,
        }
    )


def test_what_a_whole_ranking_lacks_does_not_match() -> None:
    fused = fuse({"a": 20.0}, {"a": 0.8, "b": 0.4}, limit=3)
    assert fused == pytest.approx(
        {"a": FLOOR + 1.0 + MEANING_WEIGHT * 1.0, "b": FLOOR + MEANING_WEIGHT * 0.5}
    )


def test_meaning_counts_by_what_it_knows_of_the_question() -> None:
    fused = fuse({"a": 1.0}, {"b": 1.0}, limit=2, share=0.25)
    assert fused == pytest.approx({"a": FLOOR + 1.0, "b": FLOOR + 0.25 * MEANING_WEIGHT})


def test_scale_does_not_matter() -> None:
    words, meaning = {1: 3.0, 2: 1.5, 3: 0.2}, {3: 0.9, 4: 0.1}
    larger = {key: score * 1000 for key, score in words.items()}
    assert fuse(words, meaning, limit=3) == pytest.approx(fuse(larger, meaning, limit=3))


def test_one_ranking_alone_keeps_its_order() -> None:
    words = {"a": 3.0, "b": 2.0, "c": 1.0}
    assert sorted(fused := fuse(words, {}, limit=3), key=lambda key: -fused[key]) == ["a", "b", "c"]
    assert sorted(fused := fuse({}, words, limit=3), key=lambda key: -fused[key]) == ["a", "b", "c"]
    assert fuse({}, {}, limit=3) == {}


def test_scores_of_nothing_leave_the_floor() -> None:
    assert fuse({"a": 0.0}, {"a": -0.5, "b": 0.0}, limit=3) == {"a": FLOOR, "b": FLOOR}


def test_of_a_models_scores_counts_what_is_above_the_last() -> None:
    fused = fuse({"a": 2.0}, {"a": 0.7, "b": 0.9, "c": 0.5}, limit=1, is_model=True)
    assert fused == pytest.approx(
        {
            "a": FLOOR + 1.0 + MODEL_WEIGHT * 0.5,
            "b": FLOOR + 1.0 + MODEL_WEIGHT * 1.0,
            "c": FLOOR + 1.0 + MODEL_WEIGHT * 0.0,
        }
    )


def test_a_model_that_cannot_decide_takes_nothing_away() -> None:
    fused = fuse({}, {"a": 0.7, "b": 0.7}, limit=2, is_model=True)
    assert fused == pytest.approx(dict.fromkeys("ab", FLOOR + MODEL_WEIGHT))

"""How likely a suggestion is right, by the log-probabilities of its tokens."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from composer_lsp.completion.judge import Features, features_of, score


def test_features_of_the_tokens_that_are_shown() -> None:
    tokens = [("foo", -0.5), ("(a)", -1.5), ("\n", -9.0), ("bar", -9.0)]
    features = features_of("foo(a)", tokens, is_cut=True, after="")
    assert features == Features(
        mean_logprob=-1.0,
        least_logprob=-1.5,
        num_more_lines=0.0,
        is_cut=1.0,
        says_below=0.0,
        says_other=0.0,
    )


def test_lines_count_from_the_second_on() -> None:
    features = features_of("a\n  b\n c\nd\ne", [("a\n b\n c\nd\ne", -1.0)], is_cut=False, after="")
    assert features is not None
    assert features.num_more_lines == 2.0


@pytest.mark.parametrize(
    ("said", "after", "says_below", "says_other"),
    [
        ("\n    return x", "\n\n    return x\n", 1, 0),
        ("\n    ret", "\n    return x\n", 1, 0),
        ("\n    return x  # so\n", "\n    return x\n", 1, 0),
        ("\n    x += 1", "\n    return x\n", 0, 1),
        ("\n", "\n    return x\n", 0, 0),
        ("\n    return x", "\n", 0, 0),
        ("", "", 0, 0),
    ],
)
def test_what_the_model_said_next_is_held_against_the_text_below(
    said: str, after: str, says_below: float, says_other: float
) -> None:
    features = features_of("x = 1", [("x = 1", -0.1), (said, -0.1)], is_cut=True, after=after)
    assert features is not None
    assert (features.says_below, features.says_other) == (says_below, says_other)


def test_no_score_without_log_probabilities() -> None:
    assert score("foo", [], is_cut=False, after="") is None


@given(st.lists(st.floats(-20, 0), min_size=1, max_size=30), st.integers(0, 29), st.floats(0.1, 5))
def test_what_the_model_doubts_more_scores_no_higher(
    logprobs: list[float], place: int, by: float
) -> None:
    doubted = list(logprobs)
    doubted[place % len(doubted)] -= by
    scores = [
        score("a" * len(each), [("a", logprob) for logprob in each], is_cut=False, after="")
        for each in (logprobs, doubted)
    ]
    assert scores[0] is not None and scores[1] is not None
    assert 0 <= scores[1] <= scores[0] <= 1


def test_what_the_model_holds_for_impossible_scores_nothing() -> None:
    assert score("a", [("a", -1e9)], is_cut=False, after="") == 0


def test_what_was_cut_scores_less() -> None:
    whole, cut = (score("a", [("a", -0.3)], is_cut=is_cut, after="") for is_cut in (False, True))
    assert whole is not None and cut is not None
    assert cut < whole

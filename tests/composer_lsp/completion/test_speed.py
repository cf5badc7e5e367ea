"""Budgets by what the engine's answers told."""

from composer_lsp.completion.speed import (
    MAX_STABLE_TOKENS,
    MIN_NEW_TOKENS,
    Speed,
)


def observed(*answers: tuple[int, float]) -> Speed:
    speed = Speed()
    for num_tokens, ms in answers:
        speed.observe({"num_prefill_tokens": num_tokens, "prefill_ms": ms})
    return speed


def test_nothing_is_known_before_an_answer() -> None:
    speed = observed()
    assert (speed.tokens_per_s, speed.new_tokens, speed.stable_tokens) == (None, None, 0)


def test_budgets_follow_the_rate() -> None:
    speed = observed((200, 2000.0))
    assert (speed.tokens_per_s, speed.new_tokens, speed.stable_tokens) == (100, 80, 1000)


def test_a_slow_machine_reads_a_little_and_a_fast_one_has_a_limit() -> None:
    assert observed((100, 10_000.0)).new_tokens == MIN_NEW_TOKENS
    assert observed((5000, 1000.0)).stable_tokens == MAX_STABLE_TOKENS


def test_a_few_tokens_and_answers_that_tell_nothing_do_not_count() -> None:
    speed = observed((200, 2000.0), (3, 900.0), (0, 0.0))
    speed.observe({})
    assert speed.tokens_per_s == 100


def test_the_latest_answers_weigh_most() -> None:
    rate = observed((100, 1000.0), *[(100, 2000.0)] * 10).tokens_per_s
    assert rate is not None
    assert 50 <= rate < 52


def test_another_model_is_measured_anew() -> None:
    speed = observed((200, 2000.0))
    speed.forget()
    assert speed.new_tokens is None

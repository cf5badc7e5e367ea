from composer_lsp.engine.backoff import Backoff


def test_waits_double_up_to_the_longest_and_success_resets() -> None:
    now = 100.0
    backoff = Backoff(first_s=1, longest_s=10, clock=lambda: now, jitter=lambda: 0.0)
    waits: list[float] = []
    for _ in range(6):
        backoff.failed()
        waits.append(backoff.remaining_s)
    assert waits == [1, 2, 4, 8, 10, 10]
    now += 4
    assert backoff.remaining_s == 6
    now += 100
    assert backoff.remaining_s == 0
    backoff.succeeded()
    backoff.failed()
    assert backoff.remaining_s == 1


def test_jitter_takes_away_up_to_a_half() -> None:
    backoff = Backoff(first_s=1, longest_s=10, clock=lambda: 0.0, jitter=lambda: 1.0)
    backoff.failed()
    assert backoff.remaining_s == 0.5


def test_thousands_of_failures_do_not_overflow() -> None:
    backoff = Backoff(first_s=1, longest_s=60, clock=lambda: 0.0, jitter=lambda: 0.0)
    for _ in range(5000):
        backoff.failed()
    assert backoff.remaining_s == 60

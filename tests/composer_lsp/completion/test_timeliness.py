"""What is given up where suggestions come late."""

import pytest

from composer_lsp.completion.timeliness import Timeliness


def after(*rounds: tuple[float, float], seen: Timeliness | None = None) -> Timeliness:
    """Twenty suggestions a round, of so many milliseconds in all and for reading the prompt."""
    seen = seen or Timeliness()
    for total, prefill in rounds:
        for _ in range(20):
            seen.observe({"total": total + 20, "debounce": 20, "prefill": prefill})
    return seen


@pytest.mark.parametrize(
    ("rounds", "share", "is_model_too_slow"),
    [
        ([], 1.0, False),
        ([(790, 700)], 1.0, False),
        ([(900, 700)], 0.5, False),
        ([(900, 700)] * 2, 0.25, False),
        ([(900, 700)] * 3, 0.25, True),
        ([(1500, 100)], 1.0, True),
        ([(900, 700), (300, 100)], 1.0, False),
        ([(900, 700), (600, 100)], 0.5, False),
        ([(1500, 100), (300, 100)], 1.0, False),
    ],
)
def test_what_is_given_up(
    rounds: list[tuple[float, float]], share: float, is_model_too_slow: bool
) -> None:
    seen = after(*rounds)
    assert (seen.context_share, seen.is_model_too_slow) == (share, is_model_too_slow)


def test_a_few_late_ones_change_nothing() -> None:
    seen = Timeliness()
    late = {"total": 9000, "debounce": 0, "prefill": 8000}
    quick = {"total": 500, "debounce": 0, "prefill": 100}
    for number in range(100):
        seen.observe(late if number % 3 == 0 else quick)
    assert (seen.p50_ms, seen.context_share) == (500, 1.0)


def test_it_tells_of_each_judgement_and_forgets_with_the_model() -> None:
    seen = after((900, 700))
    told = [seen.observe({"total": 900, "debounce": 0, "prefill": 700}) for _ in range(20)]
    assert told == [False] * 19 + [True]
    seen.forget()
    assert (seen.context_share, seen.p50_ms) == (1.0, None)

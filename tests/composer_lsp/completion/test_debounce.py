from composer_lsp.completion.debounce import MAX_GROWTH, Debounce


def waits(gaps_s: list[float]) -> list[float]:
    now = 0.0
    debounce = Debounce(clock=lambda: now)
    seen: list[float] = []
    for gap_s in gaps_s:
        now += gap_s
        seen.append(round(debounce.wait_s(20) * 1000, 3))
    return seen


def test_single_keystrokes_wait_shortest() -> None:
    assert waits([0, 1, 0.5, 3]) == [20, 20, 20, 20]


def test_fast_typing_waits_longer_up_to_the_limit() -> None:
    seen = waits([0.1] * 12)
    assert seen == sorted(seen)
    assert seen[0] == 20 and seen[1] == 30
    assert seen[-1] == 20 * MAX_GROWTH


def test_a_pause_resets() -> None:
    assert waits([0.1] * 8 + [0.4, 0.1])[-2:] == [20, 30]


def test_zero_stays_zero() -> None:
    debounce = Debounce(clock=lambda: 0.0)
    assert [debounce.wait_s(0) for _ in range(5)] == [0] * 5

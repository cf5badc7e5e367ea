from composer_inference.batching.pace import STEP_S, Pace


def steps(pace: Pace, seconds_a_token: float, number: int) -> list[int]:
    given: list[int] = []
    for _ in range(number):
        given.append(pace.num_tokens)
        pace.observe(pace.num_tokens, pace.num_tokens * seconds_a_token)
    return given


def test_steps_grow_to_what_fits_their_time() -> None:
    assert steps(Pace(32), STEP_S / 300, 6) == [32, 64, 128, 256, 300, 300]


def test_steps_shrink_on_a_slow_machine() -> None:
    assert steps(Pace(128), STEP_S / 20, 5) == [128, 64, 32, 20, 20]


def test_the_least_and_the_most_are_kept() -> None:
    assert steps(Pace(32), STEP_S, 3)[-1] == 16
    assert steps(Pace(32, most=64), STEP_S / 1000, 4)[-1] == 64


def test_a_small_step_teaches_nothing() -> None:
    pace = Pace(128)
    pace.observe(3, 1.0)
    assert pace.num_tokens == 128


def test_one_that_does_not_learn_keeps_its_number() -> None:
    assert steps(Pace(5, learns=False), STEP_S / 1000, 3) == [5, 5, 5]
    assert steps(Pace(500, learns=False), STEP_S, 3) == [500, 500, 500]

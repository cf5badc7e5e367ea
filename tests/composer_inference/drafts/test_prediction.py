"""Where a prediction goes on after a difference."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from composer_inference.drafts.prediction import PredictionDrafter

OLD = list(range(100, 300))
R = [1, 2, 3, 4, 5, 6, 7, 8]
"""A line that occurs several times."""
REPEATED = [*range(100, 110), *R, *range(120, 130), *R, *range(140, 150), *R, *range(160, 170)]
CROWD = [token_id for number in range(20) for token_id in (5, 6, 400 + number)]


@pytest.mark.parametrize(
    ("prediction", "output", "expected"),
    [
        pytest.param(OLD, [], OLD[:5], id="the beginning"),
        pytest.param(OLD, OLD[:50], OLD[50:55], id="no difference"),
        pytest.param(OLD, [*OLD[:50], 1, *OLD[51:53]], OLD[53:58], id="replaced"),
        pytest.param(OLD, [*OLD[:50], 1, 2, 3, 4, *OLD[50:52]], OLD[52:57], id="inserted"),
        pytest.param(OLD, [*OLD[:50], *OLD[60:62]], OLD[62:67], id="deleted"),
        pytest.param(OLD, [*OLD[:50], *OLD[150:152]], OLD[152:157], id="moved here from below"),
        pytest.param(OLD, [*OLD[:150], *OLD[50:52]], OLD[52:57], id="moved here from above"),
        pytest.param(OLD, [1, 2, 3, *OLD[:2]], OLD[2:7], id="something said before"),
        pytest.param(OLD, [*OLD[:50], 1, 2, 3], [], id="nothing is found"),
        pytest.param(OLD, [*OLD, 1], [], id="past the end"),
        pytest.param(OLD, OLD, [], id="at the end"),
        pytest.param(
            REPEATED, [*range(100, 110), 0, 2, 3], [*R[3:], 120, 121], id="the line that follows"
        ),
        pytest.param(
            REPEATED,
            [*range(100, 110), *R, *range(120, 126), 0, *R[:2]],
            [*R[2:], 140],
            id="not the line before",
        ),
        pytest.param(
            REPEATED,
            [*range(100, 110), 0, *range(146, 150), *R[:2]],
            [*R[2:], 160],
            id="the one that more agrees with",
        ),
        pytest.param(
            REPEATED,
            [*range(100, 110), 141, 142, 0, *R[:2]],
            [*R[2:], 120],
            id="the line that follows in spite of a chance",
        ),
        pytest.param(
            REPEATED, [*range(100, 110), *R, 0, *R[-2:]], [120, 121], id="the same line again"
        ),
        pytest.param(
            REPEATED, [*range(164, 170), *R[-2:]], [160, 161], id="the nearest of those above"
        ),
        pytest.param(
            [*OLD, 1, 2, 3, 50, 3, 4, 60, 1, 2, 3, 4, 70],
            [*OLD[:5], 0, 1, 2, 3, 4],
            [70],
            id="the one that more agrees with, after another way",
        ),
        pytest.param(
            [*OLD, 1, 2, 3, 4, 5, 50, *CROWD, 1, 2, 3, 4, 5, 6, 70],
            [*OLD[:5], 0, 1, 2, 3, 4, 5, 6],
            [70],
            id="far among many",
        ),
        pytest.param([], [], [], id="no prediction"),
        pytest.param([], [1, 2], [], id="no prediction, some output"),
    ],
)
@pytest.mark.parametrize("at_once", [True, False])
def test_the_draft_goes_on_behind_the_difference(
    prediction: list[int], output: list[int], expected: list[int], at_once: bool
) -> None:
    drafter = PredictionDrafter(prediction)
    for observed in [output] if at_once else [[token_id] for token_id in output]:
        drafter.observe(observed)
    assert drafter.propose(len(expected) or 5) == expected


@given(
    prediction=st.lists(st.integers(0, 2), max_size=60),
    output=st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=8), max_size=10),
)
def test_what_is_before_the_draft_agrees_with_the_output(
    prediction: list[int], output: list[list[int]]
) -> None:
    drafter = PredictionDrafter(prediction)
    said: list[int] = []
    for observed in output:
        drafter.observe(observed)
        said += observed
        draft, length = drafter.propose(5), min(drafter.num_agreed, len(said))
        places = range(length, len(prediction))
        assert bool(draft) == (drafter.num_agreed > 0)
        assert not draft or any(
            prediction[place - length : place] == said[-length:]
            and prediction[place : place + 5] == draft
            for place in places
        )


class CountedReads(list[int]):
    num_reads = 0

    def __getitem__(self, key):
        self.num_reads += len(range(*key.indices(len(self)))) if isinstance(key, slice) else 1
        return super().__getitem__(key)


@pytest.mark.parametrize("start", [0, 15_000, 30_000])
def test_the_work_for_a_token_does_not_grow_with_the_text(start: int) -> None:
    prediction = CountedReads([1, 2, 3] * 10_000)
    drafter = PredictionDrafter(prediction)
    drafter.observe(prediction[:start])
    prediction.num_reads = 0
    for _ in range(200):
        drafter.observe([3, 1, 2, 2, 1, 2])
        drafter.propose(4)
    assert prediction.num_reads < 200 * 500

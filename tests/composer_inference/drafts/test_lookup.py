"""What a lookup finds in the prompt and in the output."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from composer_inference.drafts.lookup import LookupDrafter


@pytest.mark.parametrize(
    ("prompt", "output", "expected"),
    [
        pytest.param([1, 2, 3, 4, 5, 9, 1, 2, 3], [], [4, 5, 9], id="in the prompt"),
        pytest.param([1, 2, 3, 4, 5, 9, 1], [2, 3], [4, 5, 9], id="across prompt and output"),
        pytest.param([], [1, 2, 3, 4, 5, 9, 1, 2, 3], [4, 5, 9], id="in the output"),
        pytest.param([1, 2, 3, 4, 1, 2, 3, 5, 1, 2, 3], [], [5, 1, 2], id="the latest"),
        pytest.param([7, 1, 2, 3, 4, 1, 2, 3, 5, 7], [1, 2, 3], [4, 1, 2], id="the longest"),
        pytest.param([1, 1, 1], [1], [1], id="itself, overlapping"),
        pytest.param([1, 2, 3, 4, 2, 3], [], [], id="too short"),
        pytest.param([], [], [], id="nothing"),
    ],
)
@pytest.mark.parametrize("at_once", [True, False])
def test_the_draft_is_what_followed(
    prompt: list[int], output: list[int], expected: list[int], at_once: bool
) -> None:
    drafter = LookupDrafter(prompt)
    for observed in [output] if at_once else [[token_id] for token_id in output]:
        drafter.observe(observed)
    assert drafter.propose(3) == expected


@given(
    prompt=st.lists(st.integers(0, 2), max_size=40),
    output=st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=8), max_size=8),
)
def test_what_is_before_the_draft_agrees_with_the_output(
    prompt: list[int], output: list[list[int]]
) -> None:
    drafter = LookupDrafter(prompt)
    text = list(prompt)
    for observed in output:
        drafter.observe(observed)
        text += observed
        draft, length = drafter.propose(5), drafter.num_agreed
        earlier = [place for place in range(3, len(text)) if text[place - 3 : place] == text[-3:]]
        assert bool(draft) == bool(earlier)
        assert not draft or any(
            text[place - length : place] == text[-length:] and text[place : place + 5] == draft
            for place in earlier
        )


def test_the_caller_may_go_on_using_its_prompt() -> None:
    prompt = [1, 2, 3]
    drafter = LookupDrafter(prompt)
    drafter.observe([4])
    assert prompt == [1, 2, 3]

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from composer_lsp.agent.edits import matching
from composer_lsp.agent.edits.hunks import apply_hunks, find_hunks

RECORD = '  {\n    "a": 0,\n    "b": null\n  },\n'
OTHER = '  {\n    "a": 1,\n    "b": null\n  },\n'
LINES = [f"line {n}\n" for n in range(10_000)]


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many pairs of lines every search of difflib's looked at."""
    amounts: list[int] = []
    matcher_class: Any = matching.SequenceMatcher
    find = matcher_class.find_longest_match

    def counted(matcher: Any, alo: int, ahi: int, blo: int, bhi: int) -> Any:
        amounts.append(sum(1 + len(matcher.b2j.get(line, ())) for line in matcher.a[alo:ahi]))
        assert sum(amounts) < 1_000_000, "too much work"
        return find(matcher, alo, ahi, blo, bhi)

    monkeypatch.setattr(matcher_class, "find_longest_match", counted)
    return amounts


def test_long_texts_of_lines_that_are_all_alike_take_little_work(steps: list[int]) -> None:
    old = "[\n" + RECORD * 5000 + "]\n"
    new = "[ \n" + RECORD * 2000 + OTHER + RECORD * 3000 + "] \n"
    hunks = find_hunks(old, new)
    assert apply_hunks(old, hunks) == new
    assert sum(len(hunk.old) + len(hunk.new) for hunk in hunks) == 2 + len(OTHER.splitlines()) + 2


def test_thousands_of_hunks_take_little_work(steps: list[int]) -> None:
    new = [line if number % 4 else f"new {number}\n" for number, line in enumerate(LINES)]
    hunks = find_hunks("".join(LINES), "".join(new))
    assert [hunk.start for hunk in hunks] == list(range(0, len(LINES), 4))
    assert apply_hunks("".join(LINES), hunks) == "".join(new)


def test_long_texts_that_have_little_in_common_are_one_hunk(steps: list[int]) -> None:
    old, new = "a\nb\nc\n" * 3000, "c\nb\n" * 4000
    (hunk,) = find_hunks(old, new)
    assert apply_hunks(old, [hunk]) == new


@pytest.mark.parametrize("max_steps", [matching._MAX_STEPS, 0], ids=["difflib", "by anchors"])  # pyright: ignore[reportPrivateUsage]
@given(old=st.text("abcd\n", max_size=60), new=st.text("abxy\n", max_size=60))
def test_hunks_make_the_one_text_of_the_other(max_steps: int, old: str, new: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(matching, "_MAX_STEPS", max_steps)
        hunks = find_hunks(old, new)
    assert apply_hunks(old, hunks) == new
    assert all(one.end < other.start for one, other in pairwise(hunks))
    assert all(hunk.old != hunk.new for hunk in hunks)

import pytest

from composer_lsp.agent.edits.anchor import AnchorError, carry_over

BEFORE = "".join(f"line {n}\n" for n in range(1, 31))
AFTER = BEFORE.replace("line 15\n", "LINE 15\n")


@pytest.mark.parametrize(
    ("now", "expected"),
    [
        (BEFORE, AFTER),
        ("new\n" + BEFORE, "new\n" + AFTER),
        (BEFORE.replace("line 3\n", ""), AFTER.replace("line 3\n", "")),
        (BEFORE + "end\n", AFTER + "end\n"),
        (BEFORE.replace("line 14\n", "x\n"), AFTER.replace("line 14\n", "x\n")),
    ],
    ids=["same", "above", "removed above", "below", "next to it"],
)
def test_a_hunk_follows_its_text(now: str, expected: str) -> None:
    assert carry_over(BEFORE, AFTER, now) == expected


@pytest.mark.parametrize(
    ("before", "after", "now"),
    [
        (BEFORE, AFTER, BEFORE.replace("line 15\n", "line x\n")),
        (BEFORE, AFTER, BEFORE.replace("line 15\n", "")),
        (BEFORE, BEFORE.replace("line 9\n", "line 9\nnew\n"), BEFORE.replace("line 9\n", "x\n")),
        ("a\n" * 9, "a\n" * 10, "a\n" * 8),
        ("", "new\n", "other\n"),
    ],
    ids=["changed", "removed", "put beside a change", "not certain", "no longer empty"],
)
def test_a_hunk_whose_place_is_not_sure_is_refused(before: str, after: str, now: str) -> None:
    with pytest.raises(AnchorError):
        carry_over(before, after, now)

"""Which lines a run has seen, also when they stand elsewhere by now."""

from hypothesis import given
from hypothesis import strategies as st

from composer_lsp.agent.edits.hunks import find_hunks
from composer_lsp.agent.edits.lines import split_lines
from composer_lsp.agent.reads import ReadLog

LINES = st.lists(st.sampled_from("abcdefgh"), max_size=12)


@given(LINES, LINES, st.sets(st.integers(1, 12)))
def test_what_was_seen_and_stands_there_still_is_seen(
    old: list[str], new: list[str], seen: set[int]
) -> None:
    before, after = ("".join(f"{each}\n" for each in lines) for lines in (old, new))
    log = ReadLog()
    for number in seen & set(range(1, len(old) + 1)):
        log.add("a", number, number)
    hunks = find_hunks(before, after)
    log.carry("a", hunks)
    # By the hunks' own meaning: each line of the old text is kept or replaced.
    expected: list[int] = []
    offset = 0
    for index in range(len(old)):
        offset += sum(hunk.offset for hunk in hunks if hunk.end == index and hunk.start < hunk.end)
        offset += sum(hunk.offset for hunk in hunks if hunk.start == hunk.end == index)
        if index + 1 in seen and not any(hunk.start <= index < hunk.end for hunk in hunks):
            expected.append(index + 1 + offset)
    found = [number for first, last in log.ranges("a") for number in range(first, last + 1)]
    assert found == expected
    lines = split_lines(after)
    assert all(lines[number - 1].strip() in old for number in found)


def test_of_a_file_that_was_not_read_nothing_is_seen() -> None:
    log = ReadLog()
    log.carry("a", find_hunks("x\n", "y\n"))
    assert log.paths == []

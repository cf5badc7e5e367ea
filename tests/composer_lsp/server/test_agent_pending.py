"""Where pending hunks are in a document that is being typed in."""

from collections.abc import Sequence
from typing import Any

import pytest

from composer_lsp.agent.edits import anchor, change_set, hunks
from composer_lsp.agent.edits.change_set import FileChange
from composer_lsp.agent.edits.hunks import Hunk
from composer_lsp.agent.edits.text_file import TextFile
from composer_lsp.server.agent import pending
from composer_lsp.server.agent.pending import pending_file

LINES = [f"line {n}\n" for n in range(100)]
BEFORE = "".join(LINES)
CHANGE = FileChange(
    path="a.py",
    before=TextFile(text=BEFORE),
    after="".join(f"new {n}\n" if n % 4 == 0 else LINES[n] for n in range(100)),
)
EVERY_FOURTH = [(start, start + 1) for start in range(0, 100, 4)]


@pytest.fixture
def compared(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The texts that were compared line by line."""
    pending._hunks.cache_clear()  # pyright: ignore[reportPrivateUsage]
    texts: list[str] = []
    find = hunks.find_hunks

    def counted(old: str, new: str) -> Sequence[Hunk]:
        texts.append(new)
        return find(old, new)

    modules: list[Any] = [anchor, change_set, hunks, pending]
    for module in modules:
        monkeypatch.setattr(module, "find_hunks", counted)
    return texts


def shown(change: FileChange, now: str) -> list[tuple[int, int]]:
    return [(hunk.start_line, hunk.end_line) for hunk in pending_file("r", change, now).hunks]


@pytest.mark.parametrize(
    ("now", "expected"),
    [
        (BEFORE, EVERY_FOURTH),
        ("typed\n" + BEFORE, [(start + 1, end + 1) for start, end in EVERY_FOURTH[1:]]),
        (BEFORE + "typed\n", EVERY_FOURTH),
        (BEFORE.replace("line 9\n", ""), [(s - (s > 9), e - (e > 9)) for s, e in EVERY_FOURTH]),
        (BEFORE.replace("line 8\n", "typed\n"), [each for each in EVERY_FOURTH if each[0] != 8]),
        (
            BEFORE.replace("line 5\n", "a\nb\n").replace("line 7\n", "a\nb\n"),
            [*EVERY_FOURTH[:2], *((start + 2, end + 2) for start, end in EVERY_FOURTH[2:])],
        ),
        ("", []),
    ],
    ids=["same", "above", "below", "taken out", "collides", "around", "empty"],
)
def test_hunks_follow_what_is_typed(now: str, expected: list[tuple[int, int]]) -> None:
    assert shown(CHANGE, now) == expected


def test_lines_that_are_put_in_have_a_place_of_no_lines() -> None:
    change = FileChange(path="a", before=TextFile(text="a\nb\nc\n"), after="a\nnew\nb\nc\n")
    assert shown(change, "a\nb\nc\nd\n") == [(1, 1)]
    assert shown(change, "x\nb\nc\n") == []


def test_a_file_that_is_created_or_deleted_has_no_place_in_the_document() -> None:
    created = FileChange(path="a", before=None, after="a\n")
    deleted = FileChange(path="a", before=TextFile(text="a\n"), after=None)
    assert shown(created, "") == shown(deleted, "a\n") == []
    assert pending_file("r", deleted, "a\n").num_hunks == 1


def test_a_document_that_is_not_typed_in_is_not_compared(compared: list[str]) -> None:
    assert shown(CHANGE, BEFORE) == EVERY_FOURTH
    assert shown(CHANGE, BEFORE) == EVERY_FOURTH
    assert compared == [CHANGE.after]


def test_a_document_is_compared_once_for_each_of_its_versions(compared: list[str]) -> None:
    versions = [BEFORE + "typed\n"[:length] for length in range(1, 7)]
    for now in versions:
        assert len(shown(CHANGE, now)) == len(EVERY_FOURTH)
    assert compared == [CHANGE.after, *versions]

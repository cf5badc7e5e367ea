import pytest

from composer_lsp.agent.edits.change_set import ChangeSet, EditError, FileChange, Snapshot
from composer_lsp.agent.edits.text_file import TextFile

OLD = "".join(f"line {n}\n" for n in range(1, 21))
NEW = OLD.replace("line 2\n", "line two\n").replace("line 19\n", "")


def at(text: str | None) -> Snapshot:
    return Snapshot(file=None if text is None else TextFile(text=text))


def only(changes: ChangeSet) -> FileChange:
    (change,) = changes.changes()
    return change


def test_what_is_as_it_was_is_no_change() -> None:
    changes = ChangeSet()
    changes.write("a", at(OLD), NEW)
    assert only(changes).after == NEW
    changes.write("a", at(OLD), OLD)
    assert not changes


def test_the_first_snapshot_counts() -> None:
    changes = ChangeSet()
    changes.write("a", at("1"), "2")
    changes.write("a", at("2"), "3")
    assert only(changes).before_text == "1"


@pytest.mark.parametrize(
    ("rejected", "left"),
    [
        ({0}, OLD.replace("line 19\n", "")),
        ({1}, OLD.replace("line 2\n", "line two\n")),
        ({0, 1}, None),
        (None, None),
    ],
)
def test_hunks_are_rejected(rejected: set[int] | None, left: str | None) -> None:
    changes = ChangeSet()
    changes.write("a", at(OLD), NEW)
    changes.reject("a", None if rejected is None else frozenset(rejected))
    assert [change.after for change in changes.changes()] == ([] if left is None else [left])


def test_some_hunks_are_taken_alone() -> None:
    changes = ChangeSet()
    changes.write("a", at(OLD), NEW)
    changes.write("b", at(None), "x")
    assert only(changes.only("a", frozenset({1}))).after == OLD.replace("line 19\n", "")


def test_a_move_is_one_change() -> None:
    changes = ChangeSet()
    changes.move("a", at(OLD), "b", at(None))
    changes.write("b", at(None), NEW)
    change = only(changes)
    assert (change.path, change.moved_from, change.before_text, change.after) == (
        "b",
        "a",
        OLD,
        NEW,
    )
    assert changes.text("a") is None


def test_moved_twice_is_moved_once_and_back_is_nothing() -> None:
    changes = ChangeSet()
    changes.move("a", at(OLD), "b", at(None))
    changes.move("b", at(None), "c", at(None))
    assert (only(changes).path, only(changes).moved_from) == ("c", "a")
    changes.move("c", at(None), "a", at(OLD))
    assert not changes


def test_a_rejected_move_is_as_it_was() -> None:
    changes = ChangeSet()
    changes.move("a", at(OLD), "b", at(None))
    changes.reject("b")
    assert not changes


@pytest.mark.parametrize(
    ("path", "source", "target", "error"),
    [("a", OLD, "x", "b exists already"), ("a", None, None, "a is not there")],
)
def test_what_cannot_be_moved_is_refused(
    path: str, source: str | None, target: str | None, error: str
) -> None:
    with pytest.raises(EditError, match=error):
        ChangeSet().move(path, at(source), "b", at(target))


def test_a_created_and_deleted_file_is_nothing() -> None:
    changes = ChangeSet()
    changes.write("a", at(None), "x")
    changes.write("a", at(None), None)
    assert not changes


def test_a_file_whose_encoding_lacks_a_character_is_not_changed() -> None:
    changes = ChangeSet()
    snapshot = Snapshot(file=TextFile(text="a", encoding="latin-1"))
    with pytest.raises(EditError, match="a cannot hold this text"):
        changes.write("a", snapshot, "→")
    assert not changes

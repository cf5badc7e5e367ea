"""Files that end the process which parses them."""

from pathlib import Path

import pytest

from composer_index.indexing.journal import ParsingJournal


def die_while_parsing(folder: Path, path: str) -> None:
    """What a process leaves behind that was ended in the middle of it."""
    journal = ParsingJournal(folder)
    journal.begin("other.py")
    journal.begin(path)
    journal.close()


@pytest.mark.parametrize("path", ["a.ts", "ä\n🦀.ts", "no unicode \udcff.ts"])
def test_a_file_is_deadly_after_two_deaths(tmp_path: Path, path: str):
    die_while_parsing(tmp_path, path)
    assert not ParsingJournal(tmp_path).is_deadly(path)
    die_while_parsing(tmp_path, path)
    journal = ParsingJournal(tmp_path)
    assert journal.is_deadly(path)
    assert not journal.is_deadly("other.py")
    journal.begin("other.py")
    journal.end()
    assert ParsingJournal(tmp_path).is_deadly(path)


def test_one_death_that_is_survived_is_forgotten(tmp_path: Path):
    die_while_parsing(tmp_path, "a.ts")
    journal = ParsingJournal(tmp_path)
    journal.begin("a.ts")
    journal.end()
    die_while_parsing(tmp_path, "a.ts")
    assert not ParsingJournal(tmp_path).is_deadly("a.ts")


def test_damage_is_no_death(tmp_path: Path):
    (tmp_path / "parsing").write_bytes(b"\x00\xff\nwhat")
    assert not ParsingJournal(tmp_path).is_deadly("what")

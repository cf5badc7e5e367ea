"""What the indices hold, and in how many pieces the data lies, after a build."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from composer_index.store import upkeep
from composer_index.store.database import Database
from composer_index.store.records import Filter
from composer_index.store.store import Store
from tests.composer_index.store.building import indexed, one_hot


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    opened = Store.open(tmp_path / "store")
    yield opened
    opened.close()


def build(store: Store, first: int, number: int) -> None:
    """Stores `number` files, each by commits of its own, and takes them into the indices."""
    for each in range(first, first + number):
        store.upsert_files(
            [indexed(f"f{each}.py", f"word{each}", vectors={"topics": one_hot(each % 8)})]
        )
    store.refresh_indices()


def tables(tmp_path: Path) -> Database:
    """As another process sees the store."""
    return Database(next((tmp_path / "store").glob("data-*")), create=False)


@pytest.mark.parametrize("more", [0, 3, 40], ids=["first build", "few more", "many more"])
def test_no_row_is_left_out_of_any_index(store: Store, tmp_path: Path, more: int):
    build(store, 0, 30)
    build(store, 30, more)
    unindexed = {
        (table.name, index.name): table.index_stats(index.name).num_unindexed_rows
        for table in tables(tmp_path).tables()
        for index in table.list_indices()
    }
    assert set(unindexed.values()) == {0}
    assert {name for table, name in unindexed if table == "chunks"} == {
        "path_idx",
        "words_idx",
        "identifiers_idx",
    }


def test_a_build_leaves_one_piece_a_table(store: Store, tmp_path: Path):
    build(store, 0, 30)
    pieces = [
        table.stats()["fragment_stats"]["num_fragments"] for table in tables(tmp_path).tables()
    ]
    assert pieces == [1, 1, 1, 1]


def test_words_are_found_while_their_index_is_made_anew(
    store: Store, monkeypatch: pytest.MonkeyPatch
):
    make, found = upkeep.make_indices, list[str]()

    def look_then_make(database: Database) -> None:
        found.extend(hit.path for hit in store.match_words(["7"], 5, Filter()))
        make(database)

    monkeypatch.setattr(upkeep, "make_indices", look_then_make)
    build(store, 0, 30)
    assert found == ["f7.py"]

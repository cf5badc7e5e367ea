"""A damaged store, or one of another version: replaced, with a word to the user, and no exception."""

import json
import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from composer_index.store import schema
from composer_index.store.errors import StoreBrokenError
from composer_index.store.records import Filter, StoreEvent
from composer_index.store.store import Store
from tests.composer_index.store.building import indexed, one_hot, texts_in


def filled(location: Path) -> None:
    store = Store.open(location)
    for number in range(6):
        store.upsert_files(
            [indexed(f"f{number}.py", f"word {number}", vectors={"small": one_hot(number)})]
        )
    store.refresh_indices()
    store.upsert_files([indexed("f1.py", "word again", vectors={"small": one_hot(1)})])
    store.close()


def use(store: Store, number: int) -> None:
    """Everything that a worker does; a rebuilt store says so by StoreBrokenError, once."""
    store.match_words(["word"], 5, Filter())
    store.nearest("small", one_hot(0)[0], 5, Filter())
    store.counts()
    try:
        list(store.known_files())
        store.upsert_files([indexed("f2.py", f"word new {number}")])
        store.compact(purge=True, grace_s=0)
    except StoreBrokenError:
        store.upsert_files([indexed("f2.py", f"word new {number}")])
    assert texts_in(store)["f2.py"] == [f"word new {number}"]
    assert "f2.py" in {hit.path for hit in store.match_words(["word"], 9, Filter())}


def tables_of(location: Path) -> Path:
    return next(location.glob("data-*"))


def write_version(location: Path, version: int) -> None:
    current = json.loads((location / schema.CURRENT).read_text())
    (location / schema.CURRENT).write_text(json.dumps(current | {"version": version}))


DAMAGES: dict[str, Callable[[Path], object]] = {
    "an older version": lambda at: write_version(at, schema.VERSION - 1),
    "a newer version": lambda at: write_version(at, schema.VERSION + 1),
    "current.json is empty": lambda at: (at / schema.CURRENT).write_text(""),
    "current.json is no object": lambda at: (at / schema.CURRENT).write_text("[1]"),
    "current.json lacks a field": lambda at: (at / schema.CURRENT).write_text('{"version": 1}'),
    "no data": lambda at: shutil.rmtree(tables_of(at)),
    "no table of files": lambda at: shutil.rmtree(tables_of(at) / "files.lance"),
    "no versions": lambda at: shutil.rmtree(tables_of(at) / "chunks.lance/_versions"),
    "no rows": lambda at: shutil.rmtree(tables_of(at) / "files.lance/data"),
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=list(DAMAGES))
def test_a_damaged_store_is_rebuilt_and_told(tmp_path: Path, damage: Callable[[Path], object]):
    filled(tmp_path)
    damage(tmp_path)
    events: list[StoreEvent] = []
    store = Store.open(tmp_path, events.append)
    assert store.is_writer
    assert texts_in(store) == {}
    assert [event.kind for event in events] == ["rebuilt"]
    use(store, 1)
    store.close()
    assert len(list(tmp_path.glob("data-*"))) == 1, "the damaged one is gone"


def test_a_lost_index_is_rebuilt_by_the_first_question_or_change(tmp_path: Path):
    filled(tmp_path)
    shutil.rmtree(tables_of(tmp_path) / "chunks.lance/_indices")
    events: list[StoreEvent] = []
    store = Store.open(tmp_path, events.append)
    assert store.match_words(["word"], 5, Filter()) == []
    assert [event.kind for event in events] == ["rebuilt"]
    use(store, 1)
    store.close()


def test_a_reader_answers_nothing_from_another_version_and_leaves_it_alone(tmp_path: Path):
    filled(tmp_path)
    writer = Store.open(tmp_path)
    write_version(tmp_path, schema.VERSION + 1)
    reader = Store.open(tmp_path)
    assert not reader.is_writer
    assert reader.match_words(["word"], 5, Filter()) == []
    assert json.loads((tmp_path / schema.CURRENT).read_text())["version"] == schema.VERSION + 1
    writer.close()


@pytest.mark.parametrize("seed", range(12))
def test_truncated_deleted_and_garbled_files(tmp_path: Path, seed: int):
    filled(tmp_path)
    chance = random.Random(seed)
    files = sorted(path for path in tables_of(tmp_path).rglob("*") if path.is_file())
    for path in chance.sample(files, chance.randint(1, 4)):
        data = path.read_bytes()
        damage = chance.choice(["truncate", "delete", "garble", "empty"])
        if damage == "delete":
            path.unlink()
        elif damage == "truncate":
            path.write_bytes(data[: chance.randrange(len(data) or 1)])
        elif damage == "garble":
            start = chance.randrange(len(data) or 1)
            path.write_bytes(data[:start] + chance.randbytes(64) + data[start + 64 :])
        else:
            path.write_bytes(b"")
    store = Store.open(tmp_path, lambda event: None)
    use(store, 1)
    store.close()
    again = Store.open(tmp_path)
    use(again, 2)
    again.close()


def test_the_cache_folder_is_removed_while_the_store_is_open(tmp_path: Path):
    location = tmp_path / "store"
    store = Store.open(location)
    store.upsert_files([indexed("a.py", "word")])
    shutil.rmtree(location)
    assert store.match_words(["word"], 5, Filter()) == []
    use(store, 1)
    store.close()


def test_a_question_that_means_nothing_breaks_nothing(tmp_path: Path):
    filled(tmp_path)
    events: list[StoreEvent] = []
    store = Store.open(tmp_path, events.append)
    held = texts_in(store)
    assert store.definitions_where("nonsense ((", 5) == []
    assert store.definitions_where("regexp_like(path, '[z-a]')", 5) == []
    assert store.definitions_named("half a pair \ud800") == []
    assert store.mentions("half a pair \ud800", 5) == []
    assert store.match_words(["half a pair \ud800"], 5, Filter()) == []
    assert store.match_words(["word"], 5, Filter(language="\ud800")) == []
    assert store.chunks_of(["half a pair \ud800"]) == []
    assert texts_in(store) == held
    assert events == []
    store.close()

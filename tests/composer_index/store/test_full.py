"""No room on the disk: told once, search goes on, and so does writing once there is room."""

import subprocess
from collections.abc import Generator
from pathlib import Path

import pytest

from composer_index.store import schema
from composer_index.store.errors import StoreFullError
from composer_index.store.records import Filter, StoreEvent
from composer_index.store.store import Store
from tests.composer_index.store.building import indexed, texts_in


@pytest.fixture
def small_disk(tmp_path: Path) -> Generator[Path]:
    """A file system of 4 MB, where the user may mount one."""
    folder = tmp_path / "small"
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(folder)], capture_output=True
    )
    if mounted.returncode:
        pytest.skip("needs the right to mount")
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


def test_a_full_disk(small_disk: Path):
    events: list[StoreEvent] = []
    store = Store.open(small_disk / "store", events.append)
    store.upsert_files([indexed("a.py", "word first")])
    filler = small_disk / "filler"
    with filler.open("wb", buffering=0) as file, pytest.raises(OSError, match="No space"):
        while True:
            file.write(bytes(4096))
    for _ in range(2):
        with pytest.raises(StoreFullError):
            store.upsert_files([indexed("b.py", "word second")])
    assert [event.kind for event in events] == ["full"]
    assert store.match_words(["word"], 5, Filter())[0].path == "a.py"
    assert texts_in(store)["a.py"] == ["word first"]
    filler.unlink()
    store.upsert_files([indexed("b.py", "word second")])
    assert [event.kind for event in events] == ["full", "room"]
    assert texts_in(store) == {"a.py": ["word first"], "b.py": ["word second"]}
    store.close()
    again = Store.open(small_disk / "store", events.append)
    assert texts_in(again) == {"a.py": ["word first"], "b.py": ["word second"]}
    assert [event.kind for event in events] == ["full", "room"]
    again.close()


@pytest.mark.parametrize("table", ["chunks", "definitions", "files"])
def test_a_commit_that_finds_no_room_can_be_repeated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, table: str
):
    store = Store.open(tmp_path / "store")
    store.upsert_files([indexed("a.py", "word first")])
    full = RuntimeError("lance error: IO: No space left on device (os error 28)")

    def refuse(*_: object) -> None:
        raise full

    database = store._database  # pyright: ignore[reportPrivateUsage]
    with monkeypatch.context() as patch:
        patch.setattr(getattr(database, table), "add", refuse)
        with pytest.raises(StoreFullError):
            store.upsert_files([indexed("a.py", "word second", number=2)])
    assert len(texts_in(store)["a.py"]) == 1
    store.upsert_files([indexed("a.py", "word second", number=2)])
    assert texts_in(store) == {"a.py": ["word second"]}
    assert len(store.definitions_named("word")) == 1
    store.close()


def test_no_room_even_to_begin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def refuse(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(schema, "write_current", refuse)
        with pytest.raises(StoreFullError):
            Store.open(tmp_path / "store")
    store = Store.open(tmp_path / "store")
    store.upsert_files([indexed("a.py", "word")])
    assert texts_in(store) == {"a.py": ["word"]}
    store.close()

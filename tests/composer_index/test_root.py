"""One root's index, from the files to the answers."""

import shutil
import subprocess
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from composer_index import root
from composer_index.files.changes import Batch
from composer_index.root import RootIndex
from composer_index.store.errors import NotWriterError
from composer_index.store.records import IndexedFile
from composer_index.store.store import Store

MakeIndex = Callable[[Path], RootIndex]


@pytest.fixture
def index(make_index: MakeIndex, workspace: Path) -> Iterator[RootIndex]:
    index = make_index(workspace)
    index.open()
    index.refresh()
    yield index
    index.close()


def paths(index: RootIndex, query: str) -> list[str]:
    return [result.path for result in index.search(query)]


def test_a_question_finds_the_method(index: RootIndex):
    best = index.search("what do the articles cost together")[0]
    assert best.path == "shop.py"
    assert "def total_price(self, discount):" in best.text
    assert best.why


def test_definitions_references_and_symbols(index: RootIndex):
    (found,) = index.definitions("total_price")
    assert (found.path, found.start_line, found.symbol) == ("shop.py", 5, "Basket.total_price")
    assert [(each.path, each.line) for each in index.references("city")] == [
        ("weather.py", 1),
        ("weather.py", 3),
    ]
    assert [each.name for each in index.symbols("forecast")] == ["fetch_forecast"]


def test_text_answers_before_the_store_is_open(make_index: MakeIndex, workspace: Path):
    index = make_index(workspace)
    assert index.state == "cold"
    assert index.search("weather forecast")[0].path == "weather.py"
    assert not index.location.exists()


def test_changed_new_and_deleted_files(index: RootIndex, workspace: Path):
    (workspace / "shop.py").write_text("def sell_umbrella():\n    pass\n")
    (workspace / "new.py").write_text("def rent_bicycle():\n    pass\n")
    (workspace / "weather.py").unlink()
    index.refresh()
    assert index.definitions("total_price") == []
    assert index.definitions("fetch_forecast") == []
    assert paths(index, "umbrella")[0] == "shop.py"
    assert paths(index, "bicycle")[0] == "new.py"


def test_hints_are_enough_for_what_they_name(index: RootIndex, workspace: Path):
    (workspace / "folder").mkdir()
    (workspace / "folder" / "new.py").write_text("def rent_bicycle():\n    pass\n")
    (workspace / "weather.py").unlink()
    index.note(Batch(paths=frozenset({"folder/new.py", "weather.py", "never/was.py"})))
    assert not index.step()
    assert paths(index, "bicycle")[0] == "folder/new.py"
    assert index.definitions("fetch_forecast") == []
    (workspace / "folder" / "new.py").unlink()
    (workspace / "folder").rmdir()
    index.note(Batch(folders=frozenset({"folder"})))
    assert index.definitions("rent_bicycle") == []


def test_a_file_that_is_told_of_twice_is_stored_once(
    index: RootIndex, workspace: Path, monkeypatch: pytest.MonkeyPatch
):
    stored: list[str] = []
    upsert = Store.upsert_files

    def noted_upsert(self: Store, files: Sequence[IndexedFile]) -> None:
        stored.extend(file.parsed.path for file in files)
        upsert(self, files)

    def tell() -> None:
        index.note(Batch(paths=frozenset({"shop.py"})))
        index.step()

    monkeypatch.setattr(Store, "upsert_files", noted_upsert)
    for text in ("def sell_umbrella(): ...\n", "def sell_boots(): ...\n") * 2:
        (workspace / "shop.py").write_text(text)
        tell()
        tell()
    assert stored == ["shop.py"] * 4
    assert len(index.definitions("sell_boots")) == 1
    (workspace / "shop.py").unlink()
    tell()
    assert index.definitions("sell_boots") == []
    (workspace / "shop.py").write_text("def sell_boots(): ...\n")
    tell()
    assert len(index.definitions("sell_boots")) == 1
    (workspace / ".gitignore").write_text("shop.py\n")
    tell()
    (workspace / ".gitignore").unlink()
    tell()
    assert len(index.definitions("sell_boots")) == 1


@pytest.mark.parametrize(
    ("name", "ignore_file"),
    [("shop.py", ".gitignore"), ("shop.py", ".composerignore")],
    ids=["gitignore", "composerignore"],
)
def test_what_becomes_ignored_leaves_the_store_and_the_disk(
    index: RootIndex, workspace: Path, name: str, ignore_file: str
):
    (workspace / ignore_file).write_text(f"{name}\n")
    index.refresh()
    assert name not in paths(index, "articles basket discount")
    while index.compact(grace_s=0):
        pass
    data = b"".join(path.read_bytes() for path in index.location.rglob("*") if path.is_file())
    assert b"total_price" not in data


def test_what_composerignore_hides_is_not_answered_from_that_moment_on(
    index: RootIndex, workspace: Path
):
    (workspace / ".composerignore").write_text("weather.py\n")
    assert "weather.py" not in paths(index, "weather forecast")
    assert index.definitions("fetch_forecast") == index.symbols("forecast") == []
    assert index.references("city") == []
    (workspace / ".composerignore").unlink()
    assert paths(index, "weather forecast")[0] == "weather.py"


def test_secrets_stay_out_unless_named(make_index: MakeIndex, workspace: Path, tmp_path: Path):
    (workspace / ".env").write_text("BICYCLE_TOKEN=abc\n")
    index = make_index(workspace)
    index.open()
    index.refresh()
    assert ".env" not in paths(index, "bicycle token")
    index.close()
    index = RootIndex(workspace, cache_dir=tmp_path / "cache", include_secret=(".env",))
    index.open()
    index.refresh()
    assert ".env" in paths(index, "bicycle token")
    index.close()


def test_unsaved_text_hides_the_disks(index: RootIndex):
    index.set_buffer("shop.py", "def sell_umbrella():\n    pass\n")
    assert index.definitions("total_price") == []
    assert paths(index, "umbrella")[0] == "shop.py"
    index.set_buffer("shop.py", None)
    assert len(index.definitions("total_price")) == 1


def test_unsaved_text_of_a_hidden_file_is_not_read(index: RootIndex, workspace: Path):
    (workspace / ".gitignore").write_text("build/\n")
    for path in (".env", "build/out.py", "../elsewhere.py"):
        index.set_buffer(path, "def sell_umbrella():\n    pass\n")
    assert index.definitions("sell_umbrella") == []


def test_one_writes_and_the_others_search(index: RootIndex, make_index: MakeIndex, workspace: Path):
    other = make_index(workspace)
    other.open()
    with pytest.raises(NotWriterError):
        other.refresh()
    assert len(other.definitions("total_price")) == 1
    (workspace / "new.py").write_text("def rent_bicycle():\n    pass\n")
    index.refresh()
    assert len(other.definitions("rent_bicycle")) == 1
    index.close()
    other.refresh()
    assert other.status().is_writer
    other.close()


def test_a_store_of_another_version_is_rebuilt(
    index: RootIndex, make_index: MakeIndex, workspace: Path
):
    index.close()
    current = index.location / "current.json"
    current.write_text(current.read_text().replace('"version": ', '"version": 9'))
    again = make_index(workspace)
    again.open()
    assert again.search("weather forecast")  # from text
    again.refresh()
    assert len(again.definitions("fetch_forecast")) == 1
    again.close()


def test_branches(index: RootIndex, workspace: Path):
    def git(*arguments: str) -> None:
        subprocess.run(
            ["git", "-c", "user.name=a", "-c", "user.email=a@b", *arguments],
            cwd=workspace,
            check=True,
            capture_output=True,
        )

    git("add", ".")
    git("commit", "-m", "first")
    git("checkout", "-b", "other")
    (workspace / "shop.py").write_text("def sell_umbrella():\n    pass\n")
    git("commit", "-am", "second")
    index.refresh()
    assert index.definitions("total_price") == []
    git("checkout", "-")
    index.refresh()
    assert len(index.definitions("total_price")) == 1
    assert index.definitions("sell_umbrella") == []


def test_nothing_is_written_into_the_workspace(index: RootIndex, workspace: Path):
    index.search("anything")
    assert sorted(path.name for path in workspace.iterdir()) == [".git", "shop.py", "weather.py"]


def test_a_file_that_ended_two_processes_is_left_out(
    index: RootIndex, make_index: MakeIndex, workspace: Path
):
    index.close()
    (index.location / "parsing").write_text("2\ndeadly.py")
    (workspace / "deadly.py").write_text("def kill_the_worker():\n    pass\n")
    again = make_index(workspace)
    again.open()
    again.refresh()
    assert again.definitions("kill_the_worker") == []
    assert again.status().skipped == {"deadly": 1}
    again.close()


def test_what_is_left_out_is_counted_by_reason(
    index: RootIndex, make_index: MakeIndex, workspace: Path
):
    (workspace / "logo.png").write_bytes(b"\x89PNG\r\n\0\0")
    (workspace / ".env").write_text("TOKEN=1\n")
    (workspace / "keys").mkdir()
    (workspace / "keys" / "id_rsa").write_text("TOKEN=1\n")
    (workspace / ".composerignore").write_text("shop.py\n")
    index.refresh()
    expected = {"binary": 1, "secret": 2, "composerignore": 1}
    assert index.status().skipped == expected
    reader = make_index(workspace)
    reader.open()
    assert reader.status().skipped == expected
    reader.close()
    index.clear()
    assert index.status().skipped == {}


@pytest.mark.parametrize("place", [".composerignore", ".gitignore"])
def test_unsaved_text_of_a_file_that_becomes_hidden(index: RootIndex, workspace: Path, place: str):
    index.set_buffer("new.py", "def sell_umbrella():\n    return basket\n")
    index.set_buffer("shop.py", "def sell_boots():\n    pass\n")
    (workspace / place).write_text("new.py\n")
    index.review_buffers()
    assert "new.py" not in paths(index, "sell umbrella")
    assert index.symbols("umbrella") == []
    assert index.references("basket") == []
    assert "new.py" not in {each.path for each in index.related("weather.py", 1)}
    assert len(index.definitions("sell_boots")) == 1
    index.set_buffer("new.py", "def sell_umbrella_again():\n    pass\n")
    assert index.symbols("umbrella") == []
    (workspace / place).unlink()
    index.review_buffers()
    assert len(index.definitions("sell_umbrella_again")) == 1
    index.set_buffer("new.py", None)
    index.review_buffers()
    assert index.symbols("umbrella") == []


def test_until_the_first_files_are_stored_their_text_is_searched(
    make_index: MakeIndex, workspace: Path
):
    index = make_index(workspace)
    index.open()
    for _ in range(2):
        assert index.state == "building"
        assert paths(index, "weather forecast")[0] == "weather.py"
        index.plan()
    index.step()
    assert index.state == "ready"
    index.close()


def test_what_waits_in_an_index_that_is_there_is_searched_by_text(
    index: RootIndex, workspace: Path
):
    names = [f"new_{number}.py" for number in range(root.FEW_CHANGED + 1)]
    for name in names:
        (workspace / name).write_text("def rent_bicycle():\n    pass\n")
    index.note(Batch(paths=frozenset(names[:1])))
    assert index.state == "ready"
    index.note(Batch(paths=frozenset(names)))
    assert index.state == "building"
    assert paths(index, "rent bicycle")[0] in names
    assert "shop.py" in paths(index, "total price of articles")
    while index.step():
        pass
    assert index.state == "ready"


def damage_data(index: RootIndex) -> None:
    for file in index.location.rglob("*.lance"):
        if file.is_file():
            file.unlink()


def remove_store(index: RootIndex) -> None:
    shutil.rmtree(index.location)


def remove_cache(index: RootIndex) -> None:
    shutil.rmtree(index.location.parent)


@pytest.mark.parametrize("damage", [damage_data, remove_store, remove_cache])
def test_a_store_that_is_damaged_is_planned_anew(
    index: RootIndex, make_index: MakeIndex, workspace: Path, damage: Callable[[RootIndex], None]
):
    emptied = 0

    def note_emptied() -> None:
        nonlocal emptied
        emptied += 1

    index.on_emptied = note_emptied
    damage(index)
    assert paths(index, "weather forecast")[0] == "weather.py"
    assert (emptied, index.state) == (1, "building")
    assert paths(index, "weather forecast")[0] == "weather.py"
    other = make_index(workspace)
    other.open()
    assert not other.status().is_writer
    index.refresh()
    assert (emptied, index.state, other.state) == (1, "ready", "ready")
    assert len(other.definitions("fetch_forecast")) == 1
    other.close()


def test_while_another_builds_text_is_searched_too(
    index: RootIndex, make_index: MakeIndex, workspace: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(root, "MANY_WAITING", 1)
    for number in range(2):
        (workspace / f"new_{number}.py").write_text("def rent_bicycle():\n    pass\n")
    index.plan()
    reader = make_index(workspace)
    reader.open()
    assert reader.state == "building"
    assert paths(reader, "rent bicycle")
    index.refresh()
    assert reader.state == "ready"
    reader.close()

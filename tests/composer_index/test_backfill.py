"""A server's model beside the table: filling its vectors in, the switch, and what answers meanwhile."""

import subprocess
import threading
from collections.abc import Callable, Iterator
from io import BufferedIOBase
from pathlib import Path

import pytest

from composer_index.embedding.served import ServedEmbedder
from composer_index.embedding.server import ModelServer, ModelServerError, ServedModel
from composer_index.files.changes import Batch
from composer_index.indexing.backfill import GROUP_FILES
from composer_index.indexing.visits import FOUND, MAX_NUM_PATHS, OPENED, Visits
from composer_index.root import RootIndex
from tests.support.model_server import FakeModels, model_server

MakeIndex = Callable[[Path], RootIndex]


@pytest.fixture
def models() -> Iterator[FakeModels]:
    with model_server() as models:
        yield models


def served(models: FakeModels, model: str = "tiny") -> ServedEmbedder:
    return ServedEmbedder(ModelServer(ServedModel(model=model, origin="fake", url=models.url)))


@pytest.fixture
def index(make_index: MakeIndex, workspace: Path) -> Iterator[RootIndex]:
    index = make_index(workspace)
    index.open()
    index.refresh()
    yield index
    index.close()


def embedded_files(models: FakeModels) -> list[str]:
    """The files `f1.py` and so on whose text was embedded, in order."""
    words = (text.split("# file ")[-1].split("\n")[0] for text in models.texts)
    return [word for word in words if word.endswith(".py")]


def write_many(workspace: Path, number: int) -> None:
    for n in range(number):
        name = f"f{n:02}.py"
        (workspace / name).write_text(f"def do_{n}():\n    # file {name}\n    return {n}\n")


def test_the_model_answers_once_every_file_has_its_vectors(index: RootIndex, models: FakeModels):
    table = index.status().embedder
    index.use_models(served(models), None)
    assert index.status().embedder == table
    assert index.search("total price")[0].path == "shop.py"
    assert models.requests == []  # it has no vectors, so it is not asked
    left: list[int] = []
    index.fill(left.append)
    status = index.status()
    assert status.embedder == "tiny by fake, recipe 1: 64"
    assert (status.model, status.num_unembedded, status.model_problem) == ("tiny", 0, "")
    assert left[-1] == 0
    asked = len(models.requests)
    found = index.search("cost")
    assert len(models.requests) == asked + 1
    assert found[0].path == "shop.py"
    assert "meaning" in found[0].why


def test_what_somebody_works_with_is_embedded_first(
    make_index: MakeIndex, workspace: Path, models: FakeModels
):
    write_many(workspace, GROUP_FILES * 3)
    index = make_index(workspace)
    index.open()
    index.refresh()
    index.set_buffer("f40.py", "def other():\n    pass\n")
    index.note(Batch(paths=frozenset({"f30.py"})))
    index.step()
    index.search("do_20 file f20.py", k=1)
    index.use_models(served(models), None)
    index.fill()
    assert embedded_files(models)[:3] == ["f40.py", "f30.py", "f20.py"]
    index.close()


def test_recently_committed_files_come_before_the_others(
    make_index: MakeIndex, workspace: Path, models: FakeModels
):
    write_many(workspace, GROUP_FILES * 2)
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b", "-C", str(workspace)]
    subprocess.run([*git, "add", "f21.py"], check=True)
    subprocess.run([*git, "commit", "-qm", "one"], check=True)
    index = make_index(workspace)
    index.open()
    index.refresh()
    index.use_models(served(models), None)
    index.fill()
    assert embedded_files(models)[0] == "f21.py"
    index.close()


def test_another_root_with_the_same_text_asks_the_server_for_nothing(
    index: RootIndex, make_index: MakeIndex, workspace: Path, models: FakeModels
):
    index.use_models(served(models), None)
    index.fill()
    other_workspace = workspace.with_name("worktree")
    subprocess.run(["cp", "-r", workspace, other_workspace], check=True)
    models.requests.clear()
    other = make_index(other_workspace)
    other.open()
    other.refresh()
    other.use_models(served(models), None)
    other.fill()
    assert models.texts == ["def main():"]  # which tells how many dimensions there are
    assert other.status().embedder == index.status().embedder
    other.close()


def test_a_fill_that_was_cut_off_goes_on_where_it_was(
    make_index: MakeIndex, workspace: Path, models: FakeModels
):
    write_many(workspace, GROUP_FILES * 2)
    index = make_index(workspace)
    index.open()
    index.refresh()
    index.use_models(served(models), None)
    models.fails = lambda body: (503, "ended") if len(models.texts) > 20 else None
    with pytest.raises(ModelServerError, match="ended"):
        index.fill()
    answered = {text for body in models.requests[:-1] for text in body["input"]}
    index.close()
    models.fails = lambda body: None
    models.requests.clear()
    again = make_index(workspace)
    again.open()
    again.use_models(served(models), None)
    again.fill()
    assert answered.intersection(models.texts) == {"def main():"}
    assert "tiny" in again.status().embedder
    again.close()


def test_a_file_that_changes_after_the_switch_is_found_at_once_and_embedded_later(
    index: RootIndex, workspace: Path, models: FakeModels
):
    index.use_models(served(models), None)
    index.fill()
    (workspace / "new.py").write_text("def rent_bicycle():\n    return 'a bicycle'\n")
    index.note(Batch(paths=frozenset({"new.py"})))
    index.step()
    assert index.status().num_unembedded == 1
    found = {result.path: result for result in index.search("rent a bicycle")}
    assert "meaning" in found["new.py"].why  # the table's
    models.requests.clear()
    index.fill()
    assert len(models.texts) == 1
    assert "rent_bicycle" in models.texts[0]
    assert index.status().num_unembedded == 0


def test_unsaved_text_is_ranked_by_the_table_among_the_models(index: RootIndex, models: FakeModels):
    index.use_models(served(models), None)
    index.fill()
    index.set_buffer("weather.py", "def rent_bicycle():\n    return 'a bicycle'\n")
    found = {result.path: result for result in index.search("rent a bicycle")}
    assert "meaning" in found["weather.py"].why
    assert "rent_bicycle" in found["weather.py"].text


def test_a_file_that_changed_while_it_was_embedded_gets_no_old_vectors(
    index: RootIndex, workspace: Path, models: FakeModels
):
    index.use_models(served(models), None)
    backfill = index.backfill
    assert backfill is not None
    group = backfill.next_group()
    assert group is not None
    while backfill.embed_some(group):
        pass
    (workspace / "shop.py").write_text("def sell_umbrella():\n    pass\n")
    (workspace / "weather.py").unlink()
    index.refresh()
    backfill.store_group(group)
    assert index.status().num_unembedded == 1
    index.fill()
    assert index.status().num_unembedded == 0
    assert index.search("sell umbrella")[0].path == "shop.py"
    assert b"fetch_forecast" not in models_table(index)


def models_table(index: RootIndex) -> bytes:
    """What the vectors' tables hold, current or not."""
    paths = index.location.rglob("vectors_tiny*/data/*")
    return b"".join(path.read_bytes() for path in paths)


def test_searches_find_all_the_time_while_embedders_are_switched(
    index: RootIndex, models: FakeModels
):
    index.use_models(served(models), None)
    index.fill()
    is_over = threading.Event()
    missed: list[str] = []
    num_searches = 0

    def search() -> None:
        nonlocal num_searches
        while not is_over.is_set():
            found = index.search("add up what all articles cost")
            if not found or found[0].path != "shop.py" or "meaning" not in found[0].why:
                missed.append(repr(found[:1]))
            num_searches += 1

    searching = threading.Thread(target=search)
    searching.start()
    try:
        for name in ("other", "tiny"):
            index.use_models(served(models, name), None)
            index.fill()
            assert index.status().embedder.startswith(name)
        index.use_models(None, None)
        index.use_table()
        assert index.status().embedder == index.table_name
    finally:
        is_over.set()
        searching.join()
    assert num_searches > 0
    assert missed == []


def test_the_table_answers_while_the_server_is_away_and_the_model_when_it_is_back(
    index: RootIndex, models: FakeModels
):
    index.use_models(embedder := served(models), None)
    index.fill()
    models.fails = lambda body: (503, "away")
    found = index.search("add up what all articles cost")
    assert found[0].path == "shop.py"
    assert "meaning" in found[0].why
    assert "503: away" in index.status().model_problem
    num_requests = len(models.requests)
    index.search("add up")  # it is left alone for a while
    assert len(models.requests) == num_requests
    models.fails = lambda body: None
    embedder.server._ready_at = 0.0  # pyright: ignore[reportPrivateUsage] - the while is over
    index.search("add up")
    assert len(models.requests) == num_requests + 1
    assert index.status().model_problem == ""


def test_the_table_answers_when_the_server_drips_its_vector(
    index: RootIndex, models: FakeModels, monkeypatch: pytest.MonkeyPatch
):
    index.use_models(served(models), None)
    index.fill()
    monkeypatch.setattr("composer_index.embedding.served.QUERY_LIMIT_S", 0.2)
    is_over = threading.Event()

    def drip(connection: BufferedIOBase) -> None:
        try:
            connection.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n")
            for _ in range(500):
                connection.write(b" ")
                connection.flush()
                is_over.wait(0.02)
        except ConnectionError:
            is_over.set()

    models.write = drip
    found = index.search("add up what all articles cost")
    assert found[0].path == "shop.py"
    assert "meaning" in found[0].why
    assert index.status().model_problem == "fake did not answer within 0.2 s"
    assert is_over.wait(60)


def test_a_model_of_other_dimensions_is_filled_in_anew(
    index: RootIndex, make_index: MakeIndex, workspace: Path, models: FakeModels
):
    index.use_models(served(models), None)
    index.fill()
    index.close()
    models.dim = 32
    again = make_index(workspace)
    again.open()
    again.use_models(served(models), None)
    assert again.search("add up what all articles cost")[0].path == "shop.py"  # by the table
    before = again.status().embedder
    again.fill()
    assert again.status().embedder != before
    assert again.search("add up what all articles cost")[0].path == "shop.py"
    again.close()


def test_a_second_window_asks_the_model_and_does_not_fill(
    index: RootIndex, make_index: MakeIndex, workspace: Path, models: FakeModels
):
    index.use_models(served(models), None)
    index.fill()
    reader = make_index(workspace)
    reader.open()
    reader.use_models(served(models), None)
    num_texts = len(models.texts)
    assert reader.search("add up costs")[0].path == "shop.py"
    assert len(models.texts) == num_texts + 1
    reader.close()


def test_visits_stay_few_and_forget_what_is_long_past():
    visits = Visits()
    visits.add(["old.py"], OPENED)
    for n in range(MAX_NUM_PATHS * 5):
        visits.add([f"{n}.py", "loved.py"], FOUND)
    assert visits.most()[0] == "loved.py"
    assert len(visits.most()) <= MAX_NUM_PATHS
    assert "old.py" not in visits.most()

"""What is told of an index without opening it."""

from collections.abc import Callable
from pathlib import Path

from composer_index.embedding.served import ServedEmbedder
from composer_index.embedding.server import ModelServer, ServedModel
from composer_index.glance import glance
from composer_index.root import RootIndex
from tests.support.model_server import model_server

MakeIndex = Callable[[Path], RootIndex]


def test_nothing_is_made_where_nothing_is(workspace: Path, tmp_path: Path):
    seen = glance(workspace, tmp_path / "cache")
    assert (seen.state, seen.has_writer, seen.num_files) == ("unbuilt", False, 0)
    assert not (tmp_path / "cache").exists()


def test_what_is_there_while_it_is_written_and_after(
    make_index: MakeIndex, workspace: Path, tmp_path: Path
):
    (workspace / ".env").write_text("TOKEN=1\n")
    index = make_index(workspace)
    index.open()
    index.refresh()
    seen = glance(workspace, tmp_path / "cache")
    assert (seen.state, seen.has_writer) == ("complete", True)
    assert (seen.num_files, seen.num_chunks, seen.skipped) == (2, 2, {"secret": 1})
    assert seen.disk_bytes > 0
    assert seen.changed_at is not None
    assert seen.location == str(index.location)
    index.close()
    assert not glance(workspace, tmp_path / "cache").has_writer
    assert index.location.exists()


def test_another_version_is_left_as_it_is(make_index: MakeIndex, workspace: Path, tmp_path: Path):
    index = make_index(workspace)
    index.open()
    index.refresh()
    index.close()
    current = index.location / "current.json"
    of_another_version = current.read_text().replace('"version": ', '"version": 9')
    for text in (of_another_version, "{"):
        current.write_text(text)
        assert glance(workspace, tmp_path / "cache").state == "outdated"
        assert current.read_text() == text


def test_a_build_that_was_broken_off(make_index: MakeIndex, workspace: Path, tmp_path: Path):
    index = make_index(workspace)
    index.open()
    assert glance(workspace, tmp_path / "cache").state == "unbuilt"
    index.plan()
    index.close()
    seen = glance(workspace, tmp_path / "cache")
    assert (seen.state, seen.num_left) == ("unfinished", 2)
    index.open()
    index.refresh()
    assert glance(workspace, tmp_path / "cache").state == "complete"
    index.clear()
    assert glance(workspace, tmp_path / "cache").state == "unbuilt"
    index.close()


def test_how_far_a_models_vectors_are(make_index: MakeIndex, workspace: Path, tmp_path: Path):
    index = make_index(workspace)
    index.open()
    index.refresh()
    with model_server() as models:
        at = ServedModel(model="tiny", origin="fake", url=models.url)
        index.use_models(ServedEmbedder(ModelServer(at)), None)
        assert index.backfill is not None
        index.backfill.plan()
        index.note_filling()
        seen = glance(workspace, tmp_path / "cache")
        assert (seen.model, seen.num_unembedded, seen.embedder) == ("tiny", 2, index.table_name)
        index.fill()
        index.plan()
    seen = glance(workspace, tmp_path / "cache")
    assert (seen.model, seen.num_unembedded) == ("tiny", 0)
    assert seen.embedder.startswith("tiny by fake")
    index.close()

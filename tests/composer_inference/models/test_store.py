"""Registered files, damage, and removal."""

import hashlib
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from composer_inference.models.catalog import ModelSpec
from composer_inference.models.errors import (
    InvalidModelFileError,
    ModelError,
    ModelFileError,
    ModelFolderError,
    ModelNameError,
    ModelNotInstalledError,
    UnknownModelError,
)
from composer_inference.models.store import ModelStore
from tests.support.gguf_files import header


@pytest.fixture
def store(tmp_path: Path, spec: ModelSpec) -> ModelStore:
    return ModelStore(tmp_path / "models", [spec])


@pytest.fixture
def gguf(tmp_path: Path) -> Path:
    path = tmp_path / "My Model.Q4.gguf"
    path.write_bytes(header({"general.architecture": "llama"}))
    return path


def test_a_registered_file_stays_where_it_is(store: ModelStore, gguf: Path) -> None:
    model = store.register(gguf)

    assert model.name == "my-model.q4"
    assert model.sha256 == hashlib.sha256(gguf.read_bytes()).hexdigest()
    assert store.path(model.name) == gguf
    assert store.installed() == [model]


def test_removing_a_registered_file_only_forgets_it(store: ModelStore, gguf: Path) -> None:
    store.register(gguf, "mine")
    store.remove("mine")

    assert gguf.exists()
    assert store.installed() == []


def test_registering_again_takes_the_file_as_it_is_now(store: ModelStore, gguf: Path) -> None:
    store.register(gguf, "mine")
    gguf.write_bytes(header({"general.architecture": "qwen2"}))
    store.register(gguf, "mine")

    assert store.verify("mine").size_bytes == gguf.stat().st_size


@pytest.mark.parametrize("content", [b"", b"GGUF", b"not a model", header({})])
def test_what_is_no_model_is_refused(store: ModelStore, tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "other.gguf"
    path.write_bytes(content)

    with pytest.raises(InvalidModelFileError, match=r"other\.gguf"):
        store.register(path)
    assert store.installed() == []


def test_a_missing_file_is_named(store: ModelStore, tmp_path: Path) -> None:
    with pytest.raises(InvalidModelFileError, match=r"there is no file .*/none\.gguf"):
        store.register(tmp_path / "none.gguf")


@pytest.mark.parametrize("name", ["auto", "Upper", "../up", ".hidden", "a/b", "-x"])
def test_a_name_that_cannot_be_used_is_refused(store: ModelStore, gguf: Path, name: str) -> None:
    with pytest.raises(ModelNameError):
        store.register(gguf, name)


def test_a_catalogue_name_belongs_to_its_bytes(store: ModelStore, gguf: Path) -> None:
    with pytest.raises(ModelNameError, match="choose another name with --name"):
        store.register(gguf, "tiny")


def test_a_vanished_file_names_the_way_out(store: ModelStore, gguf: Path) -> None:
    store.register(gguf, "mine")
    gguf.unlink()

    with pytest.raises(ModelFileError, match=r"vanished.*model pull --file PATH --name mine"):
        store.get("mine")


def test_verify_sees_a_flipped_bit(store: ModelStore, gguf: Path) -> None:
    store.register(gguf, "mine")
    content = bytearray(gguf.read_bytes())
    content[-1] ^= 1
    gguf.write_bytes(content)

    store.get("mine")  # The size alone tells nothing.
    with pytest.raises(ModelFileError, match="is damaged"):
        store.verify("mine")


def test_missing_and_unknown_models_differ(store: ModelStore) -> None:
    with pytest.raises(ModelNotInstalledError, match="composer-lsp model pull tiny"):
        store.get("tiny")
    with pytest.raises(UnknownModelError):
        store.get("huge")
    with pytest.raises(ModelNotInstalledError):
        store.remove("tiny")


def test_a_damaged_manifest_is_no_model(store: ModelStore, gguf: Path) -> None:
    store.register(gguf, "mine")
    (store.directory / "mine" / "manifest.json").write_text("{")

    assert store.installed() == []


@pytest.mark.parametrize(
    "act",
    [
        lambda store, gguf: store.installed(),
        lambda store, gguf: store.path("mine"),
        lambda store, gguf: store.register(gguf, "mine"),
        lambda store, gguf: store.remove("mine"),
    ],
    ids=["installed", "path", "register", "remove"],
)
@pytest.mark.parametrize("obstacle", ["file", "loop"])
def test_a_folder_that_cannot_be_used_is_named(
    store: ModelStore,
    gguf: Path,
    act: Callable[[ModelStore, Path], object],
    obstacle: str,
) -> None:
    if obstacle == "file":
        store.directory.touch()
    else:
        store.directory.symlink_to(store.directory)
    with pytest.raises(ModelFolderError, match=rf"{store.directory}.*COMPOSER_DATA_DIR"):
        act(store, gguf)


def test_a_full_disk_is_told(store: ModelStore, gguf: Path) -> None:
    # Every write to this device finds the disk full.
    (store.directory / "mine").mkdir(parents=True)
    partial = store.directory / "mine" / f"manifest.json.{os.getpid()}.tmp"
    store.register(gguf, "other")  # the locks' folder is made
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shutil, "rmtree", lambda path: partial.symlink_to("/dev/full"))
        with pytest.raises(ModelFolderError, match="No space left on device; make room"):
            store.register(gguf, "mine")


def test_what_the_reader_of_progress_raises_goes_through(store: ModelStore, gguf: Path) -> None:
    def gone(done_bytes: int, total_bytes: int) -> None:
        raise BrokenPipeError

    with pytest.raises(BrokenPipeError):
        store.register(gguf, "mine", gone)
    store.register(gguf, "mine")
    with pytest.raises(BrokenPipeError):
        store.verify("mine", gone)


@pytest.mark.skipif(os.getuid() == 0, reason="root may read everything")
def test_a_file_that_may_not_be_read_is_named(store: ModelStore, gguf: Path) -> None:
    store.register(gguf, "mine")
    gguf.chmod(0)
    with pytest.raises(ModelError, match=str(gguf)):
        store.register(gguf, "mine")
    with pytest.raises(ModelError, match=str(gguf)):
        store.verify("mine")

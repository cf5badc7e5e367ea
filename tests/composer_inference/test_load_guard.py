"""Files that end whoever loads them."""

import os
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from composer_inference.backends.base import BackendError
from composer_inference.load_guard import REFUSED_S, LoadGuard


@pytest.fixture
def runtime(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    path = tmp_path / "r"
    monkeypatch.setenv("COMPOSER_RUNTIME_DIR", str(path))
    return path


@pytest.fixture
def gguf(tmp_path: Path) -> Path:
    path = tmp_path / "m.gguf"
    path.write_bytes(b"damaged")
    return path


_begun: list[AbstractContextManager[None]] = []


def die(gguf: Path) -> None:
    """What a process leaves that ends while it loads: what follows the loading never runs."""
    watched = LoadGuard("m", gguf).watched()
    watched.__enter__()
    _begun.append(watched)  # which would run it if it were collected


def test_two_deaths_are_enough(runtime: Path, gguf: Path) -> None:
    die(gguf)
    die(gguf)
    with (
        pytest.raises(BackendError, match=rf"m ended the engine 2 times.*{gguf}.*verify m"),
        LoadGuard("m", gguf).watched(),
    ):
        pytest.fail("it was tried again")
    with LoadGuard("other", gguf).watched():
        pass


def test_a_path_that_is_no_installed_model_is_not_to_be_verified(runtime: Path, gguf: Path) -> None:
    die(gguf)
    die(gguf)
    guard = LoadGuard("m", gguf, is_installed=False)
    with (
        pytest.raises(BackendError, match=r"changes; check or replace what is there$"),
        guard.watched(),
    ):
        pytest.fail("it was tried again")


def test_a_load_that_ends_well_makes_good(runtime: Path, gguf: Path) -> None:
    for _ in range(3):
        die(gguf)
        with LoadGuard("m", gguf).watched():
            pass
    assert not list(runtime.iterdir())


def test_another_file_is_tried(runtime: Path, gguf: Path) -> None:
    die(gguf)
    die(gguf)
    gguf.write_bytes(b"fetched again")
    with LoadGuard("m", gguf).watched():
        pass


def test_it_is_tried_again_later(runtime: Path, gguf: Path) -> None:
    die(gguf)
    die(gguf)
    marker = runtime / "m.loading"
    then = marker.stat().st_mtime - REFUSED_S - 1
    os.utime(marker, (then, then))
    with LoadGuard("m", gguf).watched():
        pass


@pytest.mark.parametrize("text", ["", "[]", "{}", "null"])
def test_a_broken_marker_counts_for_nothing(runtime: Path, gguf: Path, text: str) -> None:
    runtime.mkdir(mode=0o700)
    (runtime / "m.loading").write_text(text)
    with LoadGuard("m", gguf).watched():
        pass


def test_what_the_loading_raises_goes_through(runtime: Path, gguf: Path) -> None:
    with pytest.raises(BackendError, match="refused"), LoadGuard("m", gguf).watched():
        raise BackendError("refused")
    assert not list(runtime.iterdir())

import os
from pathlib import Path

import pytest

from composer_index.files.read import ReadError, TooLargeError, read_file
from tests.composer_index.files.trees import write

posix_only = pytest.mark.skipif(os.name == "nt", reason="links and pipes")


def _read(root: Path, path: str) -> bytes:
    return read_file(str(root), path, max_bytes=10)


def test_bytes(tmp_path: Path) -> None:
    write(tmp_path, "sub/a.py", text="0123456789")
    assert _read(tmp_path, "sub/a.py") == b"0123456789"
    write(tmp_path, "sub/a.py", text="0123456789a")
    with pytest.raises(TooLargeError, match="10 bytes"):
        _read(tmp_path, "sub/a.py")


@posix_only
def test_links_inside(tmp_path: Path) -> None:
    write(tmp_path, "sub/a.py", text="a")
    (tmp_path / "link").symlink_to("sub/a.py")
    (tmp_path / "folder").symlink_to("sub")
    assert _read(tmp_path, "link") == _read(tmp_path, "folder/a.py") == b"a"


@posix_only
@pytest.mark.parametrize(
    "path", ["gone", "..", "../outside", "out", "up/outside", "loop", "pipe", ".", "", "a\0"]
)
def test_nothing_else(tmp_path: Path, path: str) -> None:
    root = tmp_path / "r"
    root.mkdir()
    write(tmp_path, "outside")
    (root / "out").symlink_to(tmp_path / "outside")
    (root / "up").symlink_to("..")
    (root / "loop").symlink_to("loop")
    os.mkfifo(root / "pipe")
    with pytest.raises(ReadError):
        _read(root, path)


@posix_only
def test_a_folder_that_becomes_a_link_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "r"
    write(root, "sub/a.py")
    write(tmp_path, "outside/a.py", text="theirs")
    realpath = os.path.realpath

    def swapped(path: Path) -> str:
        found = realpath(path)
        if str(path).endswith("a.py"):
            (root / "sub").rename(root / "former")
            (root / "sub").symlink_to(tmp_path / "outside")
        return found

    monkeypatch.setattr(os.path, "realpath", swapped)
    with pytest.raises(ReadError):
        _read(root, "sub/a.py")

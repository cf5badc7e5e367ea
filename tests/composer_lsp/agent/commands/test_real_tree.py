"""What commands made is written into a root, and through no link."""

import os
import sys
from pathlib import Path

import pytest

from composer_lsp.agent.commands.real_tree import RealTree

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="overlays are for Linux")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """With links to the outside in it."""
    root, outside = tmp_path / "root", tmp_path / "outside"
    (outside / "sub").mkdir(parents=True)
    (outside / "file").write_text("kept")
    (root / "folder").mkdir(parents=True)
    (root / "link").symlink_to(outside)
    (root / "folder" / "up").symlink_to("../link")
    (root / "to_file").symlink_to(outside / "file")
    return root


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "source"
    path.write_text("made")
    path.chmod(0o750)
    return path


@pytest.mark.parametrize("folder", ["link", "folder/up", "link/sub"])
def test_no_link_on_the_way_is_followed(folder: str, root: Path, source: Path) -> None:
    real = RealTree(root)
    with pytest.raises(OSError, match=folder.split("/")[-1 if "up" in folder else 0]):
        real.put(f"{folder}/new", source)
    with pytest.raises(OSError, match="irectory"):
        real.make_folder(f"{folder}/new")
    with pytest.raises(OSError, match="irectory"):
        real.remove(f"{folder}/file")

    outside = root.parent / "outside"
    assert sorted(path.name for path in outside.iterdir()) == ["file", "sub"]
    assert (outside / "file").read_text() == "kept"


def test_a_link_in_the_place_of_a_file_is_replaced(root: Path, source: Path) -> None:
    RealTree(root).put("to_file", source)

    assert (root / "to_file").read_text() == "made"
    assert not (root / "to_file").is_symlink()
    assert (root.parent / "outside" / "file").read_text() == "kept"


def test_a_link_is_removed_and_not_what_it_leads_to(root: Path) -> None:
    RealTree(root).remove("link")

    assert not (root / "link").exists()
    assert (root.parent / "outside" / "file").exists()


def test_what_comes_from_another_file_system_is_copied(root: Path) -> None:
    others = [
        Path(place) for place in ("/dev/shm", "/run", "/var/tmp") if os.access(place, os.W_OK)
    ]
    other = next((each for each in others if each.stat().st_dev != root.stat().st_dev), None)
    if other is None:
        pytest.skip("there is one file system only")
    made, link = other / f"composer-test-{os.getpid()}", other / f"composer-test-{os.getpid()}-link"
    made.write_text("made")
    made.chmod(0o750)
    os.utime(made, (5, 5))
    link.symlink_to("anywhere")
    try:
        RealTree(root).put("new/file", made)
        RealTree(root).put("new/link", link)
    finally:
        made.unlink()
        link.unlink()

    status = (root / "new" / "file").stat()
    assert ((root / "new" / "file").read_text(), status.st_mode & 0o777) == ("made", 0o750)
    assert status.st_mtime == 5
    assert (root / "new" / "link").readlink() == Path("anywhere")
    assert sorted(path.name for path in (root / "new").iterdir()) == ["file", "link"]

"""What may be mounted in the folders that commands write to."""

import sys
from pathlib import Path

import pytest

from composer_lsp.agent.commands.shared_folders import Mount, SharedFolders

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="paths of POSIX")

TMP, CACHE = Path("/tmp"), Path("/tmp/home/.cache")


def shown(path: Path) -> Mount:
    return ("--ro-bind-try", path, path)


@pytest.fixture
def disk(tmp_path: Path) -> Path:
    for name in ("tmp", "cache", "folder"):
        (tmp_path / name).mkdir()
    (tmp_path / "nothing").touch()
    return tmp_path


def make(disk: Path, *mounts: Mount) -> SharedFolders:
    sources = {TMP: disk / "tmp", CACHE: disk / "cache"}
    return SharedFolders(sources, disk / "nothing", mounts)


def test_what_is_mounted_on_is_covered_in_each_sandbox(disk: Path) -> None:
    mounts: list[Mount] = [
        ("--bind", disk / "folder", Path("/tmp/project")),
        ("--ro-bind-try", disk / "nothing", Path("/tmp/file")),
        ("--symlink", "lib", Path("/tmp/tools/venv/lib64")),
        shown(CACHE / "uv" / "python"),
    ]
    arguments = list(make(disk, *mounts).arguments())

    assert arguments == [
        *("--bind", f"{disk}/tmp", "/tmp", "--tmpfs", "/tmp/home", "--tmpfs", "/tmp/project"),
        *("--ro-bind", f"{disk}/nothing", "/tmp/file", "--tmpfs", "/tmp/tools"),
        *("--bind", f"{disk}/cache", str(CACHE), "--tmpfs", str(CACHE / "uv")),
    ]
    assert {path.name: path.is_dir() for path in (disk / "tmp").iterdir()} == {
        "home": True,
        "project": True,
        "file": False,
        "tools": True,
    }


def test_nothing_is_mounted_below_a_name_that_a_command_may_have_made(disk: Path) -> None:
    shared = make(disk, shown(Path("/tmp/tools/bin")), shown(Path("/opt/x")))

    assert shared.may_mount(shown(Path("/tmp/tools/lib")))
    assert not shared.may_mount(shown(Path("/tmp/later/lib")))
    assert not shared.may_mount(shown(CACHE / "later"))
    assert shared.may_mount(shown(Path("/opt/later")))


def test_a_link_right_in_a_shared_folder_is_made_once(disk: Path) -> None:
    link: Mount = ("--symlink", "tools", Path("/tmp/current"))
    shared = make(disk, link)

    assert (disk / "tmp" / "current").readlink() == Path("tools")
    assert not shared.may_mount(link)

import asyncio
import threading
from collections.abc import Sequence
from pathlib import Path

from composer_lsp.acp.paths import ClientPaths
from composer_lsp.acp.workspace import ClientWorkspace
from composer_lsp.agent.edits.change_set import ChangeSet, FileChange, Snapshot
from composer_lsp.agent.edits.text_file import TextFile
from composer_lsp.agent.workspace.directory import DirectoryWorkspace
from tests.composer_lsp.acp.conftest import LIMIT_S, on_disk, save


class DiskFiles:
    """A client whose buffers are all saved."""

    reads_files = True
    writes_files = True

    async def read(self, path: str) -> str | None:
        return on_disk(path)

    async def write(self, path: str, text: str) -> None:
        save(path, text)


class SlowDisk(DirectoryWorkspace):
    """Begins to write, and goes on when it is let."""

    def __init__(self, paths: ClientPaths) -> None:
        super().__init__(paths)
        self.begun = asyncio.Event()
        self.gate = threading.Event()

    async def apply(self, changes: Sequence[FileChange], *, label: str) -> None:
        self.begun.set()
        await asyncio.to_thread(self.gate.wait, LIMIT_S)
        await super().apply(changes, label=label)


async def test_a_cancel_that_comes_too_late_leaves_no_half_change(tmp_path: Path) -> None:
    (tmp_path / "plain.py").write_text("x = 1\n")
    (tmp_path / "dos.py").write_bytes(b"x = 1\r\n")
    paths = ClientPaths([tmp_path])
    workspace = ClientWorkspace(paths, DiskFiles())
    workspace._disk = disk = SlowDisk(paths)  # pyright: ignore[reportPrivateUsage]
    changes = [
        FileChange(path="plain.py", before=TextFile(text="x = 1\n"), after="x = 2\n"),
        FileChange(path="dos.py", before=TextFile(text="x = 1\r\n"), after="x = 2\r\n"),
    ]
    applying = asyncio.ensure_future(workspace.apply(changes, label=""))
    await asyncio.wait_for(disk.begun.wait(), LIMIT_S)
    applying.cancel()
    await asyncio.sleep(0)
    disk.gate.set()
    await asyncio.wait([applying], timeout=LIMIT_S)
    assert (tmp_path / "plain.py").read_text() == "x = 2\n"
    assert (tmp_path / "dos.py").read_bytes() == b"x = 2\r\n"
    assert not applying.cancelled()


async def test_a_link_is_deleted_moved_and_replaced_itself(tmp_path: Path) -> None:
    (tmp_path / "real.py").write_text("x = 1\n")
    names = ("deleted.py", "moved.py", "replaced.py")
    for name in names:
        (tmp_path / name).symlink_to("real.py")
    workspace = ClientWorkspace(ClientPaths([tmp_path]), DiskFiles())
    changes = ChangeSet()
    deleted, moved, replaced = [
        await workspace.read(workspace.paths.locate(name)) for name in names
    ]
    changes.write("deleted.py", deleted, None)
    changes.move("moved.py", moved, "there.py", Snapshot(file=None))
    changes.write("replaced.py", replaced, "plain\n")
    await workspace.apply(list(changes.changes()), label="")
    assert (tmp_path / "real.py").read_text() == "x = 1\n"
    assert (tmp_path / "there.py").samefile(tmp_path / "real.py")
    assert (tmp_path / "replaced.py").read_text() == "plain\n"
    assert set(await workspace.files()) == {"real.py", "there.py", "replaced.py"}
    assert not (tmp_path / "replaced.py").is_symlink()


async def test_a_link_that_was_deleted_is_a_link_again(tmp_path: Path) -> None:
    (tmp_path / "real.py").write_text("x = 1\n")
    workspace = ClientWorkspace(ClientPaths([tmp_path]), DiskFiles())
    change = FileChange(path="link.py", before=None, after="x = 1\n", makes_link="real.py")
    await workspace.apply([change], label="")
    assert (tmp_path / "link.py").is_symlink()
    assert (tmp_path / "link.py").samefile(tmp_path / "real.py")


async def test_a_file_takes_the_place_of_a_deleted_one(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("a\n")
    (tmp_path / "b.py").write_text("b\n")
    workspace = ClientWorkspace(ClientPaths([tmp_path]), DiskFiles())
    a, b = [await workspace.read(workspace.paths.locate(name)) for name in ("a.py", "b.py")]
    changes = ChangeSet()
    changes.write("b.py", b, None)
    changes.move("a.py", a, "b.py", b)
    await workspace.apply(list(changes.changes()), label="")
    assert (tmp_path / "b.py").read_text() == "a\n"
    assert not (tmp_path / "a.py").exists()

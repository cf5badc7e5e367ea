import asyncio
import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Never

import pytest

from composer_lsp.agent.checkpoints import CheckpointError, Checkpoints
from composer_lsp.agent.edits.change_set import ChangeSet, FileChange, Snapshot
from composer_lsp.agent.edits.text_file import TextFile
from composer_lsp.agent.workspace.directory import DirectoryWorkspace
from composer_lsp.agent.workspace.paths import Paths
from composer_lsp.agent.workspace.workspace import ConflictError


@pytest.fixture
def workspace(root: Path) -> DirectoryWorkspace:
    (root / "old.py").write_bytes("# coding: cp1251\r\nимя = 1\n".encode("cp1251"))
    (root / "run.sh").write_bytes(b"#!/bin/sh\r\n")
    (root / "run.sh").chmod(0o755)
    return DirectoryWorkspace(Paths([root]))


@pytest.fixture
def checkpoints(tmp_path: Path) -> Checkpoints:
    return Checkpoints(tmp_path / "checkpoints")


def tree(root: Path) -> dict[str, tuple[bytes, int]]:
    """All files with their permissions, git's own among them."""
    return {
        path.relative_to(root).as_posix(): (path.read_bytes(), path.stat().st_mode)
        for path in root.rglob("*")
        if path.is_file()
    }


def change(workspace: DirectoryWorkspace, checkpoints: Checkpoints, id: str = "one") -> None:
    changes = ChangeSet()

    def write(path: str, text: str | None) -> None:
        snapshot = asyncio.run(workspace.read(workspace.paths.locate(path)))
        changes.write(path, snapshot, text)

    write("src/util.py", "def helper():\n    return 'thread'\n")
    write("old.py", "# coding: cp1251\r\nимя = 2\n")
    write("new/file.py", "x = 1\n")
    write("run.sh", None)
    place = workspace.paths.locate("src/app.py")
    target = asyncio.run(workspace.read(workspace.paths.locate("src/main.py")))
    changes.move("src/app.py", asyncio.run(workspace.read(place)), "src/main.py", target)
    checkpoints.save(id, "change it", changes.changes())
    asyncio.run(workspace.apply(list(changes.changes()), label="change it"))


def undo(workspace: DirectoryWorkspace, checkpoints: Checkpoints) -> None:
    asyncio.run(workspace.apply(checkpoints.reversed("one"), label="undo"))


def test_takes_everything_back(
    workspace: DirectoryWorkspace, checkpoints: Checkpoints, root: Path
) -> None:
    before = tree(root)
    change(workspace, checkpoints)
    assert tree(root) != before
    undo(workspace, checkpoints)
    assert tree(root) == before


def _delete_link(changes: ChangeSet, link: Snapshot) -> None:
    changes.write("link.py", link, None)


def _move_link(changes: ChangeSet, link: Snapshot) -> None:
    changes.move("link.py", link, "deep/er/link.py", Snapshot(file=None))


def _replace_link(changes: ChangeSet, link: Snapshot) -> None:
    changes.write("link.py", link, None)
    changes.write("link.py", Snapshot(file=None), "plain\n")


@pytest.mark.parametrize("act", [_delete_link, _move_link, _replace_link])
def test_a_link_is_a_link_again(
    workspace: DirectoryWorkspace,
    checkpoints: Checkpoints,
    root: Path,
    act: Callable[[ChangeSet, Snapshot], None],
) -> None:
    (root / "link.py").symlink_to("./src/util.py")
    text = (root / "src/util.py").read_text()
    changes = ChangeSet()
    act(changes, asyncio.run(workspace.read(workspace.paths.locate("link.py"))))
    checkpoints.save("one", "change it", changes.changes())
    asyncio.run(workspace.apply(list(changes.changes()), label="change it"))
    assert not (root / "link.py").is_symlink()
    undo(workspace, checkpoints)
    assert os.readlink(root / "link.py") == "./src/util.py"  # noqa: PTH115 - the text as it stands
    assert not (root / "deep/er/link.py").is_symlink()
    assert (root / "src/util.py").read_text() == text


def test_a_file_that_took_a_links_place_and_changed_since_is_kept(
    workspace: DirectoryWorkspace, checkpoints: Checkpoints, root: Path
) -> None:
    (root / "link.py").symlink_to("src/util.py")
    changes = ChangeSet()
    _replace_link(changes, asyncio.run(workspace.read(workspace.paths.locate("link.py"))))
    checkpoints.save("one", "change it", changes.changes())
    asyncio.run(workspace.apply(list(changes.changes()), label="change it"))
    (root / "link.py").write_text("plain\nmore\n")
    with pytest.raises(ConflictError, match=r"link\.py: it changed meanwhile"):
        undo(workspace, checkpoints)
    assert (root / "link.py").read_text() == "plain\nmore\n"


def _file_to_folder(workspace: DirectoryWorkspace, changes: ChangeSet) -> None:
    changes.write(
        "README.md", asyncio.run(workspace.read(workspace.paths.locate("README.md"))), None
    )
    changes.write("README.md/x", Snapshot(file=None), "x\n")


def _file_into_folder(workspace: DirectoryWorkspace, changes: ChangeSet) -> None:
    now = asyncio.run(workspace.read(workspace.paths.locate("README.md")))
    changes.move("README.md", now, "README/all.md", Snapshot(file=None))
    changes.write("README.md/x", Snapshot(file=None), "x\n")


@pytest.mark.parametrize("act", [_file_to_folder, _file_into_folder])
def test_a_file_that_became_a_folder_is_a_file_again(
    workspace: DirectoryWorkspace,
    checkpoints: Checkpoints,
    root: Path,
    act: Callable[[DirectoryWorkspace, ChangeSet], None],
) -> None:
    before = tree(root)
    changes = ChangeSet()
    act(workspace, changes)
    checkpoints.save("one", "change it", changes.changes())
    asyncio.run(workspace.apply(list(changes.changes()), label="change it"))
    assert (root / "README.md/x").is_file()
    undo(workspace, checkpoints)
    assert tree(root) == before


def test_git_is_not_touched(
    workspace: DirectoryWorkspace, checkpoints: Checkpoints, root: Path
) -> None:
    subprocess.run(["git", "-C", str(root), "add", "src/util.py"], check=True)
    (root / "src/util.py").write_text("unstaged = True\n")
    before = tree(root / ".git")
    change(workspace, checkpoints)
    undo(workspace, checkpoints)
    assert tree(root / ".git") == before
    assert (root / "src/util.py").read_text() == "unstaged = True\n"


def test_keeps_what_was_changed_elsewhere_since(
    workspace: DirectoryWorkspace, checkpoints: Checkpoints, root: Path
) -> None:
    change(workspace, checkpoints)
    (root / "src/util.py").write_text("# mine\ndef helper():\n    return 'thread'\n")
    undo(workspace, checkpoints)
    assert (root / "src/util.py").read_text() == "# mine\ndef helper():\n    return 'needle'\n"


def test_refuses_where_the_same_lines_were_changed_since(
    workspace: DirectoryWorkspace, checkpoints: Checkpoints, root: Path
) -> None:
    change(workspace, checkpoints)
    (root / "src/util.py").write_text("def helper():\n    return 'mine'\n")
    before = tree(root)
    with pytest.raises(ConflictError, match=r"src/util\.py: lines 2 to 2 changed meanwhile"):
        undo(workspace, checkpoints)
    assert tree(root) == before


def test_lists_the_newest_first_and_drops(
    workspace: DirectoryWorkspace, checkpoints: Checkpoints, tmp_path: Path
) -> None:
    change(workspace, checkpoints)
    checkpoints.save("two", "nothing", [])
    assert [(each.id, each.label) for each in checkpoints.list()] == [
        ("two", "nothing"),
        ("one", "change it"),
    ]
    checkpoints.drop("one")
    assert not list((tmp_path / "checkpoints" / "objects").iterdir())
    with pytest.raises(CheckpointError, match="there is no checkpoint one"):
        checkpoints.reversed("one")


def test_is_bounded(workspace: DirectoryWorkspace, tmp_path: Path) -> None:
    few = Checkpoints(tmp_path / "few", max_checkpoints=2)
    change(workspace, few, "1")
    for number in "234":
        few.save(number, "", [])
    assert [each.id for each in few.list()] == ["4", "3"]
    small = Checkpoints(tmp_path / "small", max_bytes=1)
    small.save("1", "", [FileChange(path="a", before=None, after="x")])
    small.save("2", "", [FileChange(path="a", before=None, after="y")])
    assert [each.id for each in small.list()] == ["2"]


def test_an_encoding_that_was_guessed_is_not_guessed_again(
    workspace: DirectoryWorkspace, checkpoints: Checkpoints, root: Path
) -> None:
    """The longer text looks like another encoding's."""
    data = "naïve = 1\n".encode("latin-1")
    (root / "odd.py").write_bytes(data)
    before = asyncio.run(workspace.read(workspace.paths.locate("odd.py"))).file
    assert before is not None
    after = f"{before.text}y = 2\n"
    assert TextFile.decode(before.encode(after)).text != after
    change = FileChange(path="odd.py", before=before, after=after)
    checkpoints.save("one", "", [change])
    (root / "odd.py").write_bytes(before.encode(after))
    (back,) = checkpoints.reversed("one")
    assert (back.before and back.before.text, back.after) == (after, before.text)
    assert back.data() == data


@pytest.mark.parametrize("mark", [b"", b"\xff\xfe"])
def test_byte_order_marks_are_kept(checkpoints: Checkpoints, mark: bytes) -> None:
    file = TextFile(text="x = 1\n", encoding="utf-16-le", bom=mark)
    checkpoints.save("one", "", [FileChange(path="a", before=file, after="x = 2\n")])
    (back,) = checkpoints.reversed("one")
    assert back.data() == file.encode(file.text)
    assert back.before == TextFile(text="x = 2\n", encoding="utf-16-le", bom=mark)


def test_a_checkpoint_without_encodings_is_read(
    workspace: DirectoryWorkspace, checkpoints: Checkpoints, root: Path, tmp_path: Path
) -> None:
    before = tree(root)
    change(workspace, checkpoints)
    path = tmp_path / "checkpoints" / "one.json"
    manifest = json.loads(path.read_bytes())
    for file in manifest["files"]:
        del file["before_form"], file["after_form"]
    path.write_text(json.dumps(manifest))
    undo(workspace, checkpoints)
    assert tree(root) == before


def test_a_text_that_its_encoding_lacks_is_kept(checkpoints: Checkpoints) -> None:
    """It was not saved yet."""
    unsaved = TextFile(text="x = '→'\n", encoding="latin-1")
    checkpoints.save("one", "", [FileChange(path="a", before=unsaved, after="x = '→→'\n")])
    (back,) = checkpoints.reversed("one")
    assert (back.before and back.before.text, back.after) == ("x = '→→'\n", "x = '→'\n")


def test_a_checkpoint_whose_bytes_are_others_is_told(
    checkpoints: Checkpoints, tmp_path: Path
) -> None:
    file = TextFile(text="x = 1\n", encoding="utf-16-le", bom=b"\xff\xfe")
    checkpoints.save("one", "", [FileChange(path="a", before=file, after="x = 2\n")])
    for path in (tmp_path / "checkpoints" / "objects").iterdir():
        path.write_bytes(b"odd")
    with pytest.raises(CheckpointError, match=r"of a is broken: .* holds other bytes\. Without"):
        checkpoints.reversed("one")
    checkpoints.save("two", "", [FileChange(path="a", before=file, after="x = 2\n")])
    (back,) = checkpoints.reversed("two")
    assert back.after == file.text


DAMAGED = {
    "cut short": b'{"label": "x"',
    "empty": b"",
    "of another shape": b"{}",
    "with files of another shape": b'{"label": "", "at": 1, "files": [{"path": "a"}]}',
    "no object": b"[1]",
    "nested deeply": b"[" * 100_000,
}


@pytest.mark.parametrize("data", DAMAGED.values(), ids=DAMAGED)
def test_a_damaged_manifest_is_left_out(
    checkpoints: Checkpoints, tmp_path: Path, caplog: pytest.LogCaptureFixture, data: bytes
) -> None:
    checkpoints.save("one", "first", [FileChange(path="a", before=None, after="x")])
    path = tmp_path / "checkpoints" / "one.json"
    whole = path.read_bytes()
    path.write_bytes(data)
    checkpoints.save("two", "second", [FileChange(path="b", before=None, after="y")])
    assert [each.id for each in checkpoints.list()] == ["two"]
    assert f"the checkpoint {path} cannot be read" in caplog.text
    with pytest.raises(CheckpointError, match=r"one\.json cannot be read"):
        checkpoints.reversed("one")
    checkpoints.drop("two")
    path.write_bytes(whole)
    (back,) = checkpoints.reversed("one")
    assert back.before and back.before.text == "x"


def test_a_damaged_manifest_leaves_first(tmp_path: Path) -> None:
    small = Checkpoints(tmp_path / "small", max_bytes=3)
    for id in ("1", "2"):
        small.save(id, "", [FileChange(path="a", before=None, after=id)])
    (tmp_path / "small" / "2.json").write_bytes(b"")
    small.save("3", "", [FileChange(path="a", before=None, after="33")])
    assert [each.id for each in small.list()] == ["3", "1"]
    assert not (tmp_path / "small" / "2.json").exists()


def test_a_save_that_fails_keeps_nothing(
    checkpoints: Checkpoints, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(self: Path, pattern: str) -> Never:
        raise OSError(5, "the disk is broken", str(self))

    with monkeypatch.context() as patched:
        patched.setattr(Path, "glob", fails)
        with pytest.raises(OSError, match="the disk is broken"):
            checkpoints.save("one", "", [FileChange(path="a", before=None, after="x")])
    assert checkpoints.list() == []
    assert not list((tmp_path / "checkpoints").glob("*.json"))


@pytest.mark.parametrize("id", ["../x", "none", ""])
def test_what_is_none_is_told(checkpoints: Checkpoints, id: str) -> None:
    with pytest.raises(CheckpointError):
        checkpoints.reversed(id)

import asyncio
import os
import stat
from pathlib import Path

import pytest

from composer_lsp.agent.edits.change_set import ChangeSet, Snapshot
from composer_lsp.agent.edits.text_file import TextFile
from composer_lsp.agent.workspace import directory
from composer_lsp.agent.workspace.directory import DirectoryWorkspace
from composer_lsp.agent.workspace.paths import Paths, Place
from composer_lsp.agent.workspace.workspace import ConflictError, WorkspaceError


@pytest.fixture
def workspace(root: Path) -> DirectoryWorkspace:
    return DirectoryWorkspace(Paths([root]))


def staged(workspace: DirectoryWorkspace, **texts: str | None) -> ChangeSet:
    changes = ChangeSet()
    for path, text in texts.items():
        place = workspace.paths.locate(path)
        changes.write(path, asyncio.run(workspace.read(place)), text)
    return changes


def apply(workspace: DirectoryWorkspace, changes: ChangeSet) -> None:
    asyncio.run(workspace.apply(list(changes.changes()), label="test"))


def tree(root: Path) -> dict[str, bytes]:
    return {
        path.relative_to(root).as_posix(): path.read_bytes()
        for path in root.rglob("*")
        if path.is_file() and ".git/" not in path.as_posix()
    }


def test_writes_creates_moves_and_deletes(workspace: DirectoryWorkspace, root: Path) -> None:
    changes = staged(
        workspace, **{"src/util.py": "x\n", "deep/er/new.py": "y\n", "README.md": None}
    )
    place, snapshot = workspace.paths.locate("src/app.py"), Snapshot(file=None)
    changes.move("src/app.py", asyncio.run(workspace.read(place)), "src/main.py", snapshot)
    before = tree(root)
    apply(workspace, changes)
    after = tree(root)
    assert after["src/util.py"] == b"x\n"
    assert after["deep/er/new.py"] == b"y\n"
    assert after["src/main.py"] == before["src/app.py"]
    assert not {"README.md", "src/app.py"} & after.keys()


def test_keeps_mode_and_link(workspace: DirectoryWorkspace, root: Path) -> None:
    (root / "src/util.py").chmod(0o755)
    (root / "link.py").symlink_to("src/util.py")
    apply(workspace, staged(workspace, **{"link.py": "new\n"}))
    assert (root / "link.py").is_symlink()
    assert (root / "src/util.py").read_text() == "new\n"
    assert stat.S_IMODE((root / "src/util.py").stat().st_mode) == 0o755


def test_a_hunk_follows_its_text(workspace: DirectoryWorkspace, root: Path) -> None:
    changes = staged(workspace, **{"src/util.py": "def helper():\n    return 'thread'\n"})
    (root / "src/util.py").write_text("# new\ndef helper():\n    return 'needle'\n")
    apply(workspace, changes)
    assert (root / "src/util.py").read_text() == "# new\ndef helper():\n    return 'thread'\n"


@pytest.mark.parametrize(
    ("meanwhile", "why"),
    [
        (
            {"src/util.py": "def helper():\n    return 'other'\n"},
            "src/util.py: lines 2 to 2 changed",
        ),
        ({"src/util.py": None}, "src/util.py: it is gone"),
        ({"new.py": "theirs\n"}, "new.py: it exists by now"),
        ({"README.md": "# Other\n"}, "README.md: it changed meanwhile"),
    ],
)
def test_a_conflict_changes_nothing(
    workspace: DirectoryWorkspace, root: Path, meanwhile: dict[str, str | None], why: str
) -> None:
    texts = {
        "src/util.py": "def helper():\n    return 'mine'\n",
        "new.py": "x\n",
        "README.md": None,
    }
    changes = staged(workspace, **texts)
    for path, text in meanwhile.items():
        (root / path).unlink() if text is None else (root / path).write_text(text)
    before = tree(root)
    with pytest.raises(ConflictError, match=why):
        apply(workspace, changes)
    assert tree(root) == before


def test_a_file_that_cannot_be_written_takes_the_others_back(
    workspace: DirectoryWorkspace, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    changes = staged(workspace, **{"a.py": "x\n", "src/util.py": "y\n", "src/app.py": "z\n"})
    before = tree(root)
    write = directory.write

    def full(place: Place, data: bytes | None, mode: int | None = None) -> None:
        if place.path == "src/util.py" and data == b"y\n":
            raise OSError(28, os.strerror(28), place.absolute)
        write(place, data, mode)

    monkeypatch.setattr(directory, "write", full)
    with pytest.raises(WorkspaceError, match="nothing was changed: .*util.py cannot be written"):
        apply(workspace, changes)
    assert tree(root) == before


def test_an_encoding_stays(workspace: DirectoryWorkspace, root: Path) -> None:
    data = "# coding: cp1251\nимя = 1\r\n".encode("cp1251")
    (root / "old.py").write_bytes(data)
    apply(workspace, staged(workspace, **{"old.py": "# coding: cp1251\nимя = 2\r\n"}))
    assert (root / "old.py").read_bytes() == data.replace(b"1\r", b"2\r")


def test_several_roots_have_names(tmp_path: Path) -> None:
    for folder in ("one/api", "two/api"):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "x.py").write_text(folder)
    workspace = DirectoryWorkspace(Paths([tmp_path / "one/api", tmp_path / "two/api"]))
    assert asyncio.run(workspace.files()) == ["api-2/x.py", "api/x.py"]
    place = workspace.paths.locate("api-2/x.py")
    assert asyncio.run(workspace.read(place)).file == TextFile(text="two/api")

import asyncio
import os
import shutil
import stat
import subprocess
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from composer_lsp.agent.edits.change_set import ChangeSet, FileChange, Snapshot
from composer_lsp.agent.edits.text_file import TextFile
from composer_lsp.agent.workspace import directory
from composer_lsp.agent.workspace.directory import DirectoryWorkspace
from composer_lsp.agent.workspace.entries import Content
from composer_lsp.agent.workspace.paths import PathError, Paths, Place
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


def test_keeps_the_mode(workspace: DirectoryWorkspace, root: Path) -> None:
    (root / "src/util.py").chmod(0o755)
    apply(workspace, staged(workspace, **{"src/util.py": "new\n"}))
    assert (root / "src/util.py").read_text() == "new\n"
    assert stat.S_IMODE((root / "src/util.py").stat().st_mode) == 0o755


def test_a_link_is_deleted_and_not_what_it_leads_to(
    workspace: DirectoryWorkspace, root: Path
) -> None:
    (root / "link.py").symlink_to("src/util.py")
    before = (root / "src/util.py").read_bytes()
    apply(workspace, staged(workspace, **{"link.py": None}))
    assert not os.path.lexists(root / "link.py")
    assert (root / "src/util.py").read_bytes() == before


def test_a_moved_link_leads_to_the_same_file(workspace: DirectoryWorkspace, root: Path) -> None:
    (root / "link.py").symlink_to("src/util.py")
    snapshot = asyncio.run(workspace.read(workspace.paths.locate("link.py")))
    changes = ChangeSet()
    changes.move("link.py", snapshot, "deep/er/link.py", Snapshot(file=None))
    apply(workspace, changes)
    assert not os.path.lexists(root / "link.py")
    assert (root / "deep/er/link.py").is_symlink()
    assert (root / "deep/er/link.py").samefile(root / "src/util.py")


def test_a_link_is_replaced_itself(workspace: DirectoryWorkspace, root: Path) -> None:
    (root / "link.py").symlink_to("src/util.py")
    before = (root / "src/util.py").read_bytes()
    changes = staged(workspace, **{"link.py": None})
    changes.write("link.py", Snapshot(file=None), "plain\n")
    apply(workspace, changes)
    assert not (root / "link.py").is_symlink()
    assert (root / "link.py").read_text() == "plain\n"
    assert (root / "src/util.py").read_bytes() == before


def test_a_file_that_became_a_link_is_not_written(
    workspace: DirectoryWorkspace, root: Path
) -> None:
    changes = staged(workspace, **{"src/util.py": "new\n"})
    (root / "src/util.py").rename(root / "src/other.py")
    (root / "src/util.py").symlink_to("other.py")
    before = tree(root)
    with pytest.raises(ConflictError, match=r"src/util\.py: it is a link by now"):
        apply(workspace, changes)
    assert tree(root) == before


def nothing_is_refused(paths: Paths, changes: Sequence[FileChange]) -> dict[str, str]:
    return {}


@pytest.mark.parametrize("is_seen", [True, False], ids=["in time", "too late"])
def test_nothing_is_written_where_a_folder_became_a_link(
    workspace: DirectoryWorkspace,
    root: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    is_seen: bool,
) -> None:
    """Too late: it does between the check and the writing."""
    outside = tmp_path / "outside"
    outside.mkdir()
    changes = staged(workspace, **{"README.md": "x\n", "sub/new.py": "x\n"})
    before = tree(root)
    (root / "sub").symlink_to(outside)
    if not is_seen:
        monkeypatch.setattr(directory, "refused", nothing_is_refused)
    with pytest.raises(WorkspaceError, match="nothing was changed"):
        apply(workspace, changes)
    assert list(outside.iterdir()) == []
    assert tree(root) == before


def moved(workspace: DirectoryWorkspace, changes: ChangeSet, path: str, target: str) -> None:
    now, there = (
        asyncio.run(workspace.read(workspace.paths.locate(each))) for each in (path, target)
    )
    changes.move(path, now, target, there)


def test_a_file_takes_the_place_of_a_deleted_one(workspace: DirectoryWorkspace, root: Path) -> None:
    data = "# coding: latin-1\nname = 'é'\n".encode("latin-1")
    (root / "src/app.py").write_bytes(data)
    (root / "src/app.py").chmod(0o755)
    changes = staged(workspace, **{"src/util.py": None})
    moved(workspace, changes, "src/app.py", "src/util.py")
    apply(workspace, changes)
    assert not (root / "src/app.py").exists()
    assert (root / "src/util.py").read_bytes() == data
    assert stat.S_IMODE((root / "src/util.py").stat().st_mode) == 0o755


def test_a_file_takes_the_place_of_a_moved_one(workspace: DirectoryWorkspace, root: Path) -> None:
    app, util = (root / "src/app.py").read_bytes(), (root / "src/util.py").read_bytes()
    changes = ChangeSet()
    moved(workspace, changes, "src/app.py", "src/c.py")
    moved(workspace, changes, "src/util.py", "src/app.py")
    apply(workspace, changes)
    after = tree(root)
    assert (after["src/c.py"], after["src/app.py"]) == (app, util)
    assert "src/util.py" not in after


def test_a_folder_takes_the_place_of_a_moved_file(
    workspace: DirectoryWorkspace, root: Path
) -> None:
    data = (root / "README.md").read_bytes()
    changes = ChangeSet()
    moved(workspace, changes, "README.md", "deep/README.md")
    changes.write("README.md/x", Snapshot(file=None), "x\n")
    apply(workspace, changes)
    assert (root / "README.md/x").read_bytes() == b"x\n"
    assert (root / "deep/README.md").read_bytes() == data


def _delete(workspace: DirectoryWorkspace, changes: ChangeSet) -> None:
    for path in ("deep/x.py", "deep/er/y.py"):
        changes.write(path, asyncio.run(workspace.read(workspace.paths.locate(path))), None)
    changes.write("deep", Snapshot(file=None), "a file\n")


def _move(workspace: DirectoryWorkspace, changes: ChangeSet) -> None:
    moved(workspace, changes, "deep/x.py", "x.py")
    moved(workspace, changes, "deep/er/y.py", "y.py")
    source = asyncio.run(workspace.read(workspace.paths.locate("src/util.py")))
    changes.move("src/util.py", source, "deep", Snapshot(file=None))


@pytest.mark.parametrize("act", [_delete, _move])
@pytest.mark.parametrize("other", ["deep/mine.py", "deep/er/link", None])
def test_a_file_takes_the_place_of_a_folder_that_is_emptied(
    workspace: DirectoryWorkspace,
    root: Path,
    act: Callable[[DirectoryWorkspace, ChangeSet], None],
    other: str | None,
) -> None:
    """`other`: something else is in it."""
    (root / "deep/er").mkdir(parents=True)
    for path in ("deep/x.py", "deep/er/y.py"):
        (root / path).write_text(path)
    changes = ChangeSet()
    act(workspace, changes)
    if other is not None:
        (root / other).symlink_to(root / "src")
    before = tree(root)
    if other is None:
        apply(workspace, changes)
        assert (root / "deep").is_file()
    else:
        with pytest.raises(ConflictError, match="deep: deep is a folder"):
            apply(workspace, changes)
        assert tree(root) == before


def test_a_folder_that_cannot_be_replaced_is_there_again(
    workspace: DirectoryWorkspace, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    changes = ChangeSet()
    for path in ("src/app.py", "src/main.py", "src/util.py"):
        if (root / path).exists():
            changes.write(path, asyncio.run(workspace.read(workspace.paths.locate(path))), None)
    changes.write("src", Snapshot(file=None), "a file\n")
    before, write = tree(root), directory.write

    def full(place: Place, data: Content, mode: int | None = None) -> None:
        if place.path == "src" and data is not None:
            raise OSError(28, os.strerror(28), place.absolute)
        write(place, data, mode)

    monkeypatch.setattr(directory, "write", full)
    with pytest.raises(WorkspaceError, match="nothing was changed: .*src cannot be written"):
        apply(workspace, changes)
    assert tree(root) == before


@pytest.mark.parametrize("is_late", [True, False])
def test_what_is_cancelled_is_taken_back(
    workspace: DirectoryWorkspace, root: Path, monkeypatch: pytest.MonkeyPatch, is_late: bool
) -> None:
    """Late: when all is written, and the block goes on."""
    changes = list(staged(workspace, **{"src/util.py": "x\n", "new/file.py": "y\n"}).changes())
    before, write = tree(root), directory.write
    begun, go_on = threading.Event(), threading.Event()

    def slow(place: Place, data: Content, mode: int | None = None) -> None:
        begun.set()
        go_on.wait()
        write(place, data, mode)

    async def applied(inside: asyncio.Event) -> None:
        async with workspace.applied(changes):
            inside.set()
            await asyncio.Event().wait()

    async def cancelled() -> None:
        inside = asyncio.Event()
        task = asyncio.create_task(applied(inside))
        await (inside.wait() if is_late else asyncio.to_thread(begun.wait))
        task.cancel()
        go_on.set()
        with pytest.raises(asyncio.CancelledError):
            await task

    if not is_late:
        monkeypatch.setattr(directory, "write", slow)
    asyncio.run(cancelled())
    assert tree(root) == before
    assert not (root / "new").exists()


def test_a_file_that_is_replaced_by_a_moved_one_is_compared(
    workspace: DirectoryWorkspace, root: Path
) -> None:
    changes = staged(workspace, **{"src/util.py": None})
    moved(workspace, changes, "src/app.py", "src/util.py")
    (root / "src/util.py").write_text("theirs\n")
    before = tree(root)
    with pytest.raises(ConflictError, match=r"src/util\.py: lines .* changed"):
        apply(workspace, changes)
    assert tree(root) == before


@pytest.mark.parametrize("opened", ["", "hooks"])
@pytest.mark.parametrize("kind", ["bare", "own"])
def test_gits_own_folder_is_no_workspace(tmp_path: Path, kind: str, opened: str) -> None:
    folder = tmp_path / "store"
    subprocess.run(
        ["git", "init", "-q", *(["--bare"] if kind == "bare" else []), str(folder)], check=True
    )
    root = (folder if kind == "bare" else folder / ".git") / opened
    paths = Paths([root])
    for path in ("pre-receive", "hooks/pre-commit", "a.py"):
        with pytest.raises(PathError, match="git's own files"):
            paths.check(paths.locate(path), may_be_ignored=True)
        assert paths.hidden_among([paths.locate(path)])


def test_a_bare_repository_in_the_workspace_is_gits(
    workspace: DirectoryWorkspace, root: Path
) -> None:
    subprocess.run(["git", "init", "-q", "--bare", str(root / "tests/store")], check=True)
    for path in ("tests/store/config", "tests/store/hooks/post-update"):
        with pytest.raises(PathError, match="git's own files"):
            workspace.paths.check(workspace.paths.locate(path))
    workspace.paths.check(workspace.paths.locate("tests/store.py"))


def test_a_work_tree_in_a_bare_repository_is_a_workspace(tmp_path: Path) -> None:
    store = tmp_path / "store"
    subprocess.run(["git", "init", "-q", "--bare", str(store)], check=True)
    (store / "main").mkdir()
    (store / "main/.git").write_text("gitdir: ../worktrees/main\n")
    paths = Paths([store / "main"])
    paths.check(paths.locate("a.py"))


@pytest.mark.parametrize(
    "path", [".GIT/hooks/x", "sub/.Git/config", "git~1/x", ".git./x", ".g\u200cit/x", ".git::$x/y"]
)
def test_what_some_file_systems_take_for_git_is_gits(
    workspace: DirectoryWorkspace, path: str
) -> None:
    with pytest.raises(PathError, match="git's own files"):
        workspace.paths.check(workspace.paths.locate(path))


@pytest.mark.parametrize("path", [".gitignore", ".github/x.yml", "git/x.py", ".gitlab-ci.yml"])
def test_what_begins_like_git_is_not(workspace: DirectoryWorkspace, path: str) -> None:
    workspace.paths.check(workspace.paths.locate(path))


@pytest.mark.parametrize("is_repository", [True, False])
def test_files_that_a_search_comes_upon_are_hidden_as_any_are(
    root: Path, is_repository: bool
) -> None:
    (root / "deep/er").mkdir(parents=True)
    (root / ".gitignore").write_text("build/\n*.log\n!deep/er/kept.log\n")
    (root / "deep/.gitignore").write_text("*.tmp\n")
    (root / "deep/er/.composerignore").write_text("own.py\n")
    subprocess.run(["git", "init", "-q", str(root / "nested")], check=True)
    (root / "nested/.gitignore").write_text("*.py\n")
    subprocess.run(["git", "init", "-q", "--bare", str(root / "store")], check=True)
    if not is_repository:
        shutil.rmtree(root / ".git")
    shown = ["src/app.py", "deep/er/kept.log", "deep/er/a.py", "nested/a.log", ".github/x.yml"]
    hidden = [
        *(".env", "src/server.key", ".ssh/config"),
        *("private/notes.md", "deep/er/own.py"),
        *("build/out.py", "deep/a.log", "deep/er/a.tmp", "nested/a.py"),
        *("store/config", "store/hooks/post-update"),
        *("nested/.git/config", "src/.GIT/x", "git~1/x", "src/.g\u200cit", "src/.git."),
    ]
    for path in (*shown, *hidden):
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).touch()
    paths = Paths([root])
    assert {place.path for place in paths.hidden_among(map(paths.locate, shown + hidden))} == {
        *hidden
    }
    for num_at_once in (1, 4, 100):
        files = paths.found_files(paths.roots[0])
        for start in range(0, len(shown + hidden), num_at_once):
            files.add((shown + hidden)[start : start + num_at_once])
        assert files.hidden() == {*hidden}


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
    changes = staged(workspace, **{"a/b/c.py": "x\n", "src/util.py": "y\n", "src/app.py": "z\n"})
    before = tree(root)
    write = directory.write

    def full(place: Place, data: Content, mode: int | None = None) -> None:
        if place.path == "src/util.py" and data == b"y\n":
            raise OSError(28, os.strerror(28), place.absolute)
        write(place, data, mode)

    monkeypatch.setattr(directory, "write", full)
    with pytest.raises(WorkspaceError, match="nothing was changed: .*util.py cannot be written"):
        apply(workspace, changes)
    assert tree(root) == before
    assert not (root / "a").exists()


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

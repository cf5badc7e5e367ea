"""Git's own state stays as it is, whatever the worker does, and so does unstaged work."""

import os
from pathlib import Path

import pytest

from tests.composer_index.files.trees import repository, run_git, write
from tests.support.workers import Worker

State = dict[str, tuple[int, int, bytes]]


def state_of(*folders: Path) -> State:
    """Time of change, inode and bytes of everything. A file that came and went, a lock among
    them, shows in its folder's time."""
    places = [place for folder in folders for place in (folder, *folder.rglob("*"))]
    return {
        str(place): (
            place.lstat().st_mtime_ns,
            place.lstat().st_ino,
            place.read_bytes() if place.is_file() else b"",
        )
        for place in places
    }


@pytest.fixture
def bait(tmp_path: Path) -> Path:
    """A program that leaves a trace when it runs."""
    program = tmp_path / "bait"
    program.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n")
    program.chmod(0o755)
    return program


@pytest.mark.skipif(os.name == "nt", reason="programs that git runs")
def test_nothing_of_git_changes(tmp_path: Path, bait: Path):
    library = repository(tmp_path / "library", "lib.py")
    root = repository(tmp_path / "workspace", "staged.py", "unstaged.py", "stale.py", "sub/deep.py")
    run_git(root, "submodule", "--quiet", "add", str(library), "module")
    run_git(root, "commit", "-qm", "Submodule")
    work_tree = tmp_path / "linked"
    run_git(root, "worktree", "add", "-q", str(work_tree))
    for name in ("core.fsmonitor", "core.sshCommand", "gpg.program", "diff.external"):
        run_git(root, "config", name, str(bait))
    for name in ("post-checkout", "post-index-change", "pre-auto-gc"):
        (root / ".git" / "hooks").mkdir(exist_ok=True)
        (root / ".git" / "hooks" / name).symlink_to(bait)
    write(root, "staged.py", text="def staged_work():\n    pass\n")
    run_git(root, "-c", "core.fsmonitor=false", "-c", "core.hooksPath=/", "add", "staged.py")
    write(root, "unstaged.py", "module/lib.py", text="def unstaged_work():\n    pass\n")
    write(root, "untracked.py", text="def untracked_work():\n    pass\n")
    write(work_tree, "unstaged.py", text="def other_work():\n    pass\n")
    (root / "stale.py").touch()  # git's index is stale now, and `git status` would refresh it
    (tmp_path / "ran").unlink(missing_ok=True)
    before = state_of(root, work_tree, library)
    environment = {
        # As from an editor that `git commit` has started.
        "GIT_DIR": str(root / ".git"),
        "GIT_INDEX_FILE": str(root / ".git" / "index"),
        "GIT_WORK_TREE": str(root),
    }
    with Worker(tmp_path / "cache", is_hurried=True, environment=environment) as worker:
        for each in (root, work_tree):
            worker.open(each)
        for name in ("staged_work", "unstaged_work", "untracked_work", "other_work"):
            worker.until(lambda name=name: worker.knows(name), name)
        worker.tell("reconcile")
        worker.search("work", root)
        worker.ask("related", path=str(root / "staged.py"), line=1, limit=5)
        worker.tell("changed", paths=[str(root / "stale.py")])
        worker.ask("rebuild")
        worker.until(lambda: worker.knows("other_work") and worker.knows("staged_work"), "it again")
        worker.close()
    assert state_of(root, work_tree, library) == before
    assert not (tmp_path / "ran").exists()

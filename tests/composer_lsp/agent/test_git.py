import os
import stat
import subprocess
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from composer_lsp.agent.git import read_git
from tests.composer_index.files.trees import repository, run_git, write


@pytest.fixture
def bait(tmp_path: Path) -> str:
    """A program that leaves a trace when it runs, and prints what it reads."""
    program = tmp_path / "bait.sh"
    program.write_text(f"#!/bin/sh\ntouch '{tmp_path / 'ran'}'\ncat\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return str(program)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return repository(tmp_path / "r", "a.py")


def clean(root: Path, bait: str) -> None:
    run_git(root, "config", "filter.e.clean", bait)
    write(root, ".gitattributes", text="*.py filter=e\n")


def required(root: Path, bait: str) -> None:
    clean(root, bait)
    run_git(root, "config", "filter.e.required", "true")


def process(root: Path, bait: str) -> None:
    run_git(root, "config", "filter.e.process", bait)
    write(root, ".gitattributes", text="*.py filter=e\n")


def odd_name(root: Path, bait: str) -> None:
    run_git(root, "config", "filter.A b.c.clean", bait)
    (root / ".git" / "info").mkdir(exist_ok=True)
    write(root, ".git/info/attributes", text="*.py filter=x\n")
    run_git(root, "config", "filter.x.CLEAN", bait)


def no_name(root: Path, bait: str) -> None:
    with (root / ".git" / "config").open("a") as config:
        config.write(f'[filter ""]\n\tclean = {bait}\n')
    write(root, ".gitattributes", text="*.py filter=\n")


def included(root: Path, bait: str) -> None:
    run_git(root, "config", "include.path", "../more")
    write(root, "more", text=f'[filter "e"]\n\tclean = {bait}\n')
    write(root, ".gitattributes", text="*.py filter=e\n")


def of_the_work_tree(root: Path, bait: str) -> None:
    run_git(root, "config", "extensions.worktreeConfig", "true")
    run_git(root, "config", "--worktree", "filter.e.clean", bait)
    write(root, ".gitattributes", text="*.py filter=e\n")


def submodule(root: Path, bait: str) -> None:
    repository(root.parent / "other", "b.py")
    run_git(root, "submodule", "--quiet", "add", str(root.parent / "other"), "sub")
    run_git(root, "commit", "-qm", "Sub")
    run_git(root, "config", "status.submoduleSummary", "true")
    run_git(root, "config", "diff.submodule", "diff")
    run_git(root / "sub", "config", "filter.e.clean", bait)
    write(root / "sub", ".gitattributes", text="*.py filter=e\n")
    write(root / "sub", "b.py", text="y\n")


def monitor(root: Path, bait: str) -> None:
    run_git(root, "config", "core.fsmonitor", bait)


def external(root: Path, bait: str) -> None:
    run_git(root, "config", "diff.external", bait)
    run_git(root, "config", "diff.e.command", bait)
    write(root, ".gitattributes", text="*.py diff=e\n")


def conversion(root: Path, bait: str) -> None:
    run_git(root, "config", "diff.e.textconv", bait)
    write(root, ".gitattributes", text="*.py diff=e\n")


@pytest.mark.skipif(os.name == "nt", reason="a shell script")
@pytest.mark.parametrize(
    "lay",
    [
        clean,
        required,
        process,
        odd_name,
        no_name,
        included,
        of_the_work_tree,
        submodule,
        monitor,
        external,
        conversion,
    ],
)
async def test_a_repository_runs_no_program(
    lay: Callable[[Path, str], None], root: Path, bait: str
) -> None:
    lay(root, bait)
    write(root, "a.py", text="y\n")
    ran = root.parent / "ran"
    ran.unlink(missing_ok=True)
    state = await read_git(str(root))

    assert not ran.exists()
    assert " M a.py" in state.status.splitlines()
    assert "-x\n+y\n" in state.diff
    for arguments in (("status",), ("diff", "HEAD")):
        with suppress(subprocess.CalledProcessError):  # the bait speaks no filter's protocol
            run_git(root, *arguments)
    assert ran.exists(), "the bait does not tempt git, so this shows nothing"


async def test_a_filter_that_cannot_be_turned_off_leaves_git_unasked(root: Path, bait: str) -> None:
    run_git(root, "config", "filter.a=b.clean", bait)
    write(root, ".gitattributes", text="*.py filter=a=b\n")
    write(root, "a.py", text="y\n")

    assert (await read_git(str(root))).diff == ""
    assert not (root.parent / "ran").exists()
    run_git(root, "diff", "HEAD")
    assert (root.parent / "ran").exists()


@pytest.mark.skipif(os.name == "nt", reason="a shell script")
async def test_an_object_that_is_not_there_is_not_fetched(root: Path, bait: str) -> None:
    write(root.parent, "bait.sh", text=f"#!/bin/sh\ntouch '{root.parent / 'ran'}'\n")
    for name, value in {
        "extensions.partialClone": "x",
        "remote.x.promisor": "true",
        "remote.x.url": f"ext::{bait}",
        "protocol.ext.allow": "always",
    }.items():
        run_git(root, "config", name, value)
    blob = run_git(root, "rev-parse", "HEAD:a.py").strip()
    (root / ".git" / "objects" / blob[:2] / blob[2:]).unlink()
    write(root, "a.py", text="y\n")

    assert (await read_git(str(root))).status == " M a.py"
    assert not (root.parent / "ran").exists()
    with pytest.raises(subprocess.CalledProcessError):
        run_git(root, "diff", "HEAD")
    assert (root.parent / "ran").exists()


@pytest.mark.parametrize("below", ["", "sub"])
async def test_the_diff_leaves_hidden_files_out(below: str, root: Path) -> None:
    hidden = ("sub/.env", "sub/private/notes.md", "sub/gone.pem", "sub/[x]*.key")
    write(root, ".composerignore", text="private/\n")
    write(root, *hidden, "sub/a.py", "sub/é.py")
    run_git(root, "add", "-A", "-f")
    run_git(root, "commit", "-qm", "Second")
    write(root, *hidden, text="hunter2\n")
    write(root, "sub/a.py", "sub/é.py", text="y\n")
    (root / "sub" / "gone.pem").rename(root / "sub" / "moved.pem")
    write(root, "sub/new.pem", text="hunter2\n")
    run_git(root, "add", "-f", "sub/new.pem")
    run_git(root, "config", "diff.relative", "true")
    state = await read_git(str(root / below))

    assert "hunter2" not in state.diff
    assert [line for line in state.diff.splitlines() if line.startswith("diff ")] == [
        "diff --git a/sub/a.py b/sub/a.py",
        "diff --git a/sub/é.py b/sub/é.py",
    ]


@pytest.mark.parametrize("below", ["", "sub"])
async def test_git_makes_of_the_commit_what_was_there(below: str, root: Path) -> None:
    write(root, "sub/old.py", "sub/gone.py", "sub/run.sh", text="x\ny\n")
    write(root, ".gitignore", text="*.log\n")
    run_git(root, "add", "-A")
    run_git(root, "commit", "-qm", "Second")
    (root / "sub/old.py").write_bytes(b"x\r\n# \xe9\nz")
    (root / "sub/gone.py").unlink()
    (root / "sub/run.sh").chmod(0o755)
    (root / "sub/new é.py").write_bytes("a = 'é'\r\nb".encode())
    write(root, "sub/empty.py", text="")
    write(root, "sub/.env", "sub/ignored.log", text="hunter2\n")
    state = await read_git(str(root / below))

    copy = root.parent / "copy"
    run_git(root, "clone", "-q", "--no-local", str(root), str(copy))
    run_git(copy, "checkout", "-q", state.commit)
    patch = root.parent / "patch"
    patch.write_bytes(state.diff.encode("utf-8", "surrogateescape"))
    run_git(copy, "apply", str(patch))
    expected = files_of(root) - {("sub/.env", b"hunter2\n"), ("sub/ignored.log", b"hunter2\n")}
    assert files_of(copy) == expected
    assert "hunter2" not in state.diff and ".env" not in state.diff


def files_of(root: Path) -> set[tuple[str, bytes]]:
    return {
        (path.relative_to(root).as_posix(), path.read_bytes())
        for path in root.rglob("*")
        if path.is_file() and ".git" not in path.parts
    }


async def test_what_the_diff_cannot_hold_is_named_and_the_rest_is_whole(root: Path) -> None:
    write(root, "b.py")
    (root / "old.bin").write_bytes(b"\0\1")
    run_git(root, "add", "-A")
    run_git(root, "commit", "-qm", "Second")
    write(root, "a.py", text="long = 1\n" * 30_000)
    write(root, "b.py", text="y\n")
    (root / "old.bin").write_bytes(b"\0\2")
    (root / "new.bin").write_bytes(b"\0\xff")
    (root / "link").symlink_to(root.parent)
    repository(root / "inner", "c.py")
    diff = (await read_git(str(root))).diff

    notes, _, patches = diff.partition("diff --git")
    assert sorted(notes.splitlines()) == [
        "# left out: a/a.py b/a.py",
        "# left out: a/old.bin b/old.bin",
        "# left out: new file inner/",
        "# left out: new file link",
        "# left out: new file new.bin",
    ]
    assert patches.endswith("-x\n+y\n") and patches.count("@@") == 2


async def test_of_many_files_that_are_left_out_some_are_named(root: Path) -> None:
    for number in range(25):
        (root / f"{number:02}.bin").write_bytes(b"\xff")
    lines = (await read_git(str(root))).diff.splitlines()
    assert len(lines) == 21
    assert lines[-1] == "# left out: 5 more"

"""What a command with access to a git folder may leave in it."""

import shutil
import subprocess
from pathlib import Path

import pytest

from composer_lsp.agent.commands import Access
from composer_lsp.agent.commands.git_folders import GitFolders

from .conftest import Boxed

GIT = Access(git=True)
EMPTY = ("config", "config.worktree", "objects/info/alternates")
COMMIT = "git add README.md && git -c user.name=a -c user.email=b commit -qm c"


def git(folder: Path, *arguments: str) -> str:
    names = ("-c", "user.name=a", "-c", "user.email=b")
    done = subprocess.run(
        ["git", *names, "-C", str(folder), *arguments],
        check=True,
        capture_output=True,
        text=True,
    )
    return done.stdout


def files(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): path.read_text("utf-8", "replace")
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


async def test_a_command_forges_no_common_folder(boxed: Boxed, tmp_path: Path) -> None:
    (boxed.root / ".gitattributes").write_text("*.md filter=e\n")
    git(boxed.root, "add", ".")
    git(boxed.root, "commit", "-qm", "first")
    host = tmp_path / "host"
    line = (
        "git -c 'alias.x=!cp -r .git /tmp/e; cp -r /tmp/e .git/evil; echo evil > .git/commondir;"
        f' git config -f .git/evil/config filter.e.clean "touch {host}; cat"; echo done\' x'
    )
    result = await boxed.run(line, access=GIT)
    (boxed.root / "README.md").write_text("changed\n")

    assert result.output.endswith("done\n")
    assert git(boxed.root, "status", "--short") == " M README.md\n"
    assert not host.exists()


@pytest.mark.parametrize(
    "line",
    [
        "echo evil > .git/commondir",
        "rm -f .git/commondir; mkdir .git/commondir",
        "rm -f .git/config; echo '[core] pager = ./x' >> .git/config",
        "echo '[core] pager = ./x' > .git/config.worktree",
        "echo x > a; mv a .git/config.worktree",
        "rmdir .git/hooks; mkdir -p .git/hooks; echo x > .git/hooks/pre-commit",
        "mkdir -p .git/modules/x",
        "mkdir -p .git/remotes; echo 'URL: x' > .git/remotes/origin",
        "mkdir -p .git/info; echo '*.md filter=e' > .git/info/attributes",
        "echo /x > .git/objects/info/alternates",
        "mv .git/objects/info .git/objects/i; mkdir .git/objects/info;"
        "echo /x > .git/objects/info/alternates",
        "mv .git/objects .git/o; cp -r .git/o .git/objects;echo /x > .git/objects/info/alternates",
        "mv .git .g; cp -r .g .git; echo evil > .git/commondir",
    ],
)
async def test_what_git_obeys_does_not_come_into_being(boxed: Boxed, line: str) -> None:
    own = boxed.root / ".git"
    for name in ("config", "hooks", "info", "branches"):
        path = own / name
        shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
    before = files(own)
    await boxed.run(line, access=GIT)

    assert files(own) == {**before, **dict.fromkeys(EMPTY, ""), "commondir": ".\n"}
    assert list((own / "modules").iterdir()) == []


async def test_nothing_is_left_of_the_protection(boxed: Boxed) -> None:
    own = boxed.root / ".git"
    (own / "info" / "exclude").unlink()
    (own / "info").rmdir()
    await boxed.run("git status", access=GIT)
    before = sorted(own.iterdir())
    result = await boxed.run(COMMIT, access=GIT)
    boxed.sandbox.close()

    assert result.exit_code == 0, result.output
    assert own / "commondir" in before
    assert {path.name for path in before} - {path.name for path in own.iterdir()} == {
        "commondir",
        "config.worktree",
        "info",
        "modules",
        "remotes",
    }


async def test_the_users_git_goes_on_meanwhile(boxed: Boxed) -> None:
    result = await boxed.run(f"{COMMIT} && git gc -q && git fsck", access=GIT)

    assert result.exit_code == 0, result.output
    git(boxed.root, "worktree", "add", "-q", "tree")
    git(boxed.root, "config", "user.name", "a")
    assert git(boxed.root / "tree", "status", "--short") == ""
    assert git(boxed.root, "rev-parse", "--git-dir", "--is-bare-repository") == ".git\nfalse\n"


async def test_the_work_trees_of_a_repository_obey_nothing_new(boxed: Boxed) -> None:
    git(boxed.root, "commit", "-q", "--allow-empty", "-m", "first")
    git(boxed.root, "worktree", "add", "-q", "tree")
    own = boxed.root / ".git" / "worktrees" / "tree"
    line = (
        "cd .git/worktrees; mv tree t; mkdir tree; cp t/* tree; echo ../../evil > tree/commondir;"
        "echo x > tree/config.worktree; cd ..; mv worktrees w; cp -r w worktrees;"
        "echo ../../evil > worktrees/tree/commondir; cd ../tree;"
        "touch a; git add a; git -c user.name=a -c user.email=b commit -qm second"
    )
    await boxed.run(line, access=GIT)
    boxed.sandbox.close()

    assert (own / "commondir").read_text() == "../..\n"
    assert not (own / "config.worktree").exists()
    assert git(boxed.root / "tree", "log", "-1", "--format=%s") == "second\n"


@pytest.mark.parametrize("setting", ["core.worktree", "core.bare"])
async def test_settings_that_a_common_folder_hides_keep_the_folder_read_only(
    boxed: Boxed, setting: str
) -> None:
    git(boxed.root, "config", setting, "true" if setting == "core.bare" else str(boxed.root))
    result = await boxed.run("touch .git/x", access=GIT)

    assert "Read-only file system" in result.output
    assert not (boxed.root / ".git" / "commondir").exists()


async def test_what_is_no_repository_yet_stays_none(boxed: Boxed) -> None:
    (boxed.root / "sub" / ".git").mkdir(parents=True)
    result = await boxed.run("git init -q sub", access=GIT)

    assert result.exit_code != 0
    assert list((boxed.root / "sub" / ".git").iterdir()) == []


def test_what_another_process_relies_on_stays(workspace: Path) -> None:
    first, second = GitFolders(), GitFolders()
    common = workspace / ".git" / "commondir"
    for each in (first, second):
        each.writable(workspace / ".git")
    first.close()

    assert common.read_text() == ".\n"
    second.close()
    assert not common.exists()

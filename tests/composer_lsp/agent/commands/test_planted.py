"""What a workspace says, by a command's doing or its author's, shows nothing but toolchains."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from composer_lsp.agent.commands import Access
from composer_lsp.agent.commands.masks import secrets_in_toolchains
from composer_lsp.agent.commands.repositories import Repository, repositories
from composer_lsp.agent.commands.toolchains import Toolchains, find_toolchains
from tests.composer_lsp.agent.commands.conftest import Boxed, MakeBoxed

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="bubblewrap is for Linux")

_ENVIRONMENT = "mkdir -p .venv/bin node_modules/.bin; touch .venv/pyvenv.cfg; "

PLANTED = {
    "home of an environment": "echo home = ~/.ssh > .venv/pyvenv.cfg",
    "home folder": "echo home = ~ > .venv/pyvenv.cfg",
    "above the home folder": "echo home = ~/.. > .venv/pyvenv.cfg",
    "bin of a secret folder": "echo home = ~/.aws/bin > .venv/pyvenv.cfg",
    "settings": "echo home = ~/.config/gcloud > .venv/pyvenv.cfg",
    "interpreter": "ln -s ~/.ssh/id_rsa .venv/bin/python",
    "interpreter over a link": "ln -s ~/.ssh .venv/x; ln -s ../x/id_rsa .venv/bin/python3",
    "program on the path": "ln -s ~/.ssh/id_rsa node_modules/.bin/tsc",
    "folder on the path": "rm -r node_modules/.bin; ln -s ~/.ssh node_modules/.bin",
    "environment": "rm -r .venv; ln -s ~/notes .venv",
    "configuration of an environment": "rm .venv/pyvenv.cfg; ln -s ~/notes/cfg .venv/pyvenv.cfg",
    "git folder": "mkdir sub; ln -s ~/.ssh sub/.git",
    "git folder by a relative link": "mkdir sub; ln -s ../../.ssh sub/.git",
    "folder with a git folder": "ln -s ~/notes sub",
    "git configuration": "mkdir -p sub/.git; ln -s ../../../.ssh/id_rsa sub/.git/config",
    "common git folder": (
        "mkdir -p sub git/worktrees/x; echo gitdir: $PWD/git/worktrees/x > sub/.git;"
        "echo $PWD/sub/.git > git/worktrees/x/gitdir; echo ~/.ssh > git/worktrees/x/commondir"
    ),
}

_LOOK = "grep -rs hunter2 ~ . 2>&1; ls -d ~/notes ~/.ssh ~/.aws ~/.config 2>&1 | grep -v 'No such'"


@pytest.fixture
def home(workspace: Path) -> Path:
    home = workspace.parent
    for name in (".aws/bin", ".config/gcloud", "notes/.git", "notes/bin", "notes/lib/python3.9"):
        (home / name).mkdir(parents=True)
    for name in (".aws/bin/x", ".config/gcloud/x", "notes/.git/x", "notes/bin/x", "notes/x"):
        (home / name).write_text("hunter2\n")
    (home / "notes" / "pyvenv.cfg").touch()
    (home / "notes" / "cfg").write_text(f"home = {home}/.ssh\n")
    return home


@pytest.fixture
def boxed_with_paths(make_boxed: MakeBoxed, workspace: Path, home: Path) -> Callable[[], Boxed]:
    """Made when it is called, with folders of the workspace on the PATH."""
    own = f"{workspace}/node_modules/.bin:{workspace}/.venv/bin"
    return lambda: make_boxed(PATH=f"{own}:/usr/bin:/bin", VIRTUAL_ENV=f"{workspace}/.venv")


@pytest.mark.parametrize("line", PLANTED.values(), ids=PLANTED.keys())
async def test_what_a_command_plants_shows_nothing(
    line: str, boxed_with_paths: Callable[[], Boxed], home: Path
) -> None:
    boxed = boxed_with_paths()
    planted = await boxed.run(_ENVIRONMENT + line)

    assert planted.exit_code == 0, planted.output
    assert (await boxed.run(_LOOK)).output == ""
    assert (await boxed.run(_LOOK, access=Access(git=True))).output == ""


@pytest.mark.parametrize("line", PLANTED.values(), ids=PLANTED.keys())
async def test_what_a_repository_brings_shows_nothing(
    line: str, boxed_with_paths: Callable[[], Boxed], workspace: Path, home: Path
) -> None:
    plant(line, workspace, home)
    boxed = boxed_with_paths()

    assert (await boxed.run(_LOOK)).output == ""


def plant(line: str, workspace: Path, home: Path) -> None:
    environ = {**os.environ, "HOME": str(home)}
    subprocess.run(["bash", "-c", _ENVIRONMENT + line], check=True, cwd=workspace, env=environ)


async def test_hooks_that_are_a_link_are_not_followed(boxed: Boxed, home: Path) -> None:
    hooks = boxed.root / ".git" / "hooks"
    for file in hooks.iterdir():
        file.unlink()
    hooks.rmdir()
    hooks.symlink_to("../../.ssh")
    result = await boxed.run("cat .git/hooks/id_rsa; touch .git/x", access=Access(git=True))

    assert "hunter2" not in result.output
    assert "Read-only file system" in result.output


async def test_a_link_to_a_repository_hinders_no_command(boxed: Boxed, home: Path) -> None:
    await boxed.run("ln -s ../notes x; mkdir sub; ln -s ../sub y; mkdir -p sub/.git")

    assert (await boxed.run("cat README.md")).output == "read me\n"


async def test_a_secret_name_covers_no_system_file(boxed: Boxed) -> None:
    await boxed.run("ln -s $(readlink -f /bin/sh) .env.local; ln -s $(readlink -f /bin/bash) a.pem")

    assert (await boxed.run("cat README.md")).output == "read me\n"


async def test_secrets_in_what_is_shown_are_covered(make_boxed: MakeBoxed, workspace: Path) -> None:
    home = workspace.parent
    tool = home / ".pyenv" / "bin" / "tool"
    tool.parent.mkdir(parents=True)
    tool.write_text("#!/bin/sh\necho tool\n")
    tool.chmod(0o755)
    (home / "data" / ".aws").mkdir(parents=True)
    for name in (".pyenv/.env", ".pyenv/credentials", "data/.aws/x", "data/server.pem"):
        (home / name).write_text("hunter2\n")
    boxed = make_boxed(PATH=f"{tool.parent}:/usr/bin:/bin", read_only=(home / "data",))

    assert (await boxed.run("tool; ls ~/data; grep -rs hunter2 ~")).output == "tool\nserver.pem\n"


def test_certificates_and_packages_of_a_toolchain_are_none(tmp_path: Path) -> None:
    for name in ("a/cacert.pem", "a/site-packages/x.key", "b/x.key", "a/c/.netrc", "a/.ssh/x"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    found = secrets_in_toolchains([tmp_path / "a", tmp_path / "b"], [tmp_path / "b"])

    assert sorted(found) == [tmp_path / "a" / ".ssh", tmp_path / "a" / "c" / ".netrc"]


def make_files(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).touch()


def found(workspace: Path, **environ: str) -> Toolchains:
    return find_toolchains([workspace], environ, workspace.parent, [workspace.parent])


def test_an_installation_is_shown_without_what_lies_beside_it(workspace: Path) -> None:
    python = workspace.parent / "py" / "3.x"
    make_files(python, "bin/python3.11", "lib/python3.11/os.py", "notes/x", "x")
    make_files(workspace, ".venv/pyvenv.cfg")
    (workspace / ".venv" / "pyvenv.cfg").write_text(f"home = {python}/bin\n")

    assert found(workspace).folders == {python / "bin", python / "lib"}


def test_a_link_out_of_an_installation_shows_nothing(workspace: Path) -> None:
    python = workspace.parent / "py" / "3.x"
    make_files(python, "bin/python3.11", "lib/python3.11/os.py")
    (python / "share").symlink_to(workspace.parent / ".ssh")
    (python / "include").symlink_to("lib")
    (workspace / ".venv" / "bin").mkdir(parents=True)
    (workspace / ".venv" / "pyvenv.cfg").touch()
    (workspace / ".venv" / "bin" / "python").symlink_to(python / "bin" / "python3.11")

    assert found(workspace) == Toolchains(
        {python / "bin", python / "lib"}, {python / "include": "lib"}
    )


def test_folders_of_known_tools_are_shown_by_the_workspaces_word(workspace: Path) -> None:
    home = workspace.parent
    make_files(home, ".cargo/bin/rg", ".nvm/versions/node/v20/bin/node", "other/.nvm/bin/x")
    programs = workspace / "node_modules" / ".bin"
    programs.mkdir(parents=True)
    (programs / "rg").symlink_to(home / ".cargo" / "bin" / "rg")
    (programs / "node").symlink_to(home / ".nvm" / "versions" / "node" / "v20" / "bin" / "node")
    (programs / "x").symlink_to(home / "other" / ".nvm" / "bin" / "x")

    assert found(workspace, PATH=str(programs)).folders == {home / ".cargo" / "bin", home / ".nvm"}


def test_an_environment_beside_the_workspace_is_shown_by_a_link(workspace: Path) -> None:
    venv = workspace.parent / "envs" / "it"
    make_files(venv, "pyvenv.cfg", "bin/pytest", "lib/python3.11/site-packages/x.py", "notes")
    (workspace / ".venv").symlink_to(venv)

    assert found(workspace).folders == {venv / "bin", venv / "lib", venv / "pyvenv.cfg"}


def test_links_of_the_user_are_made_again(workspace: Path, tmp_path: Path) -> None:
    (workspace.parent / "tools").symlink_to("/usr/bin")

    assert found(workspace, PATH=f"{workspace.parent}/tools") == Toolchains(
        set(), {workspace.parent / "tools": "/usr/bin"}
    )


def test_a_work_tree_may_name_its_repository_by_a_relative_path(
    workspace: Path, home: Path
) -> None:
    own = home / "main" / ".git"
    make_files(own, "HEAD", "objects/x", "refs/x")
    (own / "worktrees" / "tree").mkdir(parents=True)
    (own / "worktrees" / "tree" / "gitdir").write_text("../../../../project/tree/.git\n")
    (own / "worktrees" / "tree" / "commondir").write_text("../..\n")
    (workspace / "tree").mkdir()
    (workspace / "tree" / ".git").write_text(f"gitdir: {own}/worktrees/tree\n")

    assert repositories([workspace], home) == [
        Repository(workspace / "tree" / ".git", own),
        Repository(workspace / ".git", workspace / ".git"),
    ]

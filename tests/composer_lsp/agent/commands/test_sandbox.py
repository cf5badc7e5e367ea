"""What a command in the sandbox sees, may write and reaches; with a real bubblewrap."""

import os
import shutil
import socket
import subprocess
import sys
import sysconfig
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from composer_lsp.agent.commands import Access, Limits, SandboxError
from composer_lsp.agent.commands.bubblewrap import Bubblewrap, find_bubblewrap
from composer_lsp.agent.commands.masks import survey, without_secrets
from composer_lsp.agent.commands.sandbox import Sandbox
from tests.composer_lsp.agent.commands.conftest import LIMIT_S, Boxed, MakeBoxed

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="bubblewrap is for Linux")


def exists(path: str) -> bool:
    return os.path.lexists(path)


def git(folder: Path, *arguments: str) -> None:
    names = ("-c", "user.name=a", "-c", "user.email=b")
    subprocess.run(["git", *names, "-C", str(folder), *arguments], check=True)


async def test_the_workspace_is_writable(boxed: Boxed) -> None:
    result = await boxed.run("pwd; echo hi > new; mkdir sub; cat new README.md")

    assert result.output == f"{boxed.root}\nhi\nread me\n"
    assert (boxed.root / "new").read_text() == "hi\n"


@pytest.mark.parametrize("place", ["/usr/x", "/etc/x", "/x", "/opt/x"])
async def test_nothing_else_is(place: str, boxed: Boxed) -> None:
    result = await boxed.run(f"touch {place}")

    assert "Read-only file system" in result.output
    assert not exists(place)


async def test_what_is_written_beside_the_workspace_stays_in_the_sandbox(boxed: Boxed) -> None:
    await boxed.run("echo x > ~/x; echo y > ../y; echo z > /tmp/z-of-a-test; rm -rf ~/.ssh")

    assert sorted(path.name for path in boxed.root.parent.iterdir()) == [".ssh", "project"]
    assert not exists("/tmp/z-of-a-test")


async def test_commands_of_a_run_share_temporary_files(boxed: Boxed) -> None:
    await boxed.run("echo x > $TMPDIR/x")

    assert (await boxed.run("cat /tmp/x")).output == "x\n"


async def test_the_home_folder_is_empty(boxed: Boxed) -> None:
    result = await boxed.run("ls -A ~ | grep -v -e project -e .cache; cat ~/.ssh/id_rsa")

    assert "hunter2" not in result.output
    assert result.output.endswith("No such file or directory\n")
    assert len(result.output.splitlines()) == 1


async def test_other_peoples_home_folders_are_empty(boxed: Boxed) -> None:
    result = await boxed.run("ls -A /root /home /run /var /mnt 2>&1 | grep -v -e : -e '^$' -e tmp")

    assert set(result.output.split()) <= {*boxed.root.parts}


async def test_secrets_of_the_workspace_are_covered(boxed: Boxed) -> None:
    root = boxed.root
    (root / "conf").mkdir()
    (root / "conf" / "server.key").write_text("hunter2")
    (root / ".aws").mkdir()
    (root / ".aws" / "config").write_text("hunter2")
    (root / "notes").write_text("hunter2")
    (root / ".composerignore").write_text("notes\n")
    (root / "link").symlink_to(".env")

    line = "cat .env conf/server.key .aws/* notes link; grep -r hunter2 .; cp .env a; cat a"
    assert "hunter2" not in (await boxed.run(line)).output
    await boxed.run("mv .env b; rm -f .env; echo x > .env")
    assert (root / ".env").read_text() == "KEY=hunter2\n"


async def test_a_secret_that_a_command_copies_is_covered_by_its_next_one(boxed: Boxed) -> None:
    (boxed.root / "plain").write_text("hunter2")
    await boxed.run("mv plain .env.local")

    assert (await boxed.run("cat .env.local")).output == ""


async def test_certificates_of_packages_are_not_covered(workspace: Path) -> None:
    package = workspace / ".venv" / "lib" / "python3" / "site-packages" / "certifi"
    package.mkdir(parents=True)
    (package / "cacert.pem").write_text("x")

    assert survey([workspace]).hidden == [workspace / ".env"]


async def test_what_only_root_may_read_is_covered(boxed: Boxed) -> None:
    assert (await boxed.run("cat /etc/shadow")).output in (
        "",
        "cat: /etc/shadow: Permission denied\n",
    )


async def test_secrets_of_the_environment_are_left_out(make_boxed: MakeBoxed) -> None:
    boxed = make_boxed(
        GITHUB_TOKEN="hunter2",
        MY_API_KEY="hunter2",
        DB_PASSWORD="hunter2",
        AWS_PROFILE="hunter2",
        DATABASE_URL="postgres://me:hunter2@db/x",
        SSH_AUTH_SOCK="/hunter2",
        CI="1",
    )
    result = await boxed.run("env; cat /proc/*/environ | tr '\\0' '\\n'")

    assert "hunter2" not in result.output
    assert "CI=1\n" in result.output


async def test_there_is_no_network(boxed: Boxed) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        line = f"(: < /dev/tcp/127.0.0.1/{port}) && echo reached"
        refused = await boxed.run(line)
        allowed = await boxed.run(line, access=Access(network=True))

    assert "Connection refused" in refused.output
    assert allowed.output == "reached\n"


async def test_servers_of_a_test_reach_themselves(boxed: Boxed) -> None:
    script = (
        "import socket; s = socket.create_server(('127.0.0.1', 0)); "
        "socket.create_connection(s.getsockname()); print('reached')"
    )
    boxed_python = await boxed.run(f'/usr/bin/env python3 -c "{script}" || echo no python')
    if "no python" in boxed_python.output:
        pytest.skip("this system has no python3 of its own")

    assert boxed_python.output == "reached\n"


async def test_sockets_of_services_are_not_there(boxed: Boxed, tmp_path: Path) -> None:
    """A socket is a file, and no wall of a network keeps anyone from it."""
    path = str(tmp_path / "home" / "agent.sock")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(path)
        result = await boxed.run(f"test -e {path} || test -S /run/docker.sock || echo none")

    assert result.output == "none\n"


async def test_git_reads_but_does_not_write(boxed: Boxed) -> None:
    result = await boxed.run(
        "git add README.md; git status --short; echo x > .git/hooks/pre-commit"
    )

    assert "?? README.md" in result.output
    assert result.output.count("Read-only file system") == 2


async def test_git_writes_where_allowed_but_nothing_that_runs_later(boxed: Boxed) -> None:
    before = (boxed.root / ".git" / "config").read_text()
    line = (
        "git add README.md && git -c user.name=a -c user.email=b commit -qm c && git log --format=%s;"
        "echo x > .git/hooks/post-commit; git config core.fsmonitor ./x; mv .git/hooks .git/h"
    )
    result = await boxed.run(line, access=Access(git=True))

    assert result.output.startswith("c\n")
    assert (boxed.root / ".git" / "config").read_text() == before
    hooks = boxed.root / ".git" / "hooks"
    assert "post-commit" not in [hook.name for hook in hooks.iterdir()]


async def test_keys_in_gits_configuration_are_left_out(boxed: Boxed) -> None:
    git(boxed.root, "remote", "add", "o", "https://me:hunter2@host/x")

    assert (await boxed.run("git remote -v; cat .git/config")).output.count("https://host/x") == 3


def test_what_git_keeps_secret_is_known() -> None:
    config = (
        '[http "https://h/"]\n\textraheader = AUTHORIZATION: basic eA==\n'
        "[credential]\n\thelper = store\n[core]\n\tbare = false\n"
    )

    assert without_secrets(config) == '[http "https://h/"]\n[credential]\n[core]\n\tbare = false\n'


async def test_a_work_tree_shows_its_repository(boxed: Boxed, tmp_path: Path) -> None:
    main = tmp_path / "home" / "main"
    main.mkdir()
    git(main, "init", "-q")
    git(main, "commit", "-q", "--allow-empty", "-m", "first")
    git(main, "worktree", "add", "-q", str(boxed.root / "tree"))

    assert (await boxed.run("cd tree && git log --format=%s")).output == "first\n"


async def test_a_git_file_that_a_command_wrote_shows_nothing(boxed: Boxed, tmp_path: Path) -> None:
    other = tmp_path / "home" / "other" / ".git"
    shutil.copytree(boxed.root / ".git", other)
    (other / "secret").write_text("hunter2")
    await boxed.run(f"mkdir sub; echo 'gitdir: {other}' > sub/.git")

    assert "hunter2" not in (await boxed.run(f"cat {other}/secret")).output


def install(base: Path, link: Path) -> Path:
    """An interpreter below `base`, and a link to it that leads over another link beside `base`, to
    its version: as uv and others lay them out. Returns the link."""
    real_lib = Path(sysconfig.get_path("stdlib"))
    (base / "bin").mkdir(parents=True)
    (base / "lib").mkdir()
    shutil.copytree(
        real_lib,
        base / "lib" / real_lib.name,
        ignore=shutil.ignore_patterns("site-packages", "test", "__pycache__", "idlelib", "*.a"),
        symlinks=True,
    )
    interpreter = base / "bin" / f"python3.{sys.version_info.minor}"
    shutil.copy2(Path(sys.executable).resolve(), interpreter)
    for library in (real_lib.parent).glob("libpython*.so*"):
        shutil.copy2(library, base / "lib" / library.name)
    (base.parent / "current").symlink_to(base.name)
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(base.parent / "current" / "bin" / interpreter.name)
    return link


def make_venv(folder: Path, interpreter: Path) -> None:
    """A virtual environment with pytest in it: the one that runs this test."""
    (folder / "bin").mkdir(parents=True)
    (folder / "bin" / "python").symlink_to(interpreter)
    (folder / "bin" / "python3").symlink_to("python")
    (folder / "pyvenv.cfg").write_text(f"home = {interpreter.parent}\n")
    packages = folder / "lib" / f"python3.{sys.version_info.minor}" / "site-packages"
    packages.mkdir(parents=True)
    for name in ("pytest", "_pytest", "pluggy", "iniconfig", "packaging", "pygments", "py.py"):
        source = Path(sysconfig.get_path("purelib")) / name
        if source.is_file():
            shutil.copy2(source, packages)
        elif source.exists():
            shutil.copytree(source, packages / name, ignore=shutil.ignore_patterns("__pycache__"))
    script = folder / "bin" / "pytest"
    script.write_text(f"#!{folder}/bin/python\nimport pytest, sys\nsys.exit(pytest.main())\n")
    script.chmod(0o755)


@pytest.fixture
def tested(workspace: Path) -> Path:
    (workspace / "test_it.py").write_text(
        "import os, sys\ndef test_it(tmp_path):\n    (tmp_path / 'x').write_text(sys.prefix)\n"
        "    assert not os.path.exists(os.path.expanduser('~/.ssh'))\n"
    )
    return workspace


async def test_pytest_runs_from_an_environment_whose_interpreter_is_under_home(
    make_boxed: MakeBoxed, tested: Path
) -> None:
    local = tested.parent / ".local"
    base = local / "share" / "uv" / "python" / "cpython-3"
    make_venv(tested / ".venv", install(base, local / "bin" / "python3"))
    boxed = make_boxed()

    for line in (".venv/bin/pytest -q", ".venv/bin/python -m pytest -q"):
        result = await boxed.run(line)
        assert "1 passed" in result.output, result.output


async def test_pytest_runs_from_an_active_environment_under_home(
    make_boxed: MakeBoxed, tested: Path
) -> None:
    venv = tested.parent / ".virtualenvs" / "it"
    make_venv(venv, install(tested.parent / "py" / "3.x", tested.parent / "python"))
    boxed = make_boxed(VIRTUAL_ENV=str(venv), PATH=f"{venv}/bin:/usr/bin:/bin")

    result = await boxed.run("pytest -q; touch $VIRTUAL_ENV/x")
    assert "1 passed" in result.output, result.output
    assert "Read-only file system" in result.output


async def test_programs_on_the_path_are_shown_and_nothing_beside_them(
    make_boxed: MakeBoxed, workspace: Path
) -> None:
    home = workspace.parent
    tool = home / ".local" / "share" / "pipx" / "venvs" / "tool" / "bin" / "tool"
    tool.parent.mkdir(parents=True)
    tool.write_text("#!/bin/sh\necho tool\n")
    tool.chmod(0o755)
    (home / ".local" / "bin").mkdir()
    (home / ".local" / "bin" / "tool").symlink_to(tool)
    (home / ".local" / "share" / "keyrings").mkdir()
    (home / ".cargo" / "bin").mkdir(parents=True)
    (home / ".cargo" / "bin" / "cargo").write_text("#!/bin/sh\necho cargo\n")
    (home / ".cargo" / "bin" / "cargo").chmod(0o755)
    (home / ".cargo" / "credentials.toml").write_text("hunter2")
    (home / "bin").mkdir()
    boxed = make_boxed(PATH=f"{home}/.local/bin:{home}/.cargo/bin:{home}/bin:/usr/bin:/bin")

    result = await boxed.run("tool; cargo; ls ~/.local/share ~/.cargo; ls -A ~")
    assert result.output.startswith("tool\ncargo\n")
    assert "keyrings" not in result.output
    assert "credentials" not in result.output
    assert ".ssh" not in result.output


async def test_paths_of_the_users_choice_are_shown(make_boxed: MakeBoxed, workspace: Path) -> None:
    data = workspace.parent / "data"
    data.mkdir()
    (data / "x").write_text("x\n")

    assert (await make_boxed(read_only=(data,)).run(f"cat {data}/x")).output == "x\n"
    assert "No such file" in (await make_boxed().run(f"cat {data}/x")).output


@pytest.mark.skipif(shutil.which("npm") is None, reason="needs npm")
async def test_npm_test_runs_with_its_packages(make_boxed: MakeBoxed, workspace: Path) -> None:
    package = workspace / "node_modules" / "adds"
    package.mkdir(parents=True)
    (package / "package.json").write_text('{"name": "adds", "main": "i.js", "bin": "bin.js"}')
    (package / "i.js").write_text("module.exports = (a, b) => a + b;")
    (package / "bin.js").write_text("#!/usr/bin/env node\nconsole.log('bin ran');")
    (package / "bin.js").chmod(0o755)
    (workspace / "node_modules" / ".bin").mkdir()
    (workspace / "node_modules" / ".bin" / "adds").symlink_to("../adds/bin.js")
    (workspace / "package.json").write_text('{"scripts": {"test": "adds && node --test t.js"}}')
    (workspace / "t.js").write_text(
        "const adds = require('adds');\n"
        "require('node:test')('adds', () => require('node:assert').equal(adds(1, 2), 3));\n"
    )
    result = await make_boxed(PATH=os.environ["PATH"]).run("npm test")

    assert result.exit_code == 0, result.output
    assert "bin ran" in result.output
    assert "pass 1" in result.output


async def test_a_daemon_ends_with_the_command(boxed: Boxed) -> None:
    name = f"composer-test-daemon-{os.getpid()}"
    daemon = f"setsid env -i bash -c 'exec -a {name} sleep 1000'"
    result = await boxed.run(f"{daemon} & sleep 0.2; cat /proc/*/cmdline | tr '\\0' '\\n'")

    assert f"\n{name}\n" in result.output
    assert all(name != (process.info["cmdline"] or [""])[0] for process in each_process())


def each_process() -> Iterator[psutil.Process]:
    return psutil.process_iter(["cmdline"])


@pytest.mark.soak
async def test_a_fork_bomb_ends(make_boxed: MakeBoxed) -> None:
    """By the kernel's limit for a user's processes, by ours for root's."""
    boxed = make_boxed(limits=Limits(max_processes=50))
    result = await boxed.run("b() { b | b & }; b; sleep 1000", timeout_s=2)

    assert result.ended in ("too_many_processes", "timed_out")
    assert result.duration_s < LIMIT_S


async def test_a_time_out_ends_all_of_it(boxed: Boxed) -> None:
    result = await boxed.run("trap 'echo bye; exit 5' TERM; sleep 1000 & wait", timeout_s=1)

    assert (result.output, result.exit_code, result.ended) == ("bye\n", 5, "timed_out")


def test_the_parents_end_is_its_end(boxed: Boxed) -> None:
    """A language server that is killed leaves nothing behind."""
    line = "exec -a composer-test-orphan-of-a-test sleep 1000"
    invocation = boxed.sandbox.invocation(line, boxed.root, Access())
    script = "import subprocess, sys; subprocess.Popen(sys.argv[1:]); input()"
    with subprocess.Popen(
        [sys.executable, "-c", script, *invocation.argv],
        stdin=subprocess.PIPE,
        env=dict(invocation.environ),
    ) as parent:
        orphan = found("composer-test-orphan-of-a-test")
        parent.kill()
    _, alive = psutil.wait_procs([orphan], timeout=LIMIT_S)

    assert alive == []


def found(name: str) -> psutil.Process:
    end_s = time.monotonic() + LIMIT_S
    while time.monotonic() < end_s:
        for process in each_process():
            if (process.info["cmdline"] or [""])[0] == name:
                return process
    raise TimeoutError(name)


async def test_what_cannot_be_set_up_is_told(bubblewrap: Bubblewrap, workspace: Path) -> None:
    boxed = Boxed(
        Sandbox(bubblewrap, [workspace], environ=os.environ, home=workspace.parent), workspace
    )
    shutil.move(workspace, workspace.with_name("moved"))

    with pytest.raises(SandboxError, match="could not be set up"):
        await boxed.run("ls")
    boxed.sandbox.close()


def test_a_workspace_that_holds_the_home_folder_is_refused(
    bubblewrap: Bubblewrap, workspace: Path
) -> None:
    with pytest.raises(SandboxError, match="holds the home folder"):
        Sandbox(bubblewrap, [workspace.parent], environ={}, home=workspace.parent)


def test_no_bubblewrap_is_told(tmp_path: Path) -> None:
    with pytest.raises(SandboxError, match="not installed"):
        find_bubblewrap(str(tmp_path))


def test_a_bubblewrap_that_does_not_work_is_told(tmp_path: Path) -> None:
    fake = tmp_path / "bwrap"
    fake.write_text("#!/bin/sh\necho 'bwrap: No permissions to create new namespace' >&2; exit 1\n")
    fake.chmod(0o755)
    with pytest.raises(SandboxError, match="forbids users to make namespaces"):
        find_bubblewrap(str(tmp_path))


def test_a_bubblewrap_of_the_workspace_is_not_used(tmp_path: Path) -> None:
    fake = tmp_path / "bwrap"
    fake.write_text("#!/bin/sh\nexit 0\n")
    fake.chmod(0o755)
    with pytest.raises(SandboxError, match="not installed"):
        find_bubblewrap(str(tmp_path), [tmp_path])


@pytest.fixture
def environment(workspace: Path) -> Path:
    """A virtual environment in a temporary folder, as some tools make them: with a link in it."""
    venv = workspace.parent.parent / "tools" / "venv"
    for name in ("bin", "lib"):
        (venv / name).mkdir(parents=True)
    (venv / "lib" / "x").write_text("library\n")
    (venv / "lib64").symlink_to("lib")
    (venv / "bin" / "tool").write_text(f"#!/bin/sh\ncat {venv}/lib64/x\n")
    (venv / "bin" / "tool").chmod(0o755)
    (venv.parent / "current").symlink_to("venv")
    return venv


async def test_a_toolchain_in_a_temporary_folder_is_there_for_each_command(
    make_boxed: MakeBoxed, environment: Path
) -> None:
    boxed = make_boxed(PATH=f"{environment.parent}/current/bin:/usr/bin:/bin")
    ruin = f"rm -f {environment}/lib64; ln -s /etc {environment}/lib64; mv {environment.parent} /x"

    for line in ("tool", f"tool; {ruin}", "tool"):
        assert (await boxed.run(line)).output.startswith("library\n")


@pytest.mark.parametrize("temporary", ["/tmp", "/var/tmp"])
async def test_no_planted_link_leads_a_mount_out_of_the_sandbox(
    temporary: str, boxed: Boxed, tmp_path: Path
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    below = boxed.root.relative_to("/tmp")
    for folder in (below, *list(below.parents)[:-1]):
        place = Path(temporary, folder)
        # Where bubblewrap has the disk while it mounts.
        await boxed.run(f"mv {place} {place}-moved; ln -s /oldroot{outside} {place}")
        with suppress(SandboxError):
            await boxed.run("true")

    assert list(outside.iterdir()) == []
    assert (await boxed.run("cat README.md")).output == "read me\n"

"""A workspace, and the sandbox around it where this machine has one."""

import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from composer_lsp.agent.commands import Access, CommandResult, Limits, SandboxError, SandboxSettings
from composer_lsp.agent.commands.bubblewrap import Bubblewrap, find_bubblewrap
from composer_lsp.agent.commands.run import OnOutput, run_command
from composer_lsp.agent.commands.sandbox import Sandbox

LIMIT_S = 120
"""Longest that anything here may take on a busy machine; nothing waits for it."""


@pytest.fixture(scope="session")
def bubblewrap() -> Bubblewrap:
    try:
        return find_bubblewrap(os.environ["PATH"])
    except SandboxError as error:
        if os.environ.get("COMPOSER_REQUIRE_SANDBOX"):
            raise
        pytest.skip(str(error))


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    """A repository in a home folder, with a secret in it, and more in the home folder."""
    root = tmp_path / "home" / "project"
    root.mkdir(parents=True)
    subprocess.run(["git", "init", "-q", str(root)], check=True)
    (root / "README.md").write_text("read me\n")
    (root / ".env").write_text("KEY=hunter2\n")
    ssh = tmp_path / "home" / ".ssh"
    ssh.mkdir()
    (ssh / "id_rsa").write_text("hunter2\n")
    return root


class Boxed:
    """Runs lines in a sandbox around a workspace."""

    def __init__(self, sandbox: Sandbox, root: Path) -> None:
        self.sandbox = sandbox
        self.root = root

    async def run(
        self,
        line: str,
        *,
        access: Access | None = None,
        timeout_s: float = LIMIT_S,
        on_output: OnOutput | None = None,
    ) -> CommandResult:
        invocation = self.sandbox.invocation(line, self.root, access or Access())
        return await run_command(invocation, timeout_s=timeout_s, on_output=on_output)


MakeBoxed = Callable[..., Boxed]


@pytest.fixture
def make_boxed(bubblewrap: Bubblewrap, workspace: Path) -> Iterator[MakeBoxed]:
    """Makes one with other environment variables or limits than the usual ones."""
    made: list[Sandbox] = []

    def make(
        limits: Limits | None = None, read_only: tuple[Path, ...] = (), **environ: str
    ) -> Boxed:
        sandbox = Sandbox(
            bubblewrap,
            [workspace],
            environ={"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8", **environ},
            home=workspace.parent,
            settings=SandboxSettings(limits=limits or Limits(), read_only=read_only),
        )
        made.append(sandbox)
        return Boxed(sandbox, workspace)

    yield make
    for sandbox in made:
        sandbox.close()


@pytest.fixture
def boxed(make_boxed: MakeBoxed) -> Boxed:
    return make_boxed()

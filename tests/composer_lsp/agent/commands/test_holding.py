"""What a command in the background moves while the sandbox of another one is made."""

import asyncio
import sys
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import psutil
import pytest

from composer_lsp.agent.commands import Access, CommandRunner, SandboxError
from composer_lsp.agent.commands.bubblewrap import Bubblewrap
from composer_lsp.agent.commands.holding import holding, may_move
from composer_lsp.agent.commands.run import RunningCommand, run_command
from composer_lsp.agent.commands.shared_folders import Mount
from composer_lsp.agent.commands.shell import Invocation
from tests.composer_lsp.agent.commands.conftest import LIMIT_S, Boxed
from tests.composer_lsp.agent.commands.test_staged import runner_for

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="bubblewrap is for Linux")

_NUM_TRIES = 60
ROOT = Path("/code/a")


def writable(path: Path) -> Mount:
    return ("--bind", path, path)


def covered(path: Path) -> Mount:
    return ("--ro-bind", Path("/nothing"), path)


def test_each_folder_on_the_way_is_held_once() -> None:
    secret, other, git = ROOT / "b" / "c" / ".env", ROOT / "b" / "x.pem", ROOT / ".git"
    mounts = [writable(ROOT), covered(git), covered(git / "config"), covered(secret)]

    assert list(holding([*mounts, covered(other)])) == [
        *(writable(ROOT), covered(git), covered(git / "config")),
        *(writable(ROOT / "b"), writable(ROOT / "b" / "c"), covered(secret), covered(other)),
    ]


def test_only_what_the_disk_has_is_held() -> None:
    overlaid: Mount = ("--bind", Path("/scratch/merged"), ROOT)
    secret = covered(ROOT / "b" / ".env")

    assert list(holding([overlaid, secret])) == [overlaid, secret]


@pytest.mark.parametrize(
    ("place", "moved"),
    [("b", False), ("b/.env", False), ("b/new.pem", True), ("new/.env", True), (".git/x", False)],
)
def test_what_is_mounted_on_cannot_be_moved(place: str, moved: bool) -> None:
    mounts = list(holding([writable(ROOT), covered(ROOT / ".git"), covered(ROOT / "b" / ".env")]))

    assert may_move(mounts, ROOT / place) == moved
    assert not may_move(mounts, ROOT)


@pytest.fixture
async def moving(boxed: Boxed) -> AsyncIterator[Invocation]:
    """Moves the folder of a secret to and fro, with another in its place, as fast as it can."""
    (boxed.root / "d").mkdir()
    (boxed.root / "d" / ".env").write_text("hunter2\n")
    line = (
        "touch began; while :; do mv -T d e && mkdir d; rm -f d/.env; rmdir d; mv -T e d; done "
        "2> /dev/null"
    )
    invocation = boxed.sandbox.invocation(line, boxed.root, Access(), is_background=True)
    running = await RunningCommand.start(invocation)
    async with asyncio.timeout(LIMIT_S):
        while not (boxed.root / "began").exists():
            await asyncio.sleep(0.01)
    yield invocation
    await running.stop()


async def outputs(boxed: Boxed, beside: Sequence[Invocation]) -> str:
    line = "for i in 1 2 3 4 5; do cat d/.env e/.env; done 2> /dev/null; true"
    texts: list[str] = []
    for _ in range(_NUM_TRIES):
        invocation = boxed.sandbox.invocation(line, boxed.root, Access(), beside=beside)
        texts.append((await run_command(invocation, timeout_s=LIMIT_S)).output)
    return "".join(texts)


@pytest.fixture
async def runner(bubblewrap: Bubblewrap, workspace: Path) -> AsyncIterator[CommandRunner]:
    """Without overlays."""
    (workspace / "d").mkdir()
    (workspace / "d" / ".env").write_text("hunter2\n")
    runner = runner_for([workspace], [])
    await runner.open()
    yield runner
    await runner.aclose()


async def test_a_command_in_the_background_has_begun_when_it_has_an_id(
    runner: CommandRunner, workspace: Path
) -> None:
    invocations = [runner.background.invocations()]
    await runner.start("sleep 1000", workspace)
    invocations.append(runner.background.invocations())
    begun = invocations[1][0].begun

    assert invocations[0] == []
    assert begun is not None
    assert list(begun.parent.glob(".composer-*")) == []
    names = {process.name() for process in psutil.Process().children(recursive=True)}
    assert names & {"bash", "sleep"}


async def test_commands_wait_for_the_end_of_one_that_could_uncover_secrets(
    runner: CommandRunner, workspace: Path
) -> None:
    name = await runner.start("sleep 1000", workspace)
    seen = [await runner.run("cat README.md", workspace, timeout_s=LIMIT_S)]
    (workspace / "new").mkdir()
    (workspace / "new" / ".env").write_text("hunter2\n")
    for command in (runner.run, runner.check):
        with pytest.raises(SandboxError, match="stop that one first"):
            await command("cat README.md", workspace, timeout_s=LIMIT_S)
    await runner.background.stop(name)
    seen.append(await runner.run("cat README.md new/.env", workspace, timeout_s=LIMIT_S))

    assert [result.output for result in seen] == ["read me\n"] * 2


async def test_no_secret_is_uncovered_by_moving_its_folder(
    boxed: Boxed, moving: Invocation
) -> None:
    assert await outputs(boxed, [moving]) == ""


async def test_a_secret_that_is_new_beside_a_command_hinders_others(
    boxed: Boxed, moving: Invocation
) -> None:
    (boxed.root / "new").mkdir()
    (boxed.root / "new" / ".env").write_text("hunter2\n")

    with pytest.raises(SandboxError, match="stop that one first"):
        await outputs(boxed, [moving])

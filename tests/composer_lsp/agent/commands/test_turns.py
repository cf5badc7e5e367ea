"""Two runs in one workspace, where commands change the disk itself."""

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from composer_lsp.agent.commands import Answer, Approvals, CommandRunner, Policy, Question
from composer_lsp.agent.commands.bubblewrap import Bubblewrap, SandboxError
from composer_lsp.agent.commands.turns import Turns
from tests.composer_lsp.agent.commands.conftest import LIMIT_S

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="bubblewrap is for Linux")


@pytest.fixture
def turns(tmp_path: Path) -> Callable[..., Turns]:
    def made(*roots: str, wait_s: float = 0.0) -> Turns:
        return Turns([tmp_path / root for root in roots], tmp_path / "locks", wait_s=wait_s)

    return made


@pytest.mark.parametrize(
    ("first", "second", "may"),
    [
        (("a",), ("a",), False),
        (("a",), ("a/b",), False),
        (("a/b",), ("a",), False),
        (("a",), ("b",), True),
        (("a/b",), ("a/c",), True),
        (("a", "b"), ("c", "b/d"), False),
    ],
)
async def test_runs_take_turns_in_a_folder(
    turns: Callable[..., Turns], first: tuple[str, ...], second: tuple[str, ...], may: bool
) -> None:
    one, other = turns(*first), turns(*second)
    async with one.turn():
        if may:
            async with other.turn():
                pass
        else:
            with pytest.raises(SandboxError, match="a command of another run has not ended"):
                await other.take()
    async with other.turn():
        pass


async def test_a_run_may_have_several_commands_at_once(turns: Callable[..., Turns]) -> None:
    one, other = turns("a"), turns("a")
    await one.take()
    await one.take()
    one.give()
    with pytest.raises(SandboxError):
        await other.take()
    one.give()
    await other.take()
    other.give()


async def test_the_second_run_waits(turns: Callable[..., Turns]) -> None:
    one, other = turns("a"), turns("a", wait_s=LIMIT_S)
    await one.take()
    waiting = asyncio.ensure_future(other.take())
    await asyncio.wait([waiting], timeout=0.1)
    assert not waiting.done()
    one.give()
    await waiting
    other.give()


class Yes:
    async def approve(self, question: Question) -> Answer:
        return "once"


@pytest.fixture
async def runners(
    bubblewrap: Bubblewrap, workspace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[list[CommandRunner]]:
    """Two, with a sandbox and without overlays; the second does not wait."""
    monkeypatch.setenv("COMPOSER_STATE_DIR", str(tmp_path / "state"))
    found = [
        CommandRunner(
            [workspace],
            Approvals(Policy(()), Yes()),
            environ={"PATH": os.environ["PATH"]},
            home=workspace.parent,
            scratch=[],
            wait_s=wait_s,
        )
        for wait_s in (LIMIT_S, 0.0)
    ]
    for runner in found:
        await runner.open()
        assert (runner.why_no_sandbox, runner.shows_staged) == (None, False)
    yield found
    for runner in found:
        await runner.aclose()


async def test_no_command_begins_beside_one_of_another_run(
    runners: list[CommandRunner], workspace: Path
) -> None:
    first, second = runners
    name = await first.start("echo up; sleep 1000", workspace)
    # Its own commands are not hindered.
    assert (await first.run("echo 1", workspace, timeout_s=LIMIT_S)).output == "1\n"
    with pytest.raises(SandboxError, match="a command of another run has not ended"):
        await second.run("echo 2", workspace, timeout_s=LIMIT_S)
    with pytest.raises(SandboxError, match="a command of another run has not ended"):
        await second.check("echo 2", workspace, timeout_s=LIMIT_S)
    with pytest.raises(SandboxError, match="a command of another run has not ended"):
        await second.start("echo 2", workspace)
    await first.background.stop(name)
    async with asyncio.timeout(LIMIT_S):
        while True:
            try:
                result = await second.run("echo 2", workspace, timeout_s=LIMIT_S)
                break
            except SandboxError:
                await asyncio.sleep(0.01)
    assert result.output == "2\n"


async def test_a_command_that_ended_by_itself_is_not_waited_for(
    runners: list[CommandRunner], workspace: Path
) -> None:
    first, second = runners
    await second.start("echo 1 > made", workspace)
    result = await first.run("cat made", workspace, timeout_s=LIMIT_S)
    assert result.output == "1\n"

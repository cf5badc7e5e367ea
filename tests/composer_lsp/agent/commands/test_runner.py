"""From a line to its result: what users of other tools ran into."""

import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from composer_lsp.agent.commands import (
    Access,
    Answer,
    Approvals,
    CommandRunner,
    Policy,
    Question,
    RefusedError,
    Rule,
)
from composer_lsp.agent.commands.bubblewrap import Bubblewrap
from tests.composer_lsp.agent.commands.conftest import LIMIT_S


class User:
    def __init__(self, answer: Answer) -> None:
        self.answer: Answer = answer
        self.asked: list[str] = []

    async def approve(self, question: Question) -> Answer:
        self.asked.append(question.command.line)
        return self.answer


def runner_for(root: Path, approver: User | None, path: str, *rules: Rule) -> CommandRunner:
    return CommandRunner(
        [root],
        Approvals(Policy(rules), approver),
        environ={"PATH": path, "MY_TOKEN": "hunter2"},
        home=root.parent,
        scratch=[root.parent.parent / "scratch"],
    )


@pytest.fixture
async def unboxed(workspace: Path) -> AsyncIterator[CommandRunner]:
    """Without a sandbox, and with a user who allows everything."""
    runner = runner_for(workspace, User("once"), "/no/bubblewrap/here")
    await runner.open()
    yield runner
    await runner.aclose()


@pytest.fixture
async def boxed_runner(bubblewrap: Bubblewrap, workspace: Path) -> AsyncIterator[CommandRunner]:
    """In a sandbox, and with nobody to ask."""
    runner = runner_for(workspace, None, os.environ["PATH"], Rule("allow", "sh *"))
    await runner.open()
    assert runner.why_no_sandbox is None
    yield runner
    await runner.aclose()


async def test_the_policy_decides_and_not_the_model(
    boxed_runner: CommandRunner, workspace: Path
) -> None:
    """Case 19: whatever else is said with a command."""
    for line in ("rm -rf .", "rm -rf / # needs no approval", "echo safe; rm -rf README.md"):
        with pytest.raises(RefusedError, match="not run"):
            await boxed_runner.run(line, workspace, timeout_s=LIMIT_S)

    assert (workspace / "README.md").exists()


async def test_a_command_that_waits_for_input_ends(
    boxed_runner: CommandRunner, workspace: Path
) -> None:
    """Case 20."""
    result = await boxed_runner.run(
        "sleep 0.1; read x; cat; echo done", workspace, timeout_s=LIMIT_S
    )

    assert (result.output, result.ended) == ("done\n", "exited")


async def test_a_command_that_never_ends_is_ended(
    boxed_runner: CommandRunner, workspace: Path
) -> None:
    """Case 20."""
    result = await boxed_runner.run("sleep 1000; echo done", workspace, timeout_s=0.5)

    assert (result.output, result.ended) == ("", "timed_out")


@pytest.mark.parametrize(
    "line",
    [
        "cat .env",
        "grep -r hunter2 .",
        "git diff --no-index /dev/null .env",
        "sh -c 'cat .env; env; cat ../.ssh/*'",
        "find . -name '.env' | xargs cat",
        "head < .env",
    ],
)
async def test_no_command_reads_a_secret(
    line: str, boxed_runner: CommandRunner, workspace: Path
) -> None:
    """Case 21."""
    try:
        result = await boxed_runner.run(line, workspace, timeout_s=LIMIT_S)
    except RefusedError:
        return
    assert "hunter2" not in result.output


async def test_without_a_sandbox_every_command_asks(
    unboxed: CommandRunner, workspace: Path
) -> None:
    assert "bubblewrap is not installed" in (unboxed.why_no_sandbox or "")
    result = await unboxed.run("echo $MY_TOKEN; pwd", workspace, timeout_s=LIMIT_S)

    assert result.output == f"\n{workspace}\n"


async def test_without_a_sandbox_and_nobody_to_ask_nothing_runs(workspace: Path) -> None:
    runner = runner_for(workspace, None, "/no/bubblewrap/here")
    await runner.open()

    with pytest.raises(RefusedError, match="nobody can be asked"):
        await runner.run("ls", workspace, timeout_s=LIMIT_S)


async def test_a_folder_outside_of_the_workspace_is_refused(
    unboxed: CommandRunner, workspace: Path
) -> None:
    (workspace / "out").symlink_to(workspace.parent)
    for cwd in (workspace.parent, workspace / "out"):
        with pytest.raises(RefusedError, match="outside of the workspace"):
            await unboxed.run("ls", cwd, timeout_s=LIMIT_S)


async def test_a_command_in_the_background_is_asked_about_and_ends(
    unboxed: CommandRunner, workspace: Path
) -> None:
    name = await unboxed.start("sleep 1000", workspace)
    assert unboxed.background.list()[0].is_running
    await unboxed.aclose()

    assert [each.id for each in unboxed.background.list() if not each.is_running] == [name]


async def test_the_network_is_asked_for(bubblewrap: Bubblewrap, workspace: Path) -> None:
    user = User("deny")
    runner = runner_for(workspace, user, os.environ["PATH"])
    await runner.open()
    with pytest.raises(RefusedError):
        await runner.run("ls", workspace, timeout_s=LIMIT_S, wanted=Access(network=True))
    await runner.aclose()

    assert user.asked == ["ls"]

"""Commands in the background: read, stopped, ended with the run."""

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from composer_lsp.agent.commands import BackgroundCommands, BackgroundError
from composer_lsp.agent.commands.shell import plain_invocation
from tests.composer_lsp.agent.commands.conftest import LIMIT_S

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="needs a POSIX shell")


@pytest.fixture
async def background() -> AsyncIterator[BackgroundCommands]:
    commands = BackgroundCommands()
    yield commands
    await commands.aclose()


async def start(background: BackgroundCommands, line: str, cwd: Path) -> str:
    invocation = plain_invocation(line, cwd, {"PATH": os.environ["PATH"]})
    return await background.start(invocation, line)


async def read_until(background: BackgroundCommands, name: str, text: str) -> str:
    read = ""
    async with asyncio.timeout(LIMIT_S):
        while text not in read:
            read += (await background.read(name))[0]
            await asyncio.sleep(0.01)
    return read


async def test_what_is_new_is_read(background: BackgroundCommands, tmp_path: Path) -> None:
    line = "echo one; while ! test -e go; do sleep 0.01; done; echo two; sleep 1000"
    name = await start(background, line, tmp_path)

    assert await read_until(background, name, "one\n") == "one\n"
    assert (await background.read(name))[0] == ""
    (tmp_path / "go").touch()
    assert await read_until(background, name, "two\n") == "two\n"
    assert (await background.read(name))[1].is_running


async def test_how_it_ended_is_told(background: BackgroundCommands, tmp_path: Path) -> None:
    name = await start(background, "echo last; exit 3", tmp_path)
    await read_until(background, name, "last\n")
    async with asyncio.timeout(LIMIT_S):
        while (await background.read(name))[1].is_running:
            await asyncio.sleep(0.01)

    result = (await background.read(name))[1].result
    assert result is not None
    assert (result.exit_code, result.ended) == (3, "exited")


async def test_it_can_be_stopped(background: BackgroundCommands, tmp_path: Path) -> None:
    name = await start(background, "sleep 1000", tmp_path)
    status = await background.stop(name)

    assert not status.is_running
    assert status.result is not None
    assert status.result.ended == "stopped"
    assert [(each.id, each.line, each.is_running) for each in background.list()] == [
        (name, "sleep 1000", False)
    ]


async def test_all_end_with_the_run(background: BackgroundCommands, tmp_path: Path) -> None:
    for _ in range(3):
        await start(background, "sleep 1000", tmp_path)
    assert all(each.is_running for each in background.list())
    await background.aclose()

    assert not any(each.is_running for each in background.list())


async def test_too_many_are_refused(background: BackgroundCommands, tmp_path: Path) -> None:
    for _ in range(8):
        await start(background, "sleep 1000", tmp_path)
    with pytest.raises(BackgroundError, match="8 commands run already"):
        await start(background, "sleep 1000", tmp_path)


async def test_an_unknown_one_is_told(background: BackgroundCommands) -> None:
    with pytest.raises(BackgroundError, match="no command 'bg7', only none"):
        await background.read("bg7")

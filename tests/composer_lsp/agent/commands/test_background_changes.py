"""What commands in the background change, with a real bubblewrap: taken at their end, and told."""

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path

import pytest

from composer_lsp.agent.commands import (
    Answer,
    Approvals,
    CommandResult,
    CommandRunner,
    Offer,
    Policy,
    Question,
    Staged,
)
from composer_lsp.agent.commands.bubblewrap import Bubblewrap
from tests.composer_lsp.agent.commands.conftest import LIMIT_S

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="bubblewrap is for Linux")


class Yes:
    async def approve(self, question: Question) -> Answer:
        return "once"


class Background:
    """Runs lines in the background, each until it says that it goes on."""

    def __init__(self, root: Path, runner: CommandRunner) -> None:
        self.root = root
        self.runner = runner
        self.offered: list[tuple[str, str]] = []
        self.agrees = False
        self.is_closed = False
        self._mark = root / "node_modules/done"

    async def start(self, line: str, staged: Staged | None = None) -> str:
        line = f"{line}; echo done > node_modules/done; sleep 1000"
        name = await self.runner.start(line, self.root, staged=staged or {})
        async with asyncio.timeout(LIMIT_S):
            while not self._mark.exists():
                await asyncio.sleep(0.01)
        self._mark.unlink()
        return name

    async def taken(self, name: str) -> CommandResult:
        status = await self.runner.background.stop(name)
        assert status.result is not None
        return await self.runner.taken(name, status.result, self._agree)

    async def changes(self, line: str, staged: Staged | None = None) -> dict[str, bytes | None]:
        result = await self.taken(await self.start(line, staged))
        return {path.relative_to(self.root).as_posix(): d for path, d in result.changes.items()}

    async def _agree(self, offers: Sequence[Offer]) -> bool:
        self.offered += [
            (each.path.relative_to(self.root).as_posix(), each.deed) for each in offers
        ]
        return self.agrees


@pytest.fixture
async def background(
    bubblewrap: Bubblewrap, workspace: Path, tmp_path: Path
) -> AsyncIterator[Background]:
    for name, text in {
        ".gitignore": "data/\nbuild/\nnode_modules/\n*.log\n",
        "a.py": "a = 1\n",
        "b.py": "b = 1\n",
        "data/mine": "the user's\n",
        "build/old": "old\n",
        "node_modules/x": "x\n",
    }.items():
        (workspace / name).parent.mkdir(parents=True, exist_ok=True)
        (workspace / name).write_text(text)
    runner = CommandRunner(
        [workspace],
        Approvals(Policy(()), Yes()),
        environ={"PATH": os.environ["PATH"]},
        home=workspace.parent,
        scratch=[tmp_path / "scratch"],
    )
    await runner.open()
    if runner.why_not_staged is not None:
        if os.environ.get("COMPOSER_REQUIRE_SANDBOX"):
            raise AssertionError(runner.why_not_staged)
        pytest.skip(runner.why_not_staged)
    found = Background(workspace, runner)
    yield found
    if not found.is_closed:
        await runner.aclose()
    assert list((tmp_path / "scratch").iterdir()) == []


async def test_what_it_changed_is_taken_once(background: Background) -> None:
    name = await background.start("echo 2 > a.py; rm b.py; echo new > c.py")
    result = await background.taken(name)
    root = background.root
    assert result.changes == {root / "a.py": b"2\n", root / "b.py": None, root / "c.py": b"new\n"}
    assert (root / "a.py").read_text() == "a = 1\n"
    assert (root / "b.py").exists()
    assert (await background.taken(name)).changes == {}


async def test_what_was_staged_and_left_alone_is_no_change(background: Background) -> None:
    root = background.root
    staged = {root / "a.py": b"a = 2\n", root / "b.py": None, root / "new.py": b"1\n"}
    assert await background.changes("cat a.py new.py", staged) == {}
    assert await background.changes("rm a.py new.py", staged) == {"a.py": None, "new.py": None}


async def test_what_git_ignores_is_deleted_if_the_user_agrees(background: Background) -> None:
    name = await background.start("rm -r data")
    assert (background.root / "data/mine").read_text() == "the user's\n"
    result = await background.taken(name)
    assert background.offered == [("data", "deleted")]
    assert result.left_out == (background.root / "data",)
    assert (background.root / "data/mine").read_text() == "the user's\n"
    background.agrees = True
    await background.taken(await background.start("rm -r data"))
    assert not (background.root / "data").exists()


async def test_builds_are_on_the_disk_at_once_and_other_ignored_files_at_the_end(
    background: Background,
) -> None:
    name = await background.start("echo 1 > build/new; echo 1 > data/new; echo 1 > server.log")
    assert (background.root / "build/new").read_text() == "1\n"
    assert not (background.root / "data/new").exists()
    await background.taken(name)
    assert (background.root / "data/new").read_text() == "1\n"
    assert (background.root / "server.log").read_text() == "1\n"


def _edit(root: Path) -> None:
    (root / "a.py").write_text("the user's\n")


def _log(root: Path) -> None:
    (root / "server.log").write_text("the user's\n")


def _data(root: Path) -> None:
    (root / "data/mine").write_text("newer\n")


@pytest.mark.parametrize(
    ("line", "act", "path"),
    [
        ("echo 2 > a.py", _edit, "a.py"),
        ("rm a.py", _edit, "a.py"),
        ("echo 2 > server.log", _log, "server.log"),
        ("echo 2 > data/mine", _data, "data/mine"),
        ("rm data/mine", _data, "data/mine"),
    ],
)
async def test_what_has_changed_on_the_disk_since_stays(
    background: Background, line: str, act: Callable[[Path], None], path: str
) -> None:
    background.agrees = True
    name = await background.start(line)
    act(background.root)
    text = (background.root / path).read_text()
    result = await background.taken(name)
    assert result.stale == (background.root / path,)
    assert result.changes == {}
    assert (background.root / path).read_text() == text


async def test_what_nobody_took_is_told_at_the_end(background: Background) -> None:
    root = background.root
    staged = {root / "b.py": b"b = 2\n"}
    line = "echo 2 > a.py; touch b.py; rm -r data; mkdir empty __pycache__; echo 1 > __pycache__/x"
    await background.start(line, staged)
    (dropped,) = await background.runner.aclose()
    background.is_closed = True
    assert dropped.line.startswith(line)
    assert sorted(dropped.paths) == [root / "a.py", root / "data"]
    assert (root / "data/mine").exists()

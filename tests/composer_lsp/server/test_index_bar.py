"""What a client shows of indexing, against the real `Editor` over a client that only listens."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any, cast

import pytest
from lsprotocol import types
from pygls.lsp.server import LanguageServer

from composer_lsp.server.capabilities import ClientFeatures
from composer_lsp.server.editor import Editor
from composer_lsp.server.index_bar import MANY_FILES, IndexBar


class Client:
    """Plays pygls's server as far as progress needs it; `is_slow` lets a bar wait for `answer`."""

    def __init__(self) -> None:
        self.tokens: list[types.ProgressToken] = []
        self.sent: list[Any] = []
        self.answer = asyncio.Event()
        self.answer.set()

    async def window_work_done_progress_create_async(
        self, params: types.WorkDoneProgressCreateParams
    ) -> None:
        self.tokens.append(params.token)
        await self.answer.wait()

    def progress(self, params: types.ProgressParams) -> None:
        self.sent.append(params.value)

    @property
    def kinds(self) -> Sequence[str]:
        return [value.kind for value in self.sent]


class Shown:
    """A window's bar, how often the user cancelled it, and what the client got."""

    def __init__(self) -> None:
        self.client = Client()
        self.editor = Editor(cast("LanguageServer", self.client))
        self.editor.features = ClientFeatures(work_done_progress=True)
        self.num_cancelled = 0
        self.bar = IndexBar(self.editor, self._on_cancel)

    def _on_cancel(self) -> None:
        self.num_cancelled += 1

    async def report(self, root: str, done: int, left: int) -> None:
        self.bar.report(root, done, left, may_open=True)
        await self.settle()

    async def settle(self) -> None:
        for _ in range(5):
            await asyncio.sleep(0)

    def reports(self) -> list[tuple[str | None, int | None]]:
        return [
            (value.message, value.percentage)
            for value in self.client.sent
            if isinstance(value, types.WorkDoneProgressReport)
        ]


@pytest.fixture
async def shown() -> AsyncIterator[Shown]:
    yield Shown()


async def test_files_done_and_left(shown: Shown):
    await shown.report("/a", 0, 1200)
    await shown.report("/a", 100, 1100)
    assert shown.reports() == [("100 files done, 1,100 left", 8)]
    await shown.report("/a", 0, 0)
    assert shown.client.kinds == ["begin", "report", "end"]


async def test_few_files_open_no_bar(shown: Shown):
    await shown.report("/a", 0, MANY_FILES - 1)
    await shown.report("/a", 0, 0)
    assert shown.client.kinds == []


async def test_two_folders_share_one_bar_that_only_rises(shown: Shown):
    await shown.report("/a", 0, 300)
    await shown.report("/b", 0, 700)
    await shown.report("/a", 200, 100)
    await shown.report("/a", 0, 0)
    await shown.report("/b", 200, 500)
    await shown.report("/b", 200, 5000)
    await shown.report("/b", 0, 0)
    assert shown.client.kinds.count("begin") == 1
    assert shown.client.kinds[-1] == "end"
    assert shown.reports() == [
        ("0 files done, 1,000 left", 0),
        ("200 files done, 800 left", 20),
        ("300 files done, 700 left", 30),
        ("500 files done, 500 left", 50),
        ("500 files done, 5,000 left", 50),
    ]


async def test_a_folder_that_ended_unfinished_leaves_nothing_open(shown: Shown):
    await shown.report("/a", 0, 300)
    await shown.report("/a", 0, 0)
    assert shown.client.kinds == ["begin", "end"]


async def test_a_bar_that_ends_before_the_client_made_it(shown: Shown):
    shown.client.answer.clear()
    await shown.report("/a", 0, 300)
    await shown.report("/a", 0, 0)
    shown.client.answer.set()
    await shown.settle()
    assert shown.client.kinds == ["begin", "end"]


async def test_cancelled_once_and_not_after_its_end(shown: Shown):
    await shown.report("/a", 0, 300)
    shown.editor.on_progress_cancelled(shown.client.tokens[0])
    assert shown.num_cancelled == 1
    await shown.report("/a", 0, 0)
    await shown.report("/a", 0, 300)
    await shown.report("/a", 0, 0)
    shown.editor.on_progress_cancelled(shown.client.tokens[1])
    assert shown.num_cancelled == 1


async def test_what_is_left_after_a_pause_opens_another(shown: Shown):
    await shown.report("/a", 100, 200)
    shown.bar.end("paused")
    await shown.report("/a", 150, 150)
    await shown.report("/a", 200, 100)
    assert shown.client.kinds == ["begin", "end", "begin", "report"]
    assert shown.reports() == [("200 files done, 100 left", 66)]

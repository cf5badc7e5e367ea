"""What a search costs: it is counted in files that are read and in tokens that are compared."""

import asyncio
import threading
from difflib import SequenceMatcher
from typing import Any

import pytest

from composer_lsp.next_edit import proposal, tokens
from composer_lsp.next_edit.finder import next_edit
from composer_lsp.next_edit.source import Source
from tests.composer_lsp.next_edit.drawn import Model, Workspace

NUM_EDITS = 40
MANY_EDITS = "".join(f"def f{n}(«aa→bb{n}»):\n    return 1\n\n" for n in range(NUM_EDITS))


@pytest.fixture
def workspace() -> Workspace:
    workspace = Workspace()
    workspace.open(MANY_EDITS)
    proposal.source_of.cache_clear()
    return workspace


async def test_a_long_session_costs_no_more_than_its_newest_edits(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = _counted(monkeypatch, lambda: None)
    situation = workspace.situation()
    assert len(situation.edits) > 30
    await next_edit(situation, workspace, Model())
    assert 2 <= len(read) <= 13  # the document, and it without each


async def test_a_search_that_was_ended_reads_nothing_more(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, goes_on = threading.Event(), threading.Event()

    def wait() -> None:
        begun.set()
        assert goes_on.wait(60)

    read = _counted(monkeypatch, wait)
    search = asyncio.create_task(next_edit(workspace.situation(), workspace, Model()))
    await asyncio.to_thread(begun.wait, 60)
    search.cancel()
    with pytest.raises(asyncio.CancelledError):
        await search
    goes_on.set()
    await asyncio.get_running_loop().shutdown_default_executor()
    assert len(read) == 1


@pytest.mark.parametrize("is_whole", [True, False])
def test_a_line_of_data_is_compared_where_it_differs(
    monkeypatch: pytest.MonkeyPatch, is_whole: bool
) -> None:
    compared: list[int] = []

    class Matcher(SequenceMatcher[str]):
        def __init__(self, junk: Any, a: Any, b: Any, **options: Any) -> None:
            compared.append(max(len(a), len(b)))
            super().__init__(junk, a, b, **options)

    monkeypatch.setattr(tokens, "SequenceMatcher", Matcher)
    old = tokens.tokens_of("0," * 1900)
    new = tokens.tokens_of("1,2," * 950 if is_whole else "0," * 900 + "x," + "0," * 999)
    (operation,) = tokens.operations(old, new)
    assert compared == ([] if is_whole else [1])
    assert [*old[: operation.start], *operation.new, *old[operation.end :]] == new


def _counted(monkeypatch: pytest.MonkeyPatch, on_read: Any) -> list[str]:
    read: list[str] = []
    read_source = proposal.read_source

    def counted(text: str, language_id: str) -> Source | None:
        read.append(text)
        on_read()
        return read_source(text, language_id)

    monkeypatch.setattr(proposal, "read_source", counted)
    return read

"""What clients with a completion menu make of the server's answers, without an editor."""

import json
from pathlib import Path

import pytest

from tests.support.lsp import CAPABILITIES, JsonObject, start_server

from .harness import snippet


async def test_the_menu_is_announced_by_more_than_an_empty_object(tmp_path: Path) -> None:
    """rass 0.3.5 takes an empty object for no completion at all."""
    without_ghost_text: JsonObject = {**CAPABILITIES, "textDocument": {"synchronization": {}}}
    async with start_server(tmp_path) as client:
        result = await client.initialize(without_ghost_text)

        assert result["capabilities"]["completionProvider"] != {}


@pytest.mark.parametrize("name", ["zed", "sublime"])
def test_snippets_that_are_not_run_are_at_least_well_formed(name: str) -> None:
    assert json.loads(snippet(name))

"""What the index says of other files, against what the client calls the documents it edits."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from composer_lsp.server.next_edit.other_files import WorkspaceFiles
from composer_lsp.server.session import Session


@pytest.mark.parametrize(
    ("uri", "expected"),
    [
        ("file:///w/(app)/a.ts", 0),  # as Neovim writes it
        ("file:///w/%28app%29/a.ts", 0),  # as VS Code does
        ("file:///w/b.ts", 1),
    ],
)
async def test_an_edited_document_is_no_other_file(uri: str, expected: int) -> None:
    async def definitions(name: str) -> list[dict[str, Any]]:
        return [{"root": "/w", "path": "(app)/a.ts"}]

    service = SimpleNamespace(definitions=definitions)
    session = cast("Session", SimpleNamespace(index=SimpleNamespace(service=service)))
    assert await WorkspaceFiles(session, [uri]).definitions("grow") == expected

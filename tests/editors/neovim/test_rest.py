"""Neovim tells where the cursor rests."""

from pathlib import Path

import pytest

from .conftest import StartNeovim
from .harness import Neovim

pytestmark = pytest.mark.editor

RECORD = """
    _G.prepared, _G.copied = {}, {}
    local client = vim.lsp.get_clients({ name = "composer-lsp" })[1]
    local request = client.request
    client.request = function(self, method, params, ...)
      if method == "workspace/executeCommand" and params.command == "composer.prepare" then
        table.insert(_G.prepared, params.arguments[1])
      elseif method == "workspace/executeCommand" and params.command == "composer.copied" then
        table.insert(_G.copied, params.arguments[1])
      end
      return request(self, method, params, ...)
    end
"""


def prepared(neovim: Neovim) -> list[dict[str, object]]:
    return neovim.lua("return _G.prepared")


def test_the_cursors_rests_are_told_once(start_neovim: StartNeovim, folder: Path) -> None:
    neovim = start_neovim([])
    file = folder / "a.py"
    file.write_text("one = 1\ntwo = 'é' + two\n")
    neovim.edit(file, 1)
    neovim.lua(RECORD)

    neovim.keys("j$")
    neovim.wait("the rest is told", lambda: prepared(neovim))
    [told] = prepared(neovim)
    place = {"line": 1, "character": 15}  # in UTF-8, as agreed upon
    assert told == {"uri": file.as_uri(), "range": {"start": place, "end": place}}

    neovim.keys("kj")  # Back at the same place, in the same text.
    neovim.keys("k")
    neovim.wait("the next rest is told", lambda: len(prepared(neovim)) == 2)
    assert "Error" not in neovim.errors()
    assert neovim.notices == []


def test_what_is_copied_is_told_and_what_is_deleted_is_not(
    start_neovim: StartNeovim, folder: Path
) -> None:
    neovim = start_neovim([])
    file = folder / "a.py"
    file.write_text("one = 1\ntwo = 2\nthree = 3\nfour = 4\n")
    neovim.edit(file, 2)
    neovim.lua(RECORD)

    neovim.keys("ddVjy")
    neovim.wait("the copy is told", lambda: neovim.lua("return _G.copied"))
    start, end = {"line": 1, "character": 0}, {"line": 3, "character": 0}
    expected = {"uri": file.as_uri(), "range": {"start": start, "end": end}}
    assert neovim.lua("return _G.copied") == [expected]

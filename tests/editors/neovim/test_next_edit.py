"""The next edit in Neovim: shown, jumped to, taken and put away."""

from pathlib import Path
from typing import Any

import pytest

from .conftest import StartNeovim
from .harness import Neovim

pytestmark = pytest.mark.editor

AREA = "def area(w):\n    return w\n\n\nx = 1\nprint('😀', area(1))\ny = area(2)\n"
ENGINE: list[dict[str, Any]] = []

MARKS = """
local found = {}
local id = vim.api.nvim_create_namespace("composer.next_edit")
for _, mark in ipairs(vim.api.nvim_buf_get_extmarks(0, id, 0, -1, { details = true })) do
  local text = ""
  for _, chunk in ipairs(mark[4].virt_text or {}) do text = text .. chunk[1] end
  for _, line in ipairs(mark[4].virt_lines or {}) do text = text .. "|" .. line[1][1] end
  table.insert(found, { mark[2], mark[3], mark[4].hl_group or "", mark[4].end_col or -1, text })
end
return found
"""


def marks(neovim: Neovim) -> list[list[Any]]:
    return neovim.lua(MARKS)


def hint(neovim: Neovim) -> str:
    return "".join(text for *_, text in marks(neovim) if "line" in text).strip()


def is_shown(neovim: Neovim) -> bool:
    return neovim.lua('return require("composer.next_edit").current() ~= nil')


def cursor(neovim: Neovim) -> tuple[int, int]:
    return tuple(neovim.api.current.window.cursor)


def in_file(neovim: Neovim, folder: Path, text: str = AREA, name: str = "areas.py") -> Path:
    file = folder / name
    file.write_text(text)
    neovim.edit(file)
    return file


def rename(neovim: Neovim) -> None:
    neovim.keys("wcwsurface<Esc>")
    neovim.wait("the next edit", lambda: is_shown(neovim))


@pytest.mark.editor_ci
def test_jump_take_and_so_on_to_the_last(start_neovim: StartNeovim, folder: Path) -> None:
    neovim = start_neovim(ENGINE)
    file = in_file(neovim, folder)
    rename(neovim)

    assert hint(neovim) == "<Tab>: Rename area to surface, line 6"
    start = len("print('😀', ".encode())
    shown = [mark for mark in marks(neovim) if "line" not in mark[4]]
    assert [5, start, "ComposerDelete", start + 4, ""] in shown
    assert [5, start + 4, "", -1, "surface"] in shown
    neovim.keys("<Tab>")
    neovim.wait("the jump", lambda: cursor(neovim) == (6, start))
    assert neovim.text == AREA.replace("def area", "def surface")[:-1]
    assert hint(neovim) == ""
    neovim.keys("<Tab>")
    neovim.wait("the next one", lambda: "line 7" in hint(neovim))
    neovim.keys("<Tab><Tab>")
    neovim.wait_text(AREA.replace("area(", "surface(")[:-1])
    neovim.wait("no other", lambda: not is_shown(neovim))
    neovim.keys(":w<CR>")
    neovim.wait("the file", lambda: file.read_text() == AREA.replace("area(", "surface("))
    assert "Error" not in neovim.errors()
    assert neovim.notices == []


def test_escape_puts_it_away_for_good(start_neovim: StartNeovim, folder: Path) -> None:
    neovim = start_neovim(ENGINE)
    in_file(neovim, folder)
    rename(neovim)

    neovim.keys("<Esc>")
    neovim.wait("nothing shown", lambda: not is_shown(neovim))
    assert marks(neovim) == []
    neovim.keys("jA  # edited<Esc>")
    neovim.wait("an answer", lambda: asked_and_answered(neovim))
    assert not is_shown(neovim)
    neovim.keys(":Composer next<CR>")
    neovim.wait("what was asked for", lambda: is_shown(neovim))


def asked_and_answered(neovim: Neovim) -> bool:
    """Sends a request of its own behind those of the plugin, whose order the server keeps."""
    return neovim.lua(
        'local c = vim.lsp.get_clients({ bufnr = 0, name = "composer-lsp" })[1]\n'
        "local p = vim.lsp.util.make_position_params(0, c.offset_encoding)\n"
        "p.textDocument.version = vim.lsp.util.buf_versions[vim.api.nvim_get_current_buf()]\n"
        'local r = c:request_sync("textDocument/copilotInlineEdit", p, 20000, '
        "vim.api.nvim_get_current_buf())\n"
        "return r ~= nil and r.result ~= nil and #r.result.edits == 0"
    )


def test_undo_hides_it(start_neovim: StartNeovim, folder: Path) -> None:
    neovim = start_neovim(ENGINE)
    in_file(neovim, folder)
    rename(neovim)

    neovim.keys("u")
    neovim.wait_text(AREA[:-1])
    neovim.wait("nothing shown", lambda: not is_shown(neovim))
    assert marks(neovim) == []


def test_keys_do_what_they_did_where_nothing_is_shown(
    start_neovim: StartNeovim, folder: Path
) -> None:
    neovim = start_neovim(
        ENGINE, before='vim.keymap.set("n", "<Tab>", function() vim.g.users = 1 end)'
    )
    in_file(neovim, folder)

    neovim.keys("<Tab><Esc>")
    neovim.wait("the user's own key", lambda: neovim.api.vars.get("users") == 1)
    neovim.keys("A")
    neovim.keys("<Tab>x<Esc>")
    neovim.wait("a tab", lambda: neovim.text.startswith("def area(w):    x"))


def test_while_typing_the_key_that_indents_indents(start_neovim: StartNeovim, folder: Path) -> None:
    neovim = start_neovim(ENGINE)
    in_file(neovim, folder)
    neovim.keys("wcwsurface")
    neovim.wait("the next edit", lambda: is_shown(neovim))
    neovim.keys("<Tab>")
    neovim.wait("the jump", lambda: cursor(neovim)[0] == 6)
    neovim.keys("<Tab>")
    neovim.wait("the edit", lambda: "print('😀', surface(1))" in neovim.text)
    assert neovim.lua("return vim.api.nvim_get_mode().mode") == "i"


def test_into_another_file(start_neovim: StartNeovim, folder: Path) -> None:
    (folder / ".git").mkdir()
    (folder / "main.py").write_text("# 😀\nfrom areas import area\nprint(area(1))\n")
    neovim = start_neovim(ENGINE)
    in_file(neovim, folder, "def area(w):\n    return w\n")

    def finds() -> bool:
        found = neovim.lua(
            'local c = vim.lsp.get_clients({ bufnr = 0, name = "composer-lsp" })[1]\n'
            'local r = c:request_sync("workspace/symbol", { query = "area" }, 20000)\n'
            "return r ~= nil and r.result ~= nil and #r.result > 0"
        )
        return bool(found)

    neovim.wait("the index", finds)
    neovim.keys("wcwsurface<Esc>")
    neovim.keys(":Composer next<CR>")
    neovim.wait("the next edit", lambda: "main.py line 2" in hint(neovim))
    neovim.keys("<Tab>")
    neovim.wait("the other file", lambda: neovim.text.startswith("# "))
    neovim.wait("its edit", lambda: any(mark[4] == "surface" for mark in marks(neovim)))
    neovim.keys("<Tab>")
    neovim.wait("the import", lambda: "from areas import surface\n" in neovim.text)
    neovim.wait("its next edit", lambda: is_shown(neovim))
    neovim.keys("<Tab><Tab>")
    neovim.wait_text("# 😀\nfrom areas import surface\nprint(surface(1))")


def test_a_text_that_moved_on_is_not_drawn_on(start_neovim: StartNeovim, folder: Path) -> None:
    neovim = start_neovim(ENGINE)
    in_file(neovim, folder)
    rename(neovim)
    neovim.lua("vim.api.nvim_buf_set_lines(0, 0, 0, false, { '# a', '# b' })")
    assert not is_shown(neovim)
    assert not neovim.lua('return require("composer").next_edit()')
    neovim.wait("it again, two lines below", lambda: "line 8" in hint(neovim))


SIDEKICK = """
local client = vim.lsp.get_clients({ bufnr = 0, name = "composer-lsp" })[1]
local buf = vim.api.nvim_get_current_buf()
local params = vim.lsp.util.make_position_params(0, client.offset_encoding)
params.textDocument.version = vim.lsp.util.buf_versions[buf]
params.context = { triggerKind = 2 }
local answer = client:request_sync("textDocument/copilotInlineEdit", params, 20000, buf)
local edits = answer.result.edits
local text_edits = vim.tbl_map(function(edit)
  assert(edit.textDocument.version == vim.lsp.util.buf_versions[buf])
  assert(vim.uri_to_fname(edit.textDocument.uri) == vim.api.nvim_buf_get_name(buf))
  return { range = edit.range, newText = edit.text }
end, edits)
vim.lsp.util.apply_text_edits(text_edits, buf, client.offset_encoding)
for _, edit in ipairs(edits) do client:exec_cmd(edit.command, { bufnr = buf }) end
return #edits
"""


def test_as_sidekick_asks(start_neovim: StartNeovim, folder: Path) -> None:
    """The steps of sidekick.nvim: ask with the version, apply what has it, run the command."""
    neovim = start_neovim(ENGINE, options="{ keys = { next_edit = false } }")
    in_file(neovim, folder)
    neovim.keys("wcwsurface<Esc>")
    neovim.wait("the change", lambda: neovim.text.startswith("def surface"))
    assert neovim.lua(SIDEKICK) == 1
    assert neovim.lua(SIDEKICK) == 1
    assert neovim.lua(SIDEKICK) == 0
    assert neovim.text == AREA.replace("area(", "surface(")[:-1]
    assert neovim.notices == []

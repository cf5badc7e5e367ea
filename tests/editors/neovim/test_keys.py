"""Keys with nothing to accept do what they did before."""

from pathlib import Path

import pytest

from .conftest import StartNeovim

pytestmark = pytest.mark.editor

SPACES = "vim.o.expandtab = true; vim.o.shiftwidth = 4; vim.o.softtabstop = 4"


@pytest.mark.parametrize(
    ("before", "expected"),
    [
        pytest.param("", "\tx", id="no mapping"),
        pytest.param('vim.keymap.set("i", "<Tab>", "mine")', "minex", id="keys"),
        pytest.param(
            'vim.keymap.set("i", "<Tab>", function() return "<C-v>u00b5" end, { expr = true })',
            "µx",
            id="expression in Lua",
        ),
        pytest.param("vim.cmd([[inoremap <expr> <Tab> 'a' .. 'b']])", "abx", id="expression"),
        pytest.param(
            'vim.keymap.set("i", "<Tab>", function() vim.g.pressed = 1 end)', "x", id="function"
        ),
        pytest.param(
            'vim.keymap.set("i", "<Plug>(mine)", "plug")\nvim.cmd("imap <Tab> <Plug>(mine)")',
            "plugx",
            id="mapped further",
        ),
    ],
)
def test_tab_falls_through(
    start_neovim: StartNeovim, folder: Path, before: str, expected: str
) -> None:
    neovim = start_neovim([], before=before)
    (folder / "notes.txt").write_text("")
    neovim.edit(folder / "notes.txt")

    neovim.keys("i<Tab>x")

    neovim.wait_text(expected)


def test_tab_of_the_buffer_falls_through(start_neovim: StartNeovim, folder: Path) -> None:
    before = (
        'vim.api.nvim_create_autocmd("FileType", { callback = function() '
        'vim.keymap.set("i", "<Tab>", "mine", { buffer = true }) end })'
    )
    neovim = start_neovim([], before=before)
    (folder / "notes.txt").write_text("")
    neovim.edit(folder / "notes.txt")

    neovim.keys("i<Tab>")

    neovim.wait_text("mine")


def test_tab_mapped_after_setup_falls_through(start_neovim: StartNeovim, folder: Path) -> None:
    neovim = start_neovim([])
    (folder / "notes.txt").write_text("")
    neovim.edit(folder / "notes.txt")
    neovim.lua('vim.keymap.set("i", "<Tab>", "later")')

    neovim.keys("i<Tab>")

    neovim.wait_text("later")


def test_tab_after_a_newline_indents(start_neovim: StartNeovim, folder: Path) -> None:
    rules = [
        {"match": r"h\):\n$", "text": "    return w * h"},
        {"match": r"h\):\n    $", "text": "return w * h"},
    ]
    neovim = start_neovim(rules, before=SPACES)
    (folder / "area.py").write_text("")
    neovim.edit(folder / "area.py")
    neovim.api.command("setlocal indentexpr= noautoindent")

    neovim.keys("idef area(w, h):<CR>")
    neovim.wait_ghost("    return w * h")
    neovim.keys("<Tab>")
    neovim.wait_text("def area(w, h):\n    ")
    neovim.wait_ghost("return w * h")
    neovim.keys("<Tab>")
    neovim.wait_text("def area(w, h):\n    return w * h")


def test_keys_are_free_to_change(start_neovim: StartNeovim, folder: Path) -> None:
    neovim = start_neovim(
        [{"match": r"total = $", "text": "sum(values)"}],
        options='{ keys = { accept = "<C-l>", accept_word = false } }',
    )
    (folder / "sums.py").write_text("")
    neovim.edit(folder / "sums.py")

    neovim.keys("itotal = ")
    neovim.wait_ghost("sum(values)")
    assert neovim.lua('return vim.fn.maparg("<M-Right>", "i")') == ""
    neovim.keys("<C-l>")
    neovim.wait_text("total = sum(values)")


def test_tab_in_front_of_ours_falls_through_to_accept(
    start_neovim: StartNeovim, folder: Path
) -> None:
    """As completion plugins do: on entering insert mode they map the key in the buffer, and call
    what was mapped before when their menu is closed."""
    before = """
      vim.api.nvim_create_autocmd("InsertEnter", { callback = function(event)
        if vim.b[event.buf].is_mapped then return end
        vim.b[event.buf].is_mapped = true
        local earlier = vim.fn.maparg("<Tab>", "i", false, true)
        vim.keymap.set("i", "<Tab>", function()
          if vim.g.is_menu_open then return "menu" end
          return earlier.callback()
        end, { buffer = event.buf, expr = true, replace_keycodes = false })
      end })
    """
    neovim = start_neovim([{"match": r"total = $", "text": "sum(values)"}], before=before)
    (folder / "sums.py").write_text("")
    neovim.edit(folder / "sums.py")

    neovim.keys("itotal = ")
    neovim.wait_ghost("sum(values)")
    neovim.lua("vim.g.is_menu_open = true")
    neovim.keys("<Tab>")
    neovim.wait_text("total = menu")
    neovim.lua("vim.g.is_menu_open = false")
    neovim.keys("<BS><BS><BS><BS>")
    neovim.wait_ghost("sum(values)")
    neovim.keys("<Tab>")
    neovim.wait_text("total = sum(values)")


def test_tab_walks_through_the_menu_that_it_is_mapped_for(
    start_neovim: StartNeovim, folder: Path
) -> None:
    before = """
      vim.o.completeopt = "menuone,noinsert,noselect"
      vim.keymap.set("i", "<Tab>", function()
        return vim.fn.pumvisible() == 1 and "<C-n>" or "<Tab>"
      end, { expr = true })
    """
    neovim = start_neovim([{"match": r"total = s$", "text": "um(values)"}], before=before)
    (folder / "sums.py").write_text("salt\nsugar\n\n")
    neovim.edit(folder / "sums.py", 3)

    neovim.keys("itotal = s")
    neovim.wait_ghost("um(values)")
    neovim.keys("<C-n>")
    neovim.wait("the menu", lambda: neovim.lua("return vim.fn.pumvisible()") == 1)
    neovim.keys("<Tab>")

    neovim.wait_text("salt\nsugar\ntotal = salt")


def test_accept_from_the_users_own_mapping(start_neovim: StartNeovim, folder: Path) -> None:
    before = """
      vim.keymap.set("i", "<C-l>", function()
        return require("composer").accept() and "" or "nothing"
      end, { expr = true })
    """
    neovim = start_neovim([{"match": r"total = $", "text": "sum(values)"}], before=before)
    (folder / "sums.py").write_text("")
    neovim.edit(folder / "sums.py")

    neovim.keys("i<C-l>")
    neovim.wait_text("nothing")
    neovim.keys("<C-u>total = ")
    neovim.wait_ghost("sum(values)")
    neovim.keys("<C-l>")
    neovim.wait_text("total = sum(values)")

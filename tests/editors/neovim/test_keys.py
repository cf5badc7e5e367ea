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

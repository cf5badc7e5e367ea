"""The index: its commands, and that it is compared with the files when Neovim comes back."""

from pathlib import Path

import pytest

from .conftest import StartNeovim
from .harness import Neovim

pytestmark = pytest.mark.editor

SYMBOLS = """
local client = vim.lsp.get_clients({ name = "composer-lsp" })[1]
local answer = client:request_sync("workspace/symbol", { query = ... }, 30000, 0)
return #(answer and answer.result or {})
"""


@pytest.fixture
def project(folder: Path) -> Path:
    (folder / "pyproject.toml").write_text("")
    (folder / "shop.py").write_text("def total_price():\n    pass\n")
    return folder


def wait_symbol(neovim: Neovim, name: str) -> None:
    neovim.wait(f"the symbol {name}", lambda: neovim.lua(SYMBOLS, name))


def open_project(start_neovim: StartNeovim, project: Path) -> Neovim:
    neovim = start_neovim([])
    neovim.edit(project / "pyproject.toml")
    wait_symbol(neovim, "total_price")
    return neovim


@pytest.mark.parametrize("event", ["FocusGained", "VimResume"])
def test_what_no_event_told_is_found_when_neovim_comes_back(
    start_neovim: StartNeovim, project: Path, tmp_path: Path, event: str
) -> None:
    neovim = open_project(start_neovim, project)
    # Written by a name outside of the folder, which nobody watches.
    elsewhere = tmp_path / "elsewhere.py"
    elsewhere.hardlink_to(project / "shop.py")
    elsewhere.write_text("def sell_umbrella():\n    pass\n")
    (project / "later.py").write_text("def rent_bicycle():\n    pass\n")
    wait_symbol(neovim, "rent_bicycle")
    assert not neovim.lua(SYMBOLS, "sell_umbrella")

    if event == "FocusGained":
        neovim.api.ui_attach(80, 24)
        neovim.api.request("nvim_ui_set_focus", False)
        neovim.api.request("nvim_ui_set_focus", True)
    else:
        neovim.api.command("doautocmd VimResume")

    wait_symbol(neovim, "sell_umbrella")
    assert neovim.notices == []


def test_coming_back_without_a_server_says_nothing(start_neovim: StartNeovim) -> None:
    neovim = start_neovim(variables={"VIRTUAL_ENV": "/nowhere"})
    neovim.api.command("doautocmd FocusGained")
    assert neovim.notices == []
    assert "Error" not in neovim.errors()


def command(neovim: Neovim, words: str, told: str) -> None:
    """Runs `:Composer WORDS` until it tells what is expected."""

    def is_told() -> bool:
        neovim.lua("_G.notices = {}")
        neovim.api.command(f"Composer {words}")
        neovim.wait(f"an answer to :Composer {words}", lambda: neovim.notices)
        return told in neovim.notices[-1]

    neovim.wait(told, is_told)


def test_commands(start_neovim: StartNeovim, project: Path) -> None:
    neovim = open_project(start_neovim, project)
    command(neovim, "index", f"{project}: ready, 2 files, 0 waiting")
    command(neovim, "index status", f"{project}: ready, 2 files, 0 waiting")
    neovim.api.command("Composer index pause")
    command(neovim, "index status", f"{project}: ready, paused, 2 files")
    neovim.api.command("Composer index pause")
    command(neovim, "index status", f"{project}: ready, 2 files")
    command(neovim, "index rebuild", "the index is built anew")
    wait_symbol(neovim, "total_price")
    command(neovim, "index polish", '"polish" is none of pause, rebuild, status')

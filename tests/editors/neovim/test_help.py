"""`:help composer` tells everything that there is, under tags that lead there."""

import re
from pathlib import Path

import pytest

from .conftest import StartNeovim
from .harness import PLUGIN, Neovim

pytestmark = pytest.mark.editor

HELP = PLUGIN / "doc" / "composer.txt"
DEFAULTS = 'return require("composer.config").options'


@pytest.fixture
def neovim(start_neovim: StartNeovim, tmp_path: Path) -> Neovim:
    """Neovim with the help in a folder of its own, where a tags file may be written."""
    folder = tmp_path / "help"
    (folder / "doc").mkdir(parents=True)
    (folder / "doc" / HELP.name).write_text(HELP.read_text())
    neovim = start_neovim(variables={"VIRTUAL_ENV": ""})
    neovim.lua("vim.opt.runtimepath:prepend(...)", str(folder))
    neovim.api.command(f"helptags {folder / 'doc'}")
    return neovim


def text_under(neovim: Neovim, tag: str) -> str:
    """The help's text from the tag on, up to the next line."""
    neovim.api.command(f"help {tag}")
    assert neovim.api.current.buffer.name.endswith("/help/doc/composer.txt"), tag
    line = neovim.api.current.window.cursor[0]
    return "\n".join(neovim.api.current.buffer[line - 1 : line + 1])


def lua_functions() -> list[str]:
    source = (PLUGIN / "lua" / "composer" / "init.lua").read_text()
    return re.findall(r"^function M\.(\w+)", source, re.MULTILINE)


def highlight_groups() -> set[str]:
    sources = (PLUGIN / "lua").rglob("*.lua")
    return {
        group
        for source in sources
        for group in re.findall(r'nvim_set_hl\(0, "(\w+)"', source.read_text())
    }


def test_lines_are_narrow_enough() -> None:
    assert [line for line in HELP.read_text().splitlines() if len(line) > 78] == []


def test_every_tag_leads_there_and_every_link_somewhere(neovim: Neovim) -> None:
    text_under(neovim, "composer")
    text = HELP.read_text()
    for tag in re.findall(r"(?<=\s)\*([^\s*]+)\*$", text, re.MULTILINE):
        text_under(neovim, tag)
    # Neovim 0.11 lacks the help of what it lacks.
    newer = {"lsp-inline_completion", "hl-ComplHint", "hl-ComplHintMore"}
    for link in set(re.findall(r"\|([^\s|]+)\|", text)) - newer:
        neovim.api.command(f"help {link}")


def test_every_option_is_told_with_its_default(neovim: Neovim) -> None:
    options = neovim.lua(DEFAULTS)
    text = HELP.read_text()
    for name in ["cmd", *options]:
        assert name in text_under(neovim, f"composer-options-{name}")
    example = re.search(r"With their defaults: >lua\n(.*?)^<", text, re.DOTALL | re.MULTILINE)
    assert example is not None
    neovim.lua(example[1])
    assert neovim.lua(DEFAULTS) == options
    for name, key in options["keys"].items():
        assert re.search(rf"^`{re.escape(key)}`\s+`{name}`\s", text, re.MULTILINE), name


def test_every_command_is_told(neovim: Neovim) -> None:
    names = neovim.api.funcs.getcompletion("Composer ", "cmdline")
    assert names
    for name in names:
        assert f":Composer {name}" in text_under(neovim, f":Composer-{name}")


def test_every_function_is_told(neovim: Neovim) -> None:
    names = lua_functions()
    assert "accept" in names
    for name in names:
        assert f"composer.{name}(" in text_under(neovim, f"composer.{name}()")


def test_every_highlight_group_is_told(neovim: Neovim) -> None:
    groups = highlight_groups()
    assert "ComposerSuggestion" in groups
    for group in groups:
        assert group in text_under(neovim, f"hl-{group}")
        assert neovim.lua("return vim.api.nvim_get_hl(0, { name = ... }).link", group)

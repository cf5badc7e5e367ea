"""The plugin installed as docs/neovim.md says, in a home with nothing else."""

import subprocess
from pathlib import Path

import pytest

from .conftest import StartNeovim
from .harness import ROOT, Neovim, server_program

pytestmark = pytest.mark.editor

SUM = [{"match": r"total = $", "text": "sum(values)"}]
PACKAGE = ".local/share/nvim/site/pack/composer/start/composer.nvim"
NOTICES = """
_G.notices = {}
vim.notify = function(message, level) table.insert(_G.notices, { message, level or 2 }) end
"""

# What lazy.nvim's documentation says of `dir`, `main` and `opts`: the folder comes into the runtime
# path, its plugin files are sourced, then `require(MAIN).setup(opts)` is called; Neovim does not load
# plugins by itself any more.
LIKE_LAZY = """
vim.go.loadplugins = false
local function setup(specs)
  for _, spec in ipairs(specs) do
    local dir = vim.fs.normalize(spec.dir)
    vim.opt.runtimepath:prepend(dir)
    for _, file in ipairs(vim.fn.globpath(dir, "plugin/**/*.lua", false, true)) do
      vim.cmd.source(file)
    end
    require(spec.main).setup(spec.opts)
  end
end
"""


@pytest.fixture
def on_the_path(program: Path) -> dict[str, str]:
    """No virtual environment; the server and Neovim are found by the PATH alone."""
    folders = [str(Path(server_program()).parent), str(program.parent), "/usr/bin", "/bin"]
    return {"VIRTUAL_ENV": "", "PATH": ":".join(folders)}


def export(destination: Path, path: str) -> None:
    script = ROOT / "scripts" / "export_neovim_plugin.sh"
    environment = {"PATH": path, "HOME": str(destination)}
    subprocess.run(["bash", str(script), str(destination)], env=environment, check=True)


def assert_it_works(neovim: Neovim, folder: Path) -> None:
    file = folder / "sums.py"
    file.write_text("")
    neovim.edit(file)
    neovim.keys("itotal = ")
    neovim.wait_ghost("sum(values)")
    neovim.keys("<Tab><Esc>:w<CR>")
    neovim.wait("the file on disk", lambda: file.read_text() == "total = sum(values)\n")
    assert neovim.notices == []
    assert "Error" not in neovim.errors()
    assert neovim.api.funcs.exists(":Composer") == 2


def test_package(
    start_neovim: StartNeovim, folder: Path, tmp_path: Path, on_the_path: dict[str, str]
) -> None:
    export(tmp_path / PACKAGE, on_the_path["PATH"])
    init = NOTICES + 'require("composer").setup{}\n'
    neovim = start_neovim(SUM, variables=on_the_path, init=init)

    assert_it_works(neovim, folder)
    neovim.api.command("help composer")
    assert neovim.api.current.buffer.name == str(tmp_path / PACKAGE / "doc" / "composer.txt")


def test_export_replaces_an_earlier_one_and_nothing_else(
    tmp_path: Path, on_the_path: dict[str, str]
) -> None:
    package = tmp_path / "composer.nvim"
    export(package, on_the_path["PATH"])
    (package / "lua" / "composer" / "gone.lua").touch()
    export(package, "/usr/bin:/bin")
    assert not (package / "lua" / "composer" / "gone.lua").exists()
    assert (package / "LICENSE").exists()
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "file").touch()
    with pytest.raises(subprocess.CalledProcessError):
        export(tmp_path / "other", "/usr/bin:/bin")
    assert (tmp_path / "other" / "file").exists()


@pytest.mark.parametrize("where", ["checkout", "exported folder"])
def test_spec_of_lazy_nvim(
    start_neovim: StartNeovim,
    folder: Path,
    tmp_path: Path,
    on_the_path: dict[str, str],
    where: str,
) -> None:
    """Lua's side of the documented line, under a stand-in that does what lazy.nvim documents."""
    line = '{ dir = "~/composer/editor-clients/neovim", opts = {}, main = "composer" }'
    assert line in (ROOT / "docs" / "neovim.md").read_text()
    if where == "checkout":
        (tmp_path / "composer").symlink_to(ROOT)
    else:
        export(tmp_path / "composer.nvim", on_the_path["PATH"])
        line = line.replace("~/composer/editor-clients/neovim", "~/composer.nvim")
    neovim = start_neovim(
        SUM, variables=on_the_path, init=f"{NOTICES}{LIKE_LAZY}setup({{ {line} }})\n"
    )

    assert_it_works(neovim, folder)

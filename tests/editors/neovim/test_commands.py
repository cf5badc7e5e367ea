"""`:Composer pull` and what is told where something is missing or too old."""

import sys
from pathlib import Path

import pytest

from composer_inference import environment as composer_environment
from composer_inference.models.store import ModelStore

from .conftest import StartNeovim, unavailable
from .harness import Neovim, lua

pytestmark = pytest.mark.editor

PULLING_SERVER = Path(__file__).with_name("pulling_server.py")
SMALL_MODEL = "qwen2.5-coder-0.5b"
OLD = """
local has = vim.fn.has
vim.fn.has = function(what) return what == "nvim-0.11" and 0 or has(what) end
"""


def wait_status(neovim: Neovim, words: str) -> None:
    neovim.wait(
        f"the status {words!r}",
        lambda: neovim.lua('return require("composer").status()') == words,
    )


def wait_notice(neovim: Neovim, words: str) -> None:
    neovim.wait(f"the message {words!r}", lambda: words in neovim.notices)


@pytest.mark.parametrize(
    ("model", "told"),
    [
        ("small", "Composer: the model is in /models/small.gguf"),
        ("broken", "Composer: the disk is full: 491 MB are needed"),
    ],
)
def test_pull(start_neovim: StartNeovim, folder: Path, model: str, told: str) -> None:
    words = [sys.executable, str(PULLING_SERVER), str(folder)]
    neovim = start_neovim([], options=f"{{ cmd = {{ {', '.join(map(lua, words))} }} }}")
    (folder / "sums.py").write_text("")
    neovim.edit(folder / "sums.py")
    wait_status(neovim, "Composer")

    neovim.api.command(f"Composer pull {model}")
    wait_notice(neovim, "Composer: fetching the model; see :Composer status")
    wait_status(neovim, "Composer: downloading 42%%")
    line = "return vim.api.nvim_eval_statusline(..., {}).str"
    shown = neovim.lua(line, "%{%v:lua.require'composer'.status()%}")
    assert shown == "Composer: downloading 42%"
    neovim.api.command("Composer status")
    # The name of the model in use follows, once one is loaded.
    progress = f"Composer: Downloading {model}: 42%"
    neovim.wait(progress, lambda: neovim.notices[-1].startswith(progress))
    (folder / "go").touch()

    wait_notice(neovim, told)
    wait_status(neovim, "Composer")
    levels = [level for message, level in neovim.lua("return _G.notices") if message == told]
    error, info = neovim.lua("return { vim.log.levels.ERROR, vim.log.levels.INFO }")
    assert levels == [error if model == "broken" else info]


def test_pull_of_a_model_that_is_there(start_neovim: StartNeovim, folder: Path) -> None:
    model = ModelStore().find(SMALL_MODEL)
    if model is None:
        unavailable(f"{SMALL_MODEL} is not installed: run composer-lsp model pull {SMALL_MODEL}")
    neovim = start_neovim([], variables={"COMPOSER_DATA_DIR": str(composer_environment.data_dir())})
    (folder / "sums.py").write_text("")
    neovim.edit(folder / "sums.py")

    neovim.api.command(f"Composer pull {SMALL_MODEL}")

    wait_notice(neovim, f"Composer: the model is in {model.path}")


def test_pull_of_an_unknown_model(start_neovim: StartNeovim, folder: Path) -> None:
    neovim = start_neovim([])
    (folder / "sums.py").write_text("")
    neovim.edit(folder / "sums.py")

    neovim.api.command("Composer pull frobnicate")

    neovim.wait("the error", lambda: len(neovim.notices) > 1)
    assert "frobnicate" in neovim.notices[-1]


def test_restart_of_the_engine(start_neovim: StartNeovim, folder: Path) -> None:
    neovim = start_neovim([])
    (folder / "sums.py").write_text("")
    neovim.edit(folder / "sums.py")
    (process,) = neovim.server_processes

    neovim.api.command("Composer restart engine")

    neovim.wait("an answer", lambda: neovim.notices)
    assert neovim.server_processes == [process]


@pytest.mark.parametrize("command", ["status", "snooze", "toggle", "log", "pull"])
def test_commands_without_a_server_say_where_to_look(
    start_neovim: StartNeovim, command: str
) -> None:
    neovim = start_neovim(variables={"VIRTUAL_ENV": ""})

    neovim.api.command(f"Composer {command}")

    assert "not running; see :checkhealth composer" in neovim.notices[-1]


def test_doctor_without_a_server(start_neovim: StartNeovim) -> None:
    neovim = start_neovim(variables={"VIRTUAL_ENV": ""})

    neovim.api.command("Composer doctor")

    assert "pipx install" in neovim.notices[-1]


def test_a_server_that_was_installed_meanwhile(
    start_neovim: StartNeovim, folder: Path, environment: dict[str, str]
) -> None:
    neovim = start_neovim(
        [{"match": r"total = $", "text": "sum(values)"}],
        variables={"VIRTUAL_ENV": str(folder / "venv")},
    )
    (folder / "sums.py").write_text("")
    neovim.api.command(f"edit {folder / 'sums.py'}")
    wait_status(neovim, "Composer: not installed")

    (folder / "venv").symlink_to(environment["VIRTUAL_ENV"])
    neovim.api.command("Composer restart")

    neovim.wait_attached()
    neovim.keys("itotal = ")
    neovim.wait_ghost("sum(values)")


def test_an_old_neovim_is_told(start_neovim: StartNeovim, folder: Path) -> None:
    neovim = start_neovim(before=OLD)
    (folder / "sums.py").write_text("")
    neovim.api.command(f"edit {folder / 'sums.py'}")

    assert neovim.notices == ["Composer needs Neovim 0.11 or newer"]
    assert neovim.server_processes == []
    neovim.api.command("checkhealth composer")
    neovim.wait("the report", lambda: "ERROR" in neovim.text)
    assert "Neovim is too old" in neovim.text
    assert "Install Neovim 0.11 or newer" in neovim.text


def test_checkhealth_of_a_server_that_does_not_run(start_neovim: StartNeovim) -> None:
    neovim = start_neovim(options='{ cmd = { "/bin/false" } }')

    neovim.api.command("checkhealth composer")

    neovim.wait("the report", lambda: "ERROR" in neovim.text)
    assert "/bin/false does not run" in neovim.text

"""How the plugin lives with its language server."""

import os
import signal
from pathlib import Path

import pytest

from .conftest import StartNeovim
from .harness import Neovim, server_program, wait_for

pytestmark = pytest.mark.editor

SUM = [{"match": r"total = $", "text": "sum(values)"}]


def in_file(neovim: Neovim, folder: Path, name: str = "sums.py") -> None:
    (folder / name).write_text("")
    neovim.edit(folder / name)


def command(neovim: Neovim, words: str) -> str:
    """Runs `:Composer WORDS` and returns what it told."""
    neovim.lua("_G.notices = {}")
    neovim.api.command(f"Composer {words}")
    neovim.wait(f"an answer to :Composer {words}", lambda: neovim.notices)
    return neovim.notices[-1]


def status(neovim: Neovim) -> str:
    return neovim.lua('return require("composer").status()')


def wait_status(neovim: Neovim, words: str) -> None:
    neovim.wait(f"the status {words!r}", lambda: status(neovim) == words)


def test_a_missing_server_is_told_once_with_the_way_to_get_it(
    start_neovim: StartNeovim, folder: Path
) -> None:
    neovim = start_neovim(variables={"VIRTUAL_ENV": str(folder / "none")})
    for name in ("first.py", "second.py"):
        (folder / name).write_text("")
        neovim.api.command(f"edit {folder / name}")

    assert len(neovim.notices) == 1
    assert f"{folder}/none/bin/composer-lsp" in neovim.notices[0]
    assert "pipx install" in neovim.notices[0]
    assert status(neovim) == "Composer: not installed"
    neovim.keys("i<Tab>x")
    neovim.wait_text("    x")


def test_a_configured_server_that_is_missing_is_named(
    start_neovim: StartNeovim, folder: Path
) -> None:
    neovim = start_neovim(options='{ cmd = { "/nowhere/composer-lsp" } }')
    (folder / "sums.py").write_text("")
    neovim.api.command(f"edit {folder / 'sums.py'}")

    assert "/nowhere/composer-lsp" in neovim.notices[0]


def test_the_server_on_the_path(start_neovim: StartNeovim, folder: Path) -> None:
    programs = Path(server_program()).parent
    variables = {"VIRTUAL_ENV": "", "PATH": f"{programs}:/usr/bin:/bin"}
    neovim = start_neovim(SUM, variables=variables)
    in_file(neovim, folder)

    neovim.keys("itotal = ")
    neovim.wait_ghost("sum(values)")


def test_a_wrong_option_is_named(start_neovim: StartNeovim) -> None:
    neovim = start_neovim()

    for options, complaint in [
        ("{ comand = {} }", 'there is no option "comand"'),
        ('{ keys = { acept = "<Tab>" } }', 'there is no key "acept"'),
        ("{ settings = 1 }", "settings: expected table, got number"),
    ]:
        ok, error = neovim.lua(f'return {{ pcall(require("composer").setup, {options}) }}')
        assert not ok
        assert complaint in error


def test_a_killed_server_comes_back_without_a_message(
    start_neovim: StartNeovim, folder: Path
) -> None:
    neovim = start_neovim(SUM)
    in_file(neovim, folder)
    neovim.keys("itotal = ")
    neovim.wait_ghost("sum(values)")

    for _ in range(2):
        (process,) = neovim.server_processes
        os.kill(process, signal.SIGKILL)
        neovim.wait(
            "another server", lambda dead=process: neovim.server_processes not in ([], [dead])
        )
        neovim.wait("no ghost text of the dead one", lambda: neovim.ghost == "")
        neovim.wait_attached()
        neovim.keys("<Esc>ggdGitotal = ")
        neovim.wait_ghost("sum(values)")

    neovim.keys("<Tab>")
    neovim.wait_text("total = sum(values)")
    assert neovim.notices == []
    assert "quit" not in neovim.errors()


def test_a_server_that_keeps_stopping_is_told_once(start_neovim: StartNeovim, folder: Path) -> None:
    neovim = start_neovim(options='{ cmd = { "/bin/false" } }')
    (folder / "sums.py").write_text("")
    neovim.api.command(f"edit {folder / 'sums.py'}")

    neovim.wait("a message", lambda: neovim.notices)
    (notice,) = neovim.notices
    assert "keeps stopping" in notice
    assert "checkhealth composer" in notice
    assert status(neovim) == "Composer: stopped"


def test_the_server_leaves_with_neovim(start_neovim: StartNeovim, folder: Path) -> None:
    neovim = start_neovim(SUM)
    in_file(neovim, folder)
    (process,) = neovim.server_processes

    neovim.close()

    wait_for("the server's end", lambda: not Path(f"/proc/{process}").exists())


def test_one_server_for_all_projects(start_neovim: StartNeovim, folder: Path) -> None:
    neovim = start_neovim(SUM)
    for name in ("one", "two"):
        (folder / name / ".git").mkdir(parents=True)
        (folder / name / "sums.py").write_text("")
        neovim.edit(folder / name / "sums.py")

    assert len(neovim.server_processes) == 1
    folders = neovim.lua(
        "return vim.tbl_map(function(f) return f.name end, vim.lsp.get_clients()[1].workspace_folders)"
    )
    assert folders == [str(folder / "one"), str(folder / "two")]
    neovim.keys("itotal = ")
    neovim.wait_ghost("sum(values)")


def test_two_buffers_without_a_name(start_neovim: StartNeovim) -> None:
    rules = [{"match": r"first\n?.*= $", "text": "1"}, {"match": r"second\n?.*= $", "text": "2"}]
    neovim = start_neovim(rules)
    neovim.keys("ifirst = ")
    neovim.wait_ghost("1")
    neovim.keys("<Esc>:hide enew<CR>isecond = ")
    neovim.wait_ghost("2")
    neovim.keys("<Esc>:hide buffer 1<CR>ofirst, again = ")
    neovim.wait_ghost("1")
    neovim.keys("<Tab>")
    neovim.wait_text("first = \nfirst, again = 1")
    assert neovim.notices == []


def test_other_buffers_have_no_server(start_neovim: StartNeovim, folder: Path) -> None:
    neovim = start_neovim(SUM, options='{ disabled_filetypes = { "text" } }')
    in_file(neovim, folder)
    (folder / "notes.txt").write_text("")
    for open_buffer in ("help", f"edit {folder / 'notes.txt'}"):
        neovim.api.command(open_buffer)
        assert neovim.lua("return #vim.lsp.get_clients({ bufnr = 0 })") == 0


def test_status_snooze_and_toggle(start_neovim: StartNeovim, folder: Path) -> None:
    neovim = start_neovim(SUM)
    in_file(neovim, folder)
    neovim.keys("itotal = ")
    neovim.wait_ghost("sum(values)")  # The model is loaded: the state does not change by itself.
    neovim.keys("<Esc>")
    wait_status(neovim, "Composer")

    assert command(neovim, "status") == "Composer: Ready (scripted)"
    assert "snoozed" in command(neovim, "snooze 15")
    wait_status(neovim, "Composer: snoozed")
    assert command(neovim, "snooze 0") == "Composer: Ready (scripted)"
    assert command(neovim, "toggle") == "Composer: suggestions are off for all files"
    wait_status(neovim, "Composer: off")
    assert command(neovim, "toggle global") == "Composer: suggestions are on for all files"
    assert command(neovim, "toggle python") == "Composer: suggestions are off for python"
    neovim.keys("cctotal = <M-]>")
    neovim.wait_ghost("sum(values)")  # An explicit request is answered all the same.


def test_wrong_words_are_told(start_neovim: StartNeovim, folder: Path) -> None:
    neovim = start_neovim(SUM)
    in_file(neovim, folder)

    assert '"frobnicate" is none of' in command(neovim, "frobnicate")
    assert '"soon" is not a number of minutes' in command(neovim, "snooze soon")
    assert "0 to 1440 minutes" in command(neovim, "snooze 5000")


def test_completion_of_the_command(start_neovim: StartNeovim) -> None:
    neovim = start_neovim()

    complete = neovim.api.funcs.getcompletion
    names = ["doctor", "index", "log", "next", "pull", "restart", "snooze", "status", "toggle"]
    assert complete("Composer ", "cmdline") == [*names, "why"]
    assert complete("Composer s", "cmdline") == ["snooze", "status"]
    assert complete("Composer restart ", "cmdline") == ["engine", "server"]


def test_restart_and_log(start_neovim: StartNeovim, folder: Path) -> None:
    neovim = start_neovim(SUM)
    in_file(neovim, folder)
    (process,) = neovim.server_processes

    neovim.api.command("Composer restart")
    neovim.wait("another server", lambda: neovim.server_processes not in ([], [process]))
    neovim.wait_attached()
    neovim.keys("itotal = ")
    neovim.wait_ghost("sum(values)")
    neovim.keys("<Esc>:Composer log<CR>")
    neovim.wait("the log", lambda: neovim.api.current.buffer.name.endswith(".log"))
    assert neovim.notices == []


def test_doctor_runs_in_a_terminal(start_neovim: StartNeovim, folder: Path) -> None:
    neovim = start_neovim(SUM)
    in_file(neovim, folder)

    neovim.api.command("Composer doctor")

    neovim.wait("the doctor's words", lambda: "composer-lsp" in neovim.text)
    assert neovim.lua("return vim.bo.buftype") == "terminal"


def test_checkhealth(start_neovim: StartNeovim, folder: Path) -> None:
    neovim = start_neovim(SUM)
    in_file(neovim, folder)
    wait_status(neovim, "Composer")

    neovim.api.command("checkhealth composer")

    neovim.wait("the report", lambda: "The language server runs: Ready" in neovim.text)
    assert server_program() in neovim.text
    assert "ERROR" not in neovim.text


def test_checkhealth_without_a_server(start_neovim: StartNeovim) -> None:
    neovim = start_neovim(variables={"VIRTUAL_ENV": ""})

    neovim.api.command("checkhealth composer")

    neovim.wait("the report", lambda: "ERROR" in neovim.text)
    assert "composer-lsp was not found in the PATH" in neovim.text
    assert "pipx install" in neovim.text

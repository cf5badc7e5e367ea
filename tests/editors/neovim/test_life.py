"""What happens to buffers, modes and the server while suggestions are shown or on their way."""

import os
import signal
from pathlib import Path

import pytest

from .conftest import StartNeovim
from .harness import COUNT_REQUESTS, Neovim, settle, wait_request

pytestmark = pytest.mark.editor

SUM = [{"match": r"total = $", "text": "sum(values)"}]
SLOW = [{"match": r"(total = |# Sums\n)$", "text": "sum(values)", "token_delay_ms": 700}]


def in_file(neovim: Neovim, folder: Path, text: str = "", line: int = 1) -> Path:
    file = folder / "sums.py"
    file.write_text(text)
    neovim.edit(file, line)
    return file


def assert_quiet(neovim: Neovim) -> None:
    assert neovim.notices == []
    assert "Error" not in neovim.errors()
    assert "E5108" not in neovim.errors()


@pytest.mark.parametrize("command", ["edit!", "bdelete! | edit #", "hide enew | buffer #"])
def test_a_buffer_that_is_loaded_again(
    start_neovim: StartNeovim, folder: Path, command: str
) -> None:
    neovim = start_neovim(SUM)
    in_file(neovim, folder)
    neovim.keys("itotal = ")
    neovim.wait_ghost("sum(values)")

    neovim.keys(f"<Esc>:{command}<CR>")
    neovim.wait("the file", lambda: neovim.api.current.buffer.name.endswith("sums.py"))
    neovim.wait_attached()
    neovim.keys("ototal = ")
    neovim.wait_ghost("sum(values)")
    neovim.keys("<Tab>")
    neovim.wait("the text", lambda: neovim.text.endswith("\ntotal = sum(values)"))
    assert_quiet(neovim)


@pytest.mark.parametrize("keys", ["total = ", "total = <M-]>"])
def test_a_buffer_that_is_gone_when_the_answer_comes(
    start_neovim: StartNeovim, folder: Path, keys: str
) -> None:
    neovim = start_neovim(SLOW, before=COUNT_REQUESTS)
    in_file(neovim, folder)

    neovim.keys(f"i{keys}")
    wait_request(neovim)
    neovim.keys("<Esc>:bwipeout!<CR>")
    settle(neovim)

    assert neovim.text == ""
    assert_quiet(neovim)


def test_insert_mode_that_is_left_when_the_answer_comes(
    start_neovim: StartNeovim, folder: Path
) -> None:
    """At the start of a line, where leaving insert mode moves no cursor."""
    neovim = start_neovim(
        SLOW, before=COUNT_REQUESTS, options="{ settings = { tab = { enabled = false } } }"
    )
    in_file(neovim, folder, "# Sums\n\n", 2)

    neovim.keys("i<M-]>")
    wait_request(neovim)
    neovim.keys("<Esc>")
    settle(neovim)

    assert neovim.ghost == ""
    assert_quiet(neovim)


def test_a_server_that_dies_while_it_is_asked(start_neovim: StartNeovim, folder: Path) -> None:
    neovim = start_neovim([*SLOW, *SUM], before=COUNT_REQUESTS)
    in_file(neovim, folder)

    neovim.keys("itotal = ")
    wait_request(neovim)
    (process,) = neovim.server_processes
    os.kill(process, signal.SIGKILL)
    neovim.wait("another server", lambda: neovim.server_processes not in ([], [process]))

    neovim.wait_ghost("sum(values)")
    neovim.keys("<Tab>")
    neovim.wait_text("total = sum(values)")
    assert_quiet(neovim)


def test_a_macro_does_again_what_was_seen(start_neovim: StartNeovim, folder: Path) -> None:
    neovim = start_neovim(SUM, before=COUNT_REQUESTS)
    in_file(neovim, folder)
    neovim.api.command("setlocal expandtab shiftwidth=4 softtabstop=4")

    neovim.keys("itotal = ")
    neovim.wait_ghost("sum(values)")
    neovim.keys("<Esc>qqototal = ")
    neovim.wait("typed text", lambda: neovim.text.endswith("\ntotal = "))
    settle(neovim)
    assert not neovim.is_shown
    neovim.keys("<Tab>1<Esc>q@q")

    neovim.wait_text("total = \ntotal =     1\ntotal =     1")


REST = "values):\n    return sum(values)"


@pytest.mark.parametrize(
    ("keys", "accepted"),
    [
        ("<Tab>", REST),
        ("<M-Right><M-Right>", "values):"),
        ("<M-Down><M-Down>", REST),
        ("val<Tab>", REST),
    ],
)
def test_dot_repeats_what_was_accepted_too(
    start_neovim: StartNeovim, folder: Path, keys: str, accepted: str
) -> None:
    neovim = start_neovim([{"match": r"def total\($", "text": REST}])
    in_file(neovim, folder)
    neovim.api.command("setlocal autoindent")

    neovim.keys("idef total(")
    neovim.wait_ghost(REST)
    neovim.keys(f"{keys} # 1<Esc>")
    text = f"def total({accepted} # 1"
    neovim.wait_text(text)
    neovim.keys(":call append('$', '')<CR>G.")

    neovim.wait_text(f"{text}\n{text}")


def test_accepting_is_one_change(start_neovim: StartNeovim, folder: Path) -> None:
    """Where text behind the cursor is replaced, too."""
    neovim = start_neovim([{"match": r"def total\($", "text": "values)"}])
    in_file(neovim, folder)
    neovim.keys("i)<Left>def total(")
    neovim.wait_ghost("values")

    neovim.keys("<Tab><Esc>")
    neovim.wait_text("def total(values)")
    neovim.keys("u")
    neovim.wait_text("def total()")

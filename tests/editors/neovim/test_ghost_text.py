"""Ghost text in Neovim, with canned answers."""

import sys
from pathlib import Path

import pytest

from .conftest import StartNeovim
from .harness import COUNT_REQUESTS, Neovim, lua, settle, wait_request

pytestmark = pytest.mark.editor

AREA = [{"match": r"def area\(width, height\):$", "text": "\n    return width * height"}]
FAKE_SERVER = Path(__file__).with_name("fake_server.py")
REST = "values):\n    return sum(values)"
SUM = [{"match": r"def total\($", "text": REST}, {"match": r"total = $", "text": "sum(values)"}]


def in_file(neovim: Neovim, folder: Path, text: str = "", line: int = 1) -> Path:
    file = folder / "sums.py"
    file.write_text(text)
    neovim.edit(file, line)
    return file


@pytest.mark.editor_ci
def test_tab_accepts_and_the_file_on_disk_is_right(start_neovim: StartNeovim, folder: Path) -> None:
    neovim = start_neovim(AREA)
    file = in_file(neovim, folder, '"""Areas."""\n\n\n\n', 4)

    neovim.keys("idef area(width, height):")
    neovim.wait_ghost("\n    return width * height")
    neovim.keys("<Tab>")
    body = "def area(width, height):\n    return width * height"
    neovim.wait_text(f'"""Areas."""\n\n\n{body}')
    neovim.keys("<Esc>:w<CR>")

    expected = f'"""Areas."""\n\n\n{body}\n'
    neovim.wait("the file on disk", lambda: file.read_text() == expected)
    assert "Error" not in neovim.errors()
    assert neovim.notices == []


COUNTS = """
local params = { command = "composer.status" }
local client = vim.lsp.get_clients({ name = "composer-lsp" })[1]
return client:request_sync("workspace/executeCommand", params, 10000).result.suggestions
"""


def test_the_server_hears_what_was_accepted_and_tells_why(
    start_neovim: StartNeovim, folder: Path
) -> None:
    neovim = start_neovim(SUM)
    in_file(neovim, folder)

    neovim.keys("idef total(")
    neovim.wait_ghost(REST)
    neovim.keys("<M-Right>")
    neovim.wait_text("def total(values")
    neovim.wait("a part", lambda: neovim.lua(COUNTS)["partlyAccepted"] == 1)
    neovim.wait_ghost("):\n    return sum(values)")
    neovim.keys("<Tab>")
    neovim.wait_text("def total(values):\n    return sum(values)")
    neovim.wait("all of it", lambda: neovim.lua(COUNTS)["accepted"] == 1)
    neovim.keys("<Esc>")

    neovim.api.command("Composer why")
    why = "return table.concat(vim.api.nvim_buf_get_lines(0, 0, -1, true), '\\n')"
    neovim.wait("the reasons", lambda: "# Why this suggestion" in neovim.lua(why))
    told = neovim.lua(why)
    assert "## Prompt" in told and "def total(" in told
    assert neovim.lua("return { vim.bo.buftype, vim.bo.modifiable }") == ["nofile", False]
    assert neovim.notices == []


def test_accept_by_word_and_line(start_neovim: StartNeovim, folder: Path) -> None:
    neovim = start_neovim(SUM)
    in_file(neovim, folder)

    neovim.keys("idef total(")
    neovim.wait_ghost(REST)
    neovim.keys("<M-Right>")
    neovim.wait_text("def total(values")
    neovim.wait_ghost("):\n    return sum(values)")
    neovim.keys("<M-Down>")
    neovim.wait_text("def total(values):")
    neovim.wait_ghost("\n    return sum(values)")
    neovim.keys("<M-Right>")
    neovim.wait_text("def total(values):\n    return")
    neovim.wait_ghost(" sum(values)")
    neovim.keys("<Tab>")
    neovim.wait_text("def total(values):\n    return sum(values)")


def test_what_is_typed_through_is_accepted_once(start_neovim: StartNeovim, folder: Path) -> None:
    neovim = start_neovim(SUM)
    in_file(neovim, folder)

    neovim.keys("idef total(")
    neovim.wait_ghost(REST)
    neovim.keys("val<Tab>")

    neovim.wait_text("def total(values):\n    return sum(values)")


def test_keys_right_behind_tab_do_not_overtake(start_neovim: StartNeovim, folder: Path) -> None:
    neovim = start_neovim(SUM)
    file = in_file(neovim, folder)

    neovim.keys("itotal = ")
    neovim.wait_ghost("sum(values)")
    neovim.keys("<Tab> + 1<Esc>:w<CR>")

    neovim.wait("the file on disk", lambda: file.read_text() == "total = sum(values) + 1\n")


def test_what_was_accepted_is_undone_by_itself(start_neovim: StartNeovim, folder: Path) -> None:
    neovim = start_neovim(SUM)
    in_file(neovim, folder)

    neovim.keys("itotal = ")
    neovim.wait_ghost("sum(values)")
    neovim.keys("<Tab><Esc>")
    neovim.wait_text("total = sum(values)")
    neovim.keys("u")

    neovim.wait_text("total = ")


def test_other_text_hides_it_at_once(start_neovim: StartNeovim, folder: Path) -> None:
    neovim = start_neovim(SUM)
    in_file(neovim, folder)

    neovim.keys("itotal = ")
    neovim.wait_ghost("sum(values)")
    for typed in ("x", "y"):
        neovim.keys(typed)
        neovim.wait("the letter", lambda typed=typed: neovim.text.endswith(typed))
        assert neovim.ghost == ""
        assert not neovim.is_shown


def test_moving_away_hides_it_at_once(start_neovim: StartNeovim, folder: Path) -> None:
    neovim = start_neovim(SUM)
    in_file(neovim, folder)

    neovim.keys("itotal = ")
    neovim.wait_ghost("sum(values)")
    neovim.keys("<Left>")
    neovim.wait("the cursor", lambda: tuple(neovim.api.current.window.cursor) == (1, 7))
    assert neovim.ghost == ""
    neovim.keys("<Right>")
    neovim.wait_ghost("sum(values)")


def test_an_answer_that_comes_too_late_is_not_shown(
    start_neovim: StartNeovim, folder: Path
) -> None:
    slow = {"match": r"total = $", "text": "sum(values)", "token_delay_ms": 700}
    neovim = start_neovim([slow], before=COUNT_REQUESTS)
    in_file(neovim, folder)

    neovim.keys("itotal = ")
    wait_request(neovim)
    neovim.keys("x")
    settle(neovim)

    assert neovim.text == "total = x"
    assert neovim.ghost == ""
    assert not neovim.is_shown


@pytest.fixture(params=[1, 2], ids=["one automatic answer", "two automatic answers"])
def options(request: pytest.FixtureRequest) -> str:
    """Options with a language server that has three answers to whoever asks by key."""
    words = [sys.executable, str(FAKE_SERVER), str(request.param)]
    return f"{{ cmd = {{ {', '.join(map(lua, words))} }} }}"


def test_next_goes_round(start_neovim: StartNeovim, folder: Path, options: str) -> None:
    neovim = start_neovim(options=options)
    in_file(neovim, folder)

    neovim.keys("itotal = ")
    neovim.wait_ghost("first()\nmore()")
    for shown in ("second() (2/3)", "third() (3/3)", "first()\nmore() (1/3)", "second() (2/3)"):
        neovim.keys("<M-]>")
        neovim.wait_ghost(shown)
    neovim.keys("<Tab>")
    neovim.wait_text("total = second()")


def test_what_was_chosen_is_typed_through_and_accepted_by_word(
    start_neovim: StartNeovim, folder: Path, options: str
) -> None:
    neovim = start_neovim(options=options, before=COUNT_REQUESTS)
    in_file(neovim, folder)
    neovim.keys("itotal = ")
    neovim.wait_ghost("first()\nmore()")
    neovim.keys("<M-]>")
    neovim.wait_ghost("second() (2/3)")

    neovim.keys("se")
    neovim.wait_ghost("cond() (2/3)")
    neovim.keys("<M-Right>")
    neovim.wait_text("total = second")
    neovim.wait_ghost("()")
    settle(neovim)
    neovim.wait_ghost("()")
    neovim.keys("<Tab>")
    neovim.wait_text("total = second()")


def test_next_right_after_typing(start_neovim: StartNeovim, folder: Path, options: str) -> None:
    """Neovim 0.12 asks by itself 200 ms after a key: its answer does not undo the choice."""
    neovim = start_neovim(options=options, before=COUNT_REQUESTS)
    in_file(neovim, folder)

    neovim.keys("itotal = <M-]>")
    neovim.wait_ghost("first()\nmore() (1/3)")
    neovim.keys("<M-]>")
    neovim.wait_ghost("second() (2/3)")
    settle(neovim)
    assert neovim.ghost == "second() (2/3)"


def test_dismissed_right_after_typing(
    start_neovim: StartNeovim, folder: Path, options: str
) -> None:
    neovim = start_neovim(options=options, before=COUNT_REQUESTS)
    in_file(neovim, folder)

    neovim.keys("itotal = <M-]>")
    neovim.wait_ghost("first()\nmore() (1/3)")
    neovim.keys("<C-]>")
    settle(neovim)
    assert neovim.ghost == ""
    neovim.keys("x")
    neovim.wait_ghost("first()\nmore()")


def test_dismiss(start_neovim: StartNeovim, folder: Path) -> None:
    neovim = start_neovim(SUM)
    in_file(neovim, folder)

    neovim.keys("itotal = ")
    neovim.wait_ghost("sum(values)")
    neovim.keys("<C-]>")
    neovim.wait("no ghost text", lambda: neovim.ghost == "" and not neovim.is_shown)
    assert neovim.text == "total = "


def test_leaving_insert_mode_hides_it(start_neovim: StartNeovim, folder: Path) -> None:
    neovim = start_neovim(SUM)
    in_file(neovim, folder)

    neovim.keys("itotal = ")
    neovim.wait_ghost("sum(values)")
    neovim.keys("<Esc>")
    neovim.wait("no ghost text", lambda: neovim.ghost == "")


def test_next_asks_where_automatic_suggestions_are_off(
    start_neovim: StartNeovim, folder: Path
) -> None:
    neovim = start_neovim(SUM, options="{ settings = { tab = { enabled = false } } }")
    in_file(neovim, folder)

    neovim.keys("itotal = <M-]>")
    neovim.wait_ghost("sum(values)")
    neovim.keys("<Tab>")
    neovim.wait_text("total = sum(values)")


@pytest.mark.parametrize("before", ["μ = 'naïve'; ", "# 🎉🎉 ", "x = 'e\u0301' + "])
def test_characters_of_several_bytes_before_the_cursor(
    start_neovim: StartNeovim, folder: Path, before: str
) -> None:
    neovim = start_neovim([{"match": r"total = $", "text": "sum('μ🎉')"}])
    in_file(neovim, folder)

    neovim.keys(f"i{before}total = ")
    neovim.wait_ghost("sum('μ🎉')")
    neovim.keys("sum('μ")
    neovim.wait("typed text", lambda: neovim.text.endswith("sum('μ"))
    neovim.keys("<Tab>")
    neovim.wait_text(f"{before}total = sum('μ🎉')")


def test_untitled_buffer(start_neovim: StartNeovim) -> None:
    neovim = start_neovim(SUM)

    neovim.keys("i")
    neovim.wait_attached()
    neovim.keys("total = ")
    neovim.wait_ghost("sum(values)")

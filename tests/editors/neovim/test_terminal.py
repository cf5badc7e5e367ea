"""What a person sees in a terminal."""

import json
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from composer_inference import environment as composer_environment
from composer_inference.models.store import ModelStore

from .conftest import unavailable
from .harness import lua, running_engine, scripted_engine, wait_for, write_init
from .terminal import Terminal, terminal

pytestmark = pytest.mark.editor

MODEL = "qwen2.5-coder-0.5b"
LIMIT_S = 240
AREA = [{"match": r"def area\(width, height\):$", "text": "\n    return width * height"}]

OpenInTerminal = Callable[..., Terminal]


@pytest.fixture
def open_in_terminal(
    program: Path, environment: dict[str, str], tmp_path: Path
) -> Iterator[OpenInTerminal]:
    """Opens a file in Neovim in a terminal and starts an engine beforehand: with `rules` one with
    canned answers, with `engine` the one that these arguments make."""
    if shutil.which("tmux") is None:
        unavailable("tmux is not installed: run scripts/editors/neovim.sh")
    with ExitStack() as stack:

        def start(
            file: Path,
            rules: list[dict[str, Any]] | None = None,
            *,
            engine: list[str] | None = None,
            variables: Mapping[str, str] | None = None,
            **setup: Any,
        ) -> Terminal:
            everything = {**environment, "COLORTERM": "truecolor", **(variables or {})}
            if rules is not None:
                stack.enter_context(scripted_engine(rules, tmp_path, everything))
            if engine is not None:
                stack.enter_context(running_engine(engine, tmp_path, everything))
            init = write_init(tmp_path, **setup)
            command = [str(program), "-n", "-i", "NONE", "-u", str(init), str(file)]
            folder = Path(environment["COMPOSER_RUNTIME_DIR"])
            return stack.enter_context(terminal(folder, command, everything))

        yield start


STATUS_LINE = """
vim.o.statusline = "%f %m%=%{%v:lua.require'composer'.status()%}"
vim.o.number = true
"""


def test_ghost_text_on_the_screen(
    open_in_terminal: OpenInTerminal, folder: Path, version: str
) -> None:
    file = folder / "areas.py"
    file.write_text('"""Areas."""\n\n\n\n\nprint(area(2, 3))\n')
    opened = open_in_terminal(file, AREA, before=STATUS_LINE)
    opened.wait_screen('1 """Areas."""', "Composer")

    opened.keys("4", "G", "i")
    opened.type("def area(width, height):")
    opened.wait_screen("  4 def area(width, height):\n        return width * height\n  5")
    opened.save_screenshot(f"neovim-ghost-text-{version}")
    opened.keys("Tab")
    opened.wait_screen("  4 def area(width, height):\n  5     return width * height\n  6")
    opened.keys("Escape")
    opened.type(":w")
    opened.keys("Enter")

    expected = (
        '"""Areas."""\n\n\ndef area(width, height):\n    return width * height\n\n'
        "print(area(2, 3))\n"
    )
    wait_for("the file on disk", lambda: file.read_text() == expected, file.read_text)


def test_a_suggestion_in_front_of_other_text_and_long_lines(
    open_in_terminal: OpenInTerminal, folder: Path, version: str
) -> None:
    """Beside another plugin's virtual text, wrapped, and in front of a closed fold."""
    before = (
        STATUS_LINE
        + """
      vim.api.nvim_create_autocmd("InsertEnter", { callback = function()
        local id = vim.api.nvim_create_namespace("other")
        vim.api.nvim_buf_set_extmark(0, id, 0, 0, { virt_text = { { "<- theirs", "Error" } } })
        vim.cmd("3,5fold")
      end })
    """
    )
    words = (
        "alpha bravo charlie delta echo foxtrot golf hotel india juliett kilo lima mike november"
    )
    long = f"'{words} oscar papa'"
    file = folder / "sums.py"
    file.write_text("total = ()\n\n" + "# folded\n" * 3)
    opened = open_in_terminal(file, [{"match": r"total = \($", "text": f"{long})"}], before=before)
    opened.wait_screen("  1 total = ()", "Composer")

    opened.keys("f", ")", "i")
    opened.wait_screen("  1 total = ('alpha bravo", "oscar papa')", "theirs", "+--  3 lines")
    opened.save_screenshot(f"neovim-long-line-{version}")
    opened.keys("Tab", "Escape")
    opened.type(":w")
    opened.keys("Enter")

    expected = f"total = ({long})\n\n" + "# folded\n" * 3
    wait_for("the file on disk", lambda: file.read_text() == expected, file.read_text)


@pytest.mark.model
@pytest.mark.parametrize("backend", ["llama.cpp", "torch"])
def test_model_on_this_machine_completes_a_real_file(
    open_in_terminal: OpenInTerminal, folder: Path, version: str, backend: str
) -> None:
    if ModelStore().find(MODEL) is None:
        unavailable(f"{MODEL} is not installed: run composer-lsp model pull {MODEL}")
    package = folder / "json"
    shutil.copytree(
        Path(json.__file__).parent, package, ignore=shutil.ignore_patterns("__pycache__")
    )
    file = package / "scanner.py"
    original = file.read_text()
    settings = f'{{ tab = {{ model = {lua(MODEL)} }}, modelDownload = "never" }}'
    opened = open_in_terminal(
        file,
        before=STATUS_LINE + 'vim.cmd("syntax on")\n',
        options=f"{{ settings = {settings} }}",
        engine=["--backend", backend] if backend == "torch" else None,
        variables={"COMPOSER_DATA_DIR": str(composer_environment.data_dir())},
    )
    opened.wait_screen("Composer")

    opened.keys("G", "o")
    # Neovim indents the lines after a colon by itself.
    typed = ("", "", "def scan_file(path, context):", "with open(path) as file:", "return make")
    for line in typed[:-1]:
        opened.type(line)
        opened.keys("Enter")
    opened.type(typed[-1])
    wait_for("ghost text", lambda: ghost(opened), lambda: opened.screen, LIMIT_S)
    shown = ghost(opened)
    opened.save_screenshot(f"neovim-real-model-{backend}-{version}")
    opened.keys("Tab")
    opened.wait_screen(shown)
    opened.keys("Escape")
    opened.type(":w")
    opened.keys("Enter")

    expected = f"        return make{shown}"
    wait_for("the file on disk", lambda: expected in file.read_text(), lambda: opened.screen)
    assert file.read_text().startswith(original)


def ghost(opened: Terminal) -> str:
    """What stands behind the typed text on the screen."""
    for line in opened.screen.splitlines():
        before, typed, after = line.partition("        return make")
        if typed and before.strip().isdigit():
            return after.rstrip()
    return ""

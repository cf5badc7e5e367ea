"""Helix in a terminal, with exactly the snippet of docs/other-editors.md."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.editors.neovim.harness import wait_for

from .conftest import StartEngine
from .harness import Terminal, server_processes, snippet

pytestmark = pytest.mark.editor

REST = "ea(width, height):\n    scaled = width * height\n    return scaled"
AREA = {"match": r"def ar$", "text": REST}
OPENED = '"method":"textDocument/didOpen"'
WIDE = 'café = "🙂"; '
TOTAL = {"match": r"tot$", "text": "al = 1"}
LONG = {"match": r"def many$", "text": "(a):" + "".join(f"\n    v{n}={n}" for n in range(50))}
"""Each line is a token of the scripted engine."""


OpenHelix = Callable[[list[dict[str, Any]]], Path]


@pytest.fixture
def open_helix(
    helix_program: Path,
    screen: Terminal,
    start_engine: StartEngine,
    tmp_path: Path,
    folder: Path,
    environment: dict[str, str],
) -> OpenHelix:
    """Opens an empty Python file, in insert mode, with an engine that has these answers."""

    def start(rules: list[dict[str, Any]]) -> Path:
        start_engine(rules)
        config = tmp_path / ".config" / "helix" / "languages.toml"
        config.parent.mkdir(parents=True)
        config.write_text(snippet("helix"))
        file = folder / "file.py"
        file.write_text("")
        log = tmp_path / "helix.log"
        screen.start([str(helix_program), "-v", "--log", str(log), str(file)], environment, folder)
        wait_for(
            "the language server",
            lambda: log.exists() and "composer -> " in (text := log.read_text()) and OPENED in text,
            lambda: screen.screen,
        )
        screen.keys("i")
        screen.wait_screen("INS")
        return file

    return start


def accept_and_save(screen: Terminal, label: str) -> None:
    screen.wait_screen(label)
    screen.keys("C-n", "Enter")
    screen.keys("Escape")
    screen.wait_screen("NOR")
    screen.type(":write")
    screen.keys("Enter")


def test_a_suggestion_of_several_lines_is_inserted_and_saved(
    open_helix: OpenHelix, screen: Terminal
) -> None:
    file = open_helix([AREA])

    screen.type("def ar")
    accept_and_save(screen, "area(width, height):")

    body = f"def ar{REST}\n"
    wait_for("the file on disk", lambda: file.read_text() == body, lambda: screen.screen)


def test_the_word_behind_wide_characters_is_replaced(
    open_helix: OpenHelix, screen: Terminal
) -> None:
    file = open_helix([TOTAL])

    screen.type(f"{WIDE}tot")
    accept_and_save(screen, "total = 1")

    body = f"{WIDE}total = 1\n"
    wait_for("the file on disk", lambda: file.read_text() == body, lambda: screen.screen)


def test_the_settings_of_the_snippet_take_effect(open_helix: OpenHelix, screen: Terminal) -> None:
    file = open_helix([LONG])

    screen.type("def many")
    accept_and_save(screen, "many(a):")

    wait_for("the file on disk", lambda: file.read_text() != "", lambda: screen.screen)
    num_items = file.read_text().count("=")
    assert 20 < num_items < 32


def test_nothing_is_left_when_helix_ends(
    open_helix: OpenHelix, screen: Terminal, runtime: Path
) -> None:
    open_helix([TOTAL])
    screen.type("tot")
    screen.wait_screen("total = 1")

    screen.keys("Escape", "Escape")
    screen.wait_screen("NOR")
    screen.type(":quit!")
    screen.keys("Enter")

    wait_for("the end of the server", lambda: server_processes(runtime) == [])

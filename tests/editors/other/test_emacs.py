"""Emacs with eglot and exactly the snippets of docs/other-editors.md."""

import json
import re
from pathlib import Path

import pytest

from tests.editors.neovim.harness import wait_for

from .conftest import StartEngine
from .harness import BatchEmacs, Terminal, server_processes, snippet

pytestmark = pytest.mark.editor

INIT = snippet("emacs")
AREA = {
    "match": r"def area\(width, height\):$",
    "text": "\n    scaled = width * height\n    return scaled",
}
WIDE = 'café = "🙂"; '
TOTAL = {"match": r"tot$", "text": "al = 1"}
CLOSED = {"match": r"print\($", "text": "total)"}
WIDEST = {"match": r"wid$", "text": "est = max(width, 4)"}
LINES = "".join(f"\n    x{n} = a + b + c + {n}" for n in range(6))
"""Nine words a line, each a token of the scripted engine."""
LONG = {"match": r"def many\(\):$", "text": LINES}


def visit(file: Path) -> str:
    return f"(drive-open {json.dumps(str(file))})"


def insert(text: str) -> str:
    return f"(insert {json.dumps(text, ensure_ascii=False)})"


COMPLETE = "(drive-complete)"
SAVE = "(save-buffer)"


def test_a_suggestion_of_several_lines_is_inserted_and_saved(
    emacs: BatchEmacs, start_engine: StartEngine, folder: Path
) -> None:
    start_engine([AREA])
    file = folder / "areas.py"
    file.write_text('"""Areas."""\n\n\n')

    emacs.run(INIT, visit(file), insert("def area(width, height):"), COMPLETE, SAVE)

    body = "def area(width, height):\n    scaled = width * height\n    return scaled"
    assert file.read_text() == f'"""Areas."""\n\n\n{body}\n'


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "utf-32"])
def test_the_word_behind_wide_characters_is_replaced(
    emacs: BatchEmacs, start_engine: StartEngine, folder: Path, encoding: str
) -> None:
    start_engine([TOTAL])
    file = folder / "wide.py"
    file.write_text("")
    announce = f'(drive-announce "{encoding}")'

    emacs.run(INIT, announce, visit(file), insert(f"{WIDE}tot"), COMPLETE, SAVE)

    assert file.read_text() == f"{WIDE}total = 1\n"


def test_a_bracket_behind_the_cursor_is_not_doubled(
    emacs: BatchEmacs, start_engine: StartEngine, folder: Path
) -> None:
    start_engine([CLOSED])
    file = folder / "closed.py"
    file.write_text("")

    emacs.run(INIT, visit(file), insert(f"{WIDE}print()"), "(backward-char)", COMPLETE, SAVE)

    assert file.read_text() == f"{WIDE}print(total)\n"


def test_settings_take_effect_at_once_and_when_they_change(
    emacs: BatchEmacs, start_engine: StartEngine, folder: Path
) -> None:
    start_engine([LONG])
    short, long = folder / "short.py", folder / "long.py"
    for file in (short, long):
        file.write_text("")
    typed = insert("def many():")
    change = "(drive-configure '(:composer (:tab (:maxTokens 64))))"

    emacs.run(INIT, visit(short), typed, COMPLETE, SAVE, change, visit(long), typed, COMPLETE, SAVE)

    cut = "".join(LINES.splitlines(keepends=True)[:4])
    assert short.read_text() == f"def many():{cut}"
    assert long.read_text() == f"def many():{LINES}\n"


def test_nothing_is_left_after_a_shutdown(
    emacs: BatchEmacs, start_engine: StartEngine, folder: Path, runtime: Path
) -> None:
    start_engine([])
    file = folder / "left.py"
    file.write_text("")

    emacs.run(INIT, visit(file), "(drive-shut-down)")

    assert server_processes(runtime) == []


def test_nothing_is_left_when_emacs_just_ends(
    emacs: BatchEmacs, start_engine: StartEngine, folder: Path, runtime: Path
) -> None:
    start_engine([])
    file = folder / "left.py"
    file.write_text("")

    emacs.run(INIT, visit(file))

    wait_for("the end of the server", lambda: server_processes(runtime) == [])


def test_beside_a_main_server(
    emacs_program: Path,
    rass_folder: Path,
    start_engine: StartEngine,
    tmp_path: Path,
    folder: Path,
    environment: dict[str, str],
    runtime: Path,
) -> None:
    start_engine([WIDEST])
    environment["PATH"] = f"{rass_folder}:{environment['PATH']}"
    emacs = BatchEmacs(emacs_program, tmp_path, environment)
    file = folder / "sizes.py"
    file.write_text("width = 3\n")
    ours, theirs = "widest = max(width, 4)", "width"
    choose = f"(drive-choose {json.dumps(ours)} {json.dumps(theirs)})"

    init = INIT + snippet("emacs-rass")
    emacs.run(init, visit(file), insert("wid"), choose, SAVE, "(drive-shut-down)")

    assert file.read_text() == f"width = 3\n{ours}\n"
    wait_for("the end of the server", lambda: server_processes(runtime) == [])


@pytest.mark.parametrize(
    ("name", "typed", "rest"),
    [
        ("page.css", "a { background-", "color: red;"),
        ("list.el", "(buffer-sub", "string 1 2)"),
    ],
)
def test_words_with_hyphens(
    emacs: BatchEmacs, start_engine: StartEngine, folder: Path, name: str, typed: str, rest: str
) -> None:
    start_engine([{"match": f"{re.escape(typed)}$", "text": rest}])
    file = folder / name
    file.write_text("")
    modes = (
        "(add-to-list 'eglot-server-programs '((css-mode emacs-lisp-mode) . (\"composer-lsp\")))"
    )
    hooks = "(dolist (hook '(css-mode-hook emacs-lisp-mode-hook)) (add-hook hook #'eglot-ensure))"

    emacs.run(INIT, modes, hooks, visit(file), insert(typed), COMPLETE, SAVE)

    assert file.read_text().rstrip() == typed + rest


def test_keys_in_a_terminal(
    emacs_program: Path,
    screen: Terminal,
    start_engine: StartEngine,
    tmp_path: Path,
    folder: Path,
    environment: dict[str, str],
) -> None:
    start_engine([AREA])
    file = folder / "areas.py"
    file.write_text("")
    init = tmp_path / ".emacs.d" / "init.el"
    init.parent.mkdir()
    init.write_text(INIT)
    screen.start([str(emacs_program), "-nw", str(file)], environment, folder)
    screen.wait_screen("[eglot:project]")

    screen.type("def area(width, height):")
    screen.wait_screen("def area(width, height):")
    screen.keys("M-C-i")
    screen.wait_screen("    return scaled")
    screen.keys("C-x", "C-s")

    body = "def area(width, height):\n    scaled = width * height\n    return scaled\n"
    wait_for("the file on disk", lambda: file.read_text() == body, lambda: screen.screen)

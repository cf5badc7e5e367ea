"""Ghost text in VS Code, with canned answers."""

import json
from pathlib import Path

import pytest

from .conftest import StartVSCode

pytestmark = pytest.mark.editor


@pytest.mark.editor_ci
def test_tab_accepts_and_the_file_on_disk_is_right(start_vscode: StartVSCode, folder: Path) -> None:
    file = folder / "area.py"
    file.write_text('"""Areas."""\n\n\n\n')
    vscode = start_vscode(
        [{"match": r"def area\(width, height\):$", "text": "\n    return width * height"}]
    )

    vscode.run(
        "type_and_accept",
        folder,
        file="area.py",
        line=4,
        typed="def area(width, height):",
        expected=r"return width \* height",
        screenshot="ghost-text",
    )

    body = "def area(width, height):\n    return width * height"
    assert file.read_text() == f'"""Areas."""\n\n\n{body}\n'


@pytest.mark.parametrize(
    ("typed", "answer", "line"),
    [
        pytest.param("some_func(", "first, second)", "some_func(first, second)", id="bracket"),
        pytest.param('print("', 'hello")', 'print("hello")', id="quote"),
    ],
)
def test_what_the_editor_closed_is_not_doubled(
    start_vscode: StartVSCode, folder: Path, typed: str, answer: str, line: str
) -> None:
    file = folder / "calls.py"
    file.write_text("import calls\n\n")
    vscode = start_vscode([{"match": "", "text": answer}])

    seen = vscode.run(
        "type_and_accept",
        folder,
        file="calls.py",
        line=2,
        typed=typed,
        expected=answer.rstrip('")'),
    )

    assert file.read_text() == f"import calls\n{line}\n"
    assert ")" not in seen["ghostText"]


def test_why_a_suggestion_was_shown(start_vscode: StartVSCode, folder: Path) -> None:
    (folder / "sums.py").write_text("import sums\n\n")
    vscode = start_vscode([{"match": r"total = $", "text": "sum(values)"}])

    vscode.run(
        "why",
        folder,
        file="sums.py",
        line=2,
        typed="total = ",
        expected=r"sum\(values\)",
        told="Why this suggestion",
    )


def test_tab_after_a_newline_indents(start_vscode: StartVSCode, folder: Path) -> None:
    file = folder / "area.py"
    file.write_text("")
    rules = [
        {"match": r"h\):\n$", "text": "    return w * h"},
        {"match": r"h\):\n    $", "text": "return w * h"},
    ]
    vscode = start_vscode(rules, settings={"editor.autoIndent": "none"})

    seen = vscode.run("newline_and_tab", folder, file="area.py", suggestion="    return w * h")

    assert seen["afterFirstTab"] == "return w * h"
    assert file.read_text() == "x = 1\ndef area(w, h):\n    return w * h"


def test_documents_without_a_file_of_their_own(start_vscode: StartVSCode, folder: Path) -> None:
    cell = {"cell_type": "code", "source": ["x = 1\n"], "metadata": {}, "outputs": []}
    notebook = {"cells": [cell], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
    (folder / "study.ipynb").write_text(json.dumps(notebook))
    vscode = start_vscode([{"match": r"total = $", "text": "sum(values)"}])

    vscode.run(
        "other_documents", folder, typed="total = ", expected="sum(values)", notebook="study.ipynb"
    )

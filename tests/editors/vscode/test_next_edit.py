"""The next edit in VS Code: shown, jumped to, taken and put away."""

from pathlib import Path

import pytest

from .conftest import StartVSCode

pytestmark = pytest.mark.editor

AREA = "def area(w):\n    return w\n\n\nx = 1\nprint('😀', area(1))\nyes = 1 + area(2)\n"


def test_jump_take_and_so_on_to_the_last(start_vscode: StartVSCode, folder: Path) -> None:
    file = folder / "areas.py"
    file.write_text(AREA)
    vscode = start_vscode([])
    seen = vscode.run(
        "next_edit",
        folder,
        file="areas.py",
        column=5,
        length=4,
        name="surface",
        hints=[{"line": 6, "inserted": "surface"}, {"line": 7, "inserted": "surface"}],
    )
    assert seen == [f"Tab: Rename area to surface, line {line}" for line in (6, 7)]
    assert file.read_text() == AREA.replace("area(", "surface(")


def test_escape_puts_it_away_and_tab_indents(start_vscode: StartVSCode, folder: Path) -> None:
    file = folder / "areas.py"
    file.write_text(AREA)
    vscode = start_vscode([])
    vscode.run(
        "next_edit",
        folder,
        file="areas.py",
        column=5,
        length=4,
        name="surface",
        hints=[{"line": 6, "inserted": "surface"}],
        dismissed=True,
    )
    line = "print('😀', area(1))"
    before, _, after = file.read_text().partition(line)
    assert before.startswith("def surface(w):")
    assert after.partition("\n")[0].split() == ["#", "here"]
    assert "area(2)" in after


def test_into_another_file(start_vscode: StartVSCode, folder: Path) -> None:
    file, other = folder / "areas.py", folder / "main.py"
    file.write_text("def area(w):\n    return w\n")
    other.write_text("# 😀\nimport areas\nx = print(areas.area(1))\n")
    vscode = start_vscode([])
    vscode.run(
        "next_edit_elsewhere",
        folder,
        file="areas.py",
        column=5,
        length=4,
        name="surface",
        other="main.py",
        line=3,
    )
    assert file.read_text() == "def surface(w):\n    return w\n"
    assert other.read_text() == "# 😀\nimport areas\nx = print(areas.surface(1))\n"

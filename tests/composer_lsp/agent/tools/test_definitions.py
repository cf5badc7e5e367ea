"""Renaming in all files, and writing definitions."""

from pathlib import Path

import pytest

from composer_lsp.agent.tools.context import ToolContext
from composer_lsp.agent.tools.definitions import rename_symbol, write_code
from composer_lsp.agent.tools.files import read_file
from composer_lsp.agent.tools.tool import ToolError
from tests.composer_lsp.agent.conftest import Call


def test_a_name_is_changed_wherever_it_stands_as_a_word(
    root: Path, context: ToolContext, call: Call
) -> None:
    (root / "src/app.py").write_bytes(
        b"from util import helper\r\nhelper()  # helper, not helpers\r\n"
    )
    answer = call(rename_symbol, old="helper", new="helping")
    assert "src/app.py: 3" in answer and "src/util.py: 1" in answer
    text = context.changes.text("src/app.py")
    assert text == "from util import helping\r\nhelping()  # helping, not helpers\r\n"
    assert (root / "src/util.py").read_text().startswith("def helper")


def test_what_the_run_has_changed_already_is_seen(context: ToolContext, call: Call) -> None:
    call(write_code, path="src/new.py", code="def fresh():\n    return helper()\n")
    call(rename_symbol, old="helper", new="helping")
    assert context.changes.text("src/new.py") == "def fresh():\n    return helping()\n"


def test_hidden_and_ignored_files_are_left_alone(context: ToolContext, call: Call) -> None:
    call(rename_symbol, old="needle", new="pin")
    assert list(context.changes.paths) == ["src/util.py"]


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("a.py", "b.py", "no identifier"),
        ("helper", "help-er", "no identifier"),
        ("helper", "helper", "the same"),
        ("nowhere", "somewhere", "stands in no file"),
    ],
)
def test_names_that_cannot_be_changed_are_refused(call: Call, old: str, new: str, why: str) -> None:
    with pytest.raises(ToolError, match=why):
        call(rename_symbol, old=old, new=new)


def test_code_is_put_into_a_file(context: ToolContext, call: Call) -> None:
    call(read_file, path="src/util.py")
    answer = call(write_code, path="src/util.py", code="def helper():\n    return 'hay'\n")
    assert "2\t    return 'hay'" in answer
    assert context.changes.text("src/util.py") == "def helper():\n    return 'hay'\n"


def test_what_was_not_read_is_not_written_anew(context: ToolContext, call: Call) -> None:
    with pytest.raises(ToolError, match="not read its lines 1 to 2"):
        call(write_code, path="src/util.py", code="def helper():\n    return 'hay'\n")
    assert not context.changes
    call(write_code, path="src/util.py", code="def other():\n    return 1\n")
    assert (context.changes.text("src/util.py") or "").startswith("def helper")


def test_a_file_that_is_not_there_is_made_of_the_code(context: ToolContext, call: Call) -> None:
    assert call(write_code, path="src/new.py", code="\nx = 1") == "Wrote src/new.py, 1 lines."
    assert context.changes.text("src/new.py") == "x = 1\n"


def test_a_file_that_the_run_has_made_is_made_anew(context: ToolContext, call: Call) -> None:
    call(write_code, path="src/new.py", code="import nowhere\n\n\ndef f():\n    return 1\n")
    call(write_code, path="src/new.py", code="def f():\n    return 2\n")
    assert context.changes.text("src/new.py") == "def f():\n    return 2\n"
    assert "already" in call(write_code, path="src/new.py", code="def f():\n    return 2\n")


def test_code_that_stands_there_changes_nothing(
    root: Path, context: ToolContext, call: Call
) -> None:
    call(read_file, path="src/util.py")
    code = (root / "src/util.py").read_text()
    assert "already" in call(write_code, path="src/util.py", code=code)
    assert not context.changes


def test_why_code_does_not_fit_is_said(call: Call) -> None:
    with pytest.raises(ToolError, match=r"src/util\.py was not changed: it defines nothing"):
        call(write_code, path="src/util.py", code="print(1)\n")

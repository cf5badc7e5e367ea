from collections.abc import Callable
from pathlib import Path

import pytest

from composer_lsp.agent.tools.context import ToolContext
from composer_lsp.agent.tools.edit import delete_file, edit_file, write_file
from composer_lsp.agent.tools.grep import MAX_HITS, grep
from composer_lsp.agent.tools.tool import ToolError

Call = Callable[..., str]


def test_finds_lines_and_leaves_hidden_files_out(call: Call, context: ToolContext) -> None:
    assert call(grep, pattern="needle") == "src/util.py:2:    return 'needle'"
    assert context.reads.has_seen("src/util.py", 2, 2)


def test_searches_what_the_run_has_changed(call: Call) -> None:
    edits = [{"old": "os.getcwd()", "new": "'needle'"}]
    call(edit_file, path="src/app.py", edits=edits)
    call(write_file, path="new.py", text="needle = 2\n")
    call(delete_file, path="src/util.py")
    assert call(grep, pattern="needle").split("\n") == [
        "new.py:1:needle = 2",
        "src/app.py:5:    return 'needle'",
    ]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"path": "src"}, "src/util.py:1:def helper():"),
        ({"path": "src/util.py"}, "src/util.py:1:def helper():"),
        ({"path": "README.md"}, "No line matches def helper."),
        ({"glob": "*.md"}, "No line matches def helper."),
        ({"glob": "src/*.py"}, "src/util.py:1:def helper():"),
    ],
)
def test_searches_where_it_is_told(call: Call, options: dict[str, str], expected: str) -> None:
    assert call(grep, pattern="def helper", **options) == expected


def test_case_matters_unless_it_is_said(call: Call) -> None:
    assert call(grep, pattern="DEF HELPER").startswith("No line")
    assert call(grep, pattern="DEF HELPER", ignore_case=True).startswith("src/util.py:1:")


def test_a_wrong_pattern_is_told(call: Call) -> None:
    with pytest.raises(ToolError, match="(?s)ripgrep refuses the pattern: .*unclosed group"):
        call(grep, pattern="(")


def test_a_pattern_is_no_option(call: Call) -> None:
    assert call(grep, pattern="--files") == "No line matches --files."


def test_many_lines_are_cut(call: Call, root: Path) -> None:
    (root / "many.txt").write_text("needle\n" * 500)
    shown = call(grep, pattern="needle").split("\n")
    assert len(shown) == MAX_HITS + 1
    assert shown[-1] == "[cut: 100 of 501 lines; narrow the search]"


def test_odd_files_do_no_harm(call: Call, root: Path) -> None:
    (root / "latin.py").write_bytes("# naïve needle é\n".encode("latin-1"))
    (root / "binary").write_bytes(b"needle\0\1\n")
    (root / "long.txt").write_text("needle" + "x" * 3_000_000 + "\n")
    shown = call(grep, pattern="needle")
    assert "latin.py:1:# na\ufffdve needle \ufffd" in shown
    assert "long.txt:1:needlexxx" in shown
    assert len(shown) < 2000

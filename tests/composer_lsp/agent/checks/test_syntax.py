"""Files that do not parse any more, where no linter is configured."""

import pytest

from composer_lsp.agent.checks.syntax import syntax_problem
from composer_lsp.agent.edits.change_set import FileChange
from composer_lsp.agent.edits.text_file import TextFile
from tests.composer_lsp.agent.checks.conftest import Project


def said(path: str, before: str | None, after: str | None) -> str | None:
    file = None if before is None else TextFile(text=before)
    problem = syntax_problem(FileChange(path=path, before=file, after=after))
    return None if problem is None else str(problem)


@pytest.mark.parametrize(
    ("path", "before", "after", "line"),
    [
        ("a.py", "x = 1\n", "x = 1\ny = (2\nz = 3\n", 2),
        ("a.py", None, "def f(:\n    pass\n", 1),
        ("a.json", '{"a": 1}\n', '{\n  "a": 1\n  "b": 2\n}\n', 3),
        ("a.toml", "a = 1\n", "a = 1\n[b\nc = 2\n", 2),
        ("a.js", "f();\n", "f();\nfunction g( {\n", 2),
        ("a.ts", "let a = 1;\n", "let a: = 1;\n", 1),
        ("a.go", "package a\n", "package a\n\nfunc f( {\n}\n", 3),
        ("a.rs", "fn f() {}\n", "fn f() {\n    let x = ;\n}\n", 2),
    ],
)
def test_tells_of_what_does_not_parse(path: str, before: str | None, after: str, line: int) -> None:
    found = said(path, before, after)
    assert found is not None
    assert found.startswith(f"{path}:{line}: ")
    assert found.endswith("(syntax)")


@pytest.mark.parametrize(
    ("path", "before", "after"),
    [
        ("a.py", "x = 1\n", "x = 2\n"),
        ("a.py", "print 'two'\nx = (\n", "print 'two'\ny = (\n"),
        ("a.py", "x = 1\n", None),
        ("a.py", None, ""),
        ("a.html", "<p>\n", "<p <b\n"),
        ("a.txt", "words\n", "(words\n"),
    ],
    ids=["fine", "broken-before", "deleted", "empty", "html", "text"],
)
def test_tells_nothing_otherwise(path: str, before: str | None, after: str | None) -> None:
    assert said(path, before, after) is None


async def test_what_no_linter_looked_at_has_to_parse(project: Project) -> None:
    project.has({"a.py": "x = 1\n", "b/ruff.toml": "", "b/a.py": ""})
    await project.write("a.py", "x = (\n")
    await project.write("b/a.py", "x = [\n")
    told = await project.check()
    assert told[1] == "a.py:1: '(' was never closed (syntax)"
    assert told[2].startswith("b/a.py:")
    assert all(line.endswith("(ruff)") for line in told[2:])


async def test_what_a_linter_cannot_look_at_has_to_parse(project: Project) -> None:
    project.has({"ruff.toml": "", "a.py": "x = 1\n"})
    project.runner.has_sandbox = False
    await project.write("a.py", "x = (\n")
    assert (await project.check())[1:] == ["a.py:1: '(' was never closed (syntax)"]

"""Changes as a diff: one that git applies, and one that a person reads before he approves."""

import subprocess
from pathlib import Path

import pytest

from composer_lsp.agent.diff import shown, unified
from composer_lsp.agent.edits.change_set import FileChange
from composer_lsp.agent.edits.text_file import TextFile


def change(before: str | None, after: str | None, path: str = "a.py") -> FileChange:
    file = None if before is None else TextFile(text=before)
    return FileChange(path=path, before=file, after=after)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("a\rb\nc\n", "a\rB\nc\n"),
        ("a\r\nb\r\n", "a\nb\r\n"),
        ("a\rb", "a\rb\r"),
        ("", "x\r"),
        ("x\x0cy\x1cz\u2028w\n", "x\x0cy\x1cz\u2028v\n"),
    ],
)
@pytest.mark.parametrize("path", ["a.py", 'q"\\t\t\n.py', "b\udce9 ü.py"])
def test_git_applies_it(tmp_path: Path, before: str, after: str, path: str) -> None:
    (tmp_path / path).write_bytes(before.encode())
    diff = unified([change(before, after, path)]).encode("utf-8", "surrogateescape")
    # An empty folder's repository: the patch is for what lies here, not for what lies above.
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    subprocess.run(["git", "apply", "--whitespace=nowarn"], input=diff, cwd=tmp_path, check=True)
    assert (tmp_path / path).read_bytes() == after.encode()


@pytest.mark.parametrize(
    "char", ["\x1b", "\r", "\b", "\x9b", "\u202e", "\u2066", "\u200b", "\udcff"]
)
def test_nothing_in_it_is_obeyed_by_a_terminal(char: str) -> None:
    changes = [
        change("a\n", f"a{char}[2A\nb", f"n{char}.py"),
        change(None, f"{char}", f"new{char}.py"),
        change(f"{char}\n", None, f"gone{char}.py"),
    ]
    text = shown(changes)
    assert all(each.isprintable() for each in text.split("\n"))
    assert text.count("\\ No newline at end of file\n") == 2
    assert f"+a{char.encode('unicode_escape', 'backslashreplace').decode()}[2A\n" in text


def test_the_ends_of_lines_are_shown_where_they_differ() -> None:
    assert "-a\\r\n+a\n" in shown([change("a\r\n", "a\n")])
    assert "-a\n+b\n" in shown([change("a\r\n", "b\r\n")])
    assert "+b\\r\n" in shown([change("a\n", "a\nb\r\n")])

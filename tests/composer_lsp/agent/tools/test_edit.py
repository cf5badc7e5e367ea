import asyncio
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from composer_lsp.agent.edits.change_set import EditError
from composer_lsp.agent.tools import edit
from composer_lsp.agent.tools.context import ToolContext
from composer_lsp.agent.tools.edit import delete_file, edit_file, move_file, write_file
from composer_lsp.agent.tools.files import read_file
from composer_lsp.agent.tools.grep import grep
from composer_lsp.agent.tools.tool import Tool, ToolError
from composer_lsp.agent.workspace.paths import PathError

Call = Callable[..., str]


def test_answers_with_the_changed_lines(call: Call) -> None:
    shown = call(edit_file, path="src/app.py", edits=[{"old": "main()", "new": "start()"}])
    assert shown == "Changed src/app.py:\n4\tdef start():"
    assert "def start" in call(read_file, path="src/app.py")


def test_an_edit_that_does_not_match_changes_nothing(call: Call, context: ToolContext) -> None:
    edits = [{"old": "import os", "new": "import re"}, {"old": "def mian():", "new": "x"}]
    with pytest.raises(
        ToolError, match="src/app.py was not changed: .*nearest to it:\n4\tdef main"
    ):
        call(edit_file, path="src/app.py", edits=edits)
    assert not context.changes


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"path": "new.py", "edits": [{"old": "a", "new": "b"}]}, "write_file creates one"),
        ({"path": "src/app.py", "edits": []}, "edits is empty"),
    ],
)
def test_an_edit_of_nothing_is_refused(
    call: Call, arguments: dict[str, object], error: str
) -> None:
    with pytest.raises(ToolError, match=error):
        call(edit_file, **arguments)


def test_a_whole_file_may_be_replaced_when_it_was_read(
    call: Call, root: Path, context: ToolContext
) -> None:
    (root / "dos.txt").write_bytes(b"a\r\nb\r\n")
    call(read_file, path="dos.txt")
    call(write_file, path="dos.txt", text="a\nc\n")
    assert context.changes.text("dos.txt") == "a\r\nc\r\n"


def test_the_same_text_is_told(call: Call) -> None:
    call(read_file, path="README.md")
    with pytest.raises(ToolError, match=r"README\.md holds this text already"):
        call(write_file, path="README.md", text="# Project\n")


def test_moves_and_deletes(call: Call, context: ToolContext) -> None:
    assert call(move_file, path="src/app.py", target="src/main.py") == (
        "Moved src/app.py to src/main.py."
    )
    assert call(delete_file, path="README.md") == "Deleted README.md."
    assert [(each.path, each.moved_from) for each in context.changes.changes()] == [
        ("README.md", None),
        ("src/main.py", "src/app.py"),
    ]


def test_nothing_is_moved_over_a_file(call: Call) -> None:
    with pytest.raises(EditError, match=r"README\.md exists already"):
        call(move_file, path="src/app.py", target="README.md")


@pytest.mark.parametrize("path", [".env", ".git/hooks/pre-commit", "../x", "private/x", "build/x"])
def test_nothing_is_written_where_nothing_may_be_read(
    call: Call, context: ToolContext, path: str
) -> None:
    with pytest.raises(PathError):
        call(write_file, path=path, text="x")
    with pytest.raises(PathError):
        call(move_file, path="README.md", target=path)
    assert not context.changes


def test_line_ends_of_the_models_own_do_not_count(
    call: Call, root: Path, context: ToolContext
) -> None:
    (root / "dos.txt").write_bytes(b"a\r\nb\r\n")
    (root / "unix.txt").write_bytes(b"a\nb\n")
    for path in ("dos.txt", "unix.txt"):
        call(read_file, path=path)
        call(write_file, path=path, text="a\r\nc\r\n")
    assert context.changes.text("dos.txt") == "a\r\nc\r\n"
    assert context.changes.text("unix.txt") == "a\nc\n"


def test_a_file_and_a_link_to_it_are_one(call: Call, root: Path, context: ToolContext) -> None:
    (root / "real.py").write_text("a\nb\nc\n")
    (root / "link.py").symlink_to("real.py")
    call(edit_file, path="link.py", edits=[{"old": "a\n", "new": "A\n"}])
    call(edit_file, path="real.py", edits=[{"old": "c\n", "new": "C\n"}])
    asyncio.run(context.workspace.apply(list(context.changes.changes()), label=""))
    assert (root / "real.py").read_text() == "A\nb\nC\n"
    assert (root / "link.py").is_symlink()
    assert call(grep, pattern="C", path="link.py") == "real.py:3:C"


def test_deleting_and_moving_are_of_the_link(call: Call, root: Path, context: ToolContext) -> None:
    (root / "real.py").write_text("a\n")
    for name in ("one.py", "two.py"):
        (root / name).symlink_to("real.py")
    call(delete_file, path="one.py")
    call(move_file, path="two.py", target="three.py")
    with pytest.raises(ToolError, match=r"there is no file one\.py"):
        call(edit_file, path="one.py", edits=[{"old": "a", "new": "b"}])
    with pytest.raises(EditError, match=r"three\.py is a link that was moved"):
        call(edit_file, path="three.py", edits=[{"old": "a", "new": "b"}])
    asyncio.run(context.workspace.apply(list(context.changes.changes()), label=""))
    assert (root / "real.py").read_text() == "a\n"
    assert sorted(path.name for path in root.glob("*.py")) == ["real.py", "three.py"]
    assert (root / "three.py").samefile(root / "real.py")


@pytest.mark.parametrize(
    ("path", "error"),
    [
        ("README.md/c/d.py", r"README\.md is a file, and no folder"),
        ("new.py/d.py", r"new\.py is a file, and no folder"),
        ("made", r"it is a folder, since made/x\.py is to be"),
        (f"{'n' * 300}.py", "the name n+… is too long"),
        (f"{'é' * 200}/a.py", "the name é+… is too long"),
    ],
)
def test_what_cannot_be_made_is_refused_at_once(
    call: Call, context: ToolContext, path: str, error: str
) -> None:
    call(write_file, path="new.py", text="x\n")
    call(write_file, path="made/x.py", text="x\n")
    with pytest.raises(ToolError, match=error):
        call(write_file, path=path, text="x\n")
    with pytest.raises(ToolError, match=error):
        call(move_file, path="src/app.py", target=path)
    assert context.changes.paths == ["new.py", "made/x.py"]


def test_a_folder_may_come_where_a_file_was_deleted(
    call: Call, root: Path, context: ToolContext
) -> None:
    call(delete_file, path="README.md")
    call(write_file, path="README.md/a.txt", text="x\n")
    asyncio.run(context.workspace.apply(list(context.changes.changes()), label=""))
    assert (root / "README.md/a.txt").read_text() == "x\n"


@pytest.mark.parametrize(
    ("tool", "work", "arguments"),
    [
        (edit_file, "replace", {"edits": [{"old": "main()", "new": "start()"}]}),
        (write_file, "with_ends_of", {"text": "x\n"}),
    ],
    ids=["edit", "write"],
)
def test_the_event_loop_goes_on_while_texts_are_compared(
    context: ToolContext,
    monkeypatch: pytest.MonkeyPatch,
    tool: Tool,
    work: str,
    arguments: dict[str, Any],
) -> None:
    begun, seen = threading.Event(), threading.Event()
    real = getattr(edit, work)

    def waits(*texts: Any) -> str:
        begun.set()
        assert seen.wait(30), "nothing else was done meanwhile"
        return real(*texts)

    async def watch() -> None:
        while not begun.is_set():
            await asyncio.sleep(0)
        seen.set()

    async def both() -> None:
        await read_file.call(context, {"path": "src/app.py"})
        await asyncio.gather(tool.call(context, {"path": "src/app.py", **arguments}), watch())

    monkeypatch.setattr(edit, work, waits)
    asyncio.run(both())
    assert "src/app.py" in context.changes

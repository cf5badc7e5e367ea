"""What commands make of files, staged; `commands/test_tools.py` runs such commands."""

from collections.abc import Iterable
from pathlib import Path

import pytest

from composer_lsp.agent.commands import CommandResult
from composer_lsp.agent.edits.change_set import FileChange
from composer_lsp.agent.edits.text_file import TextFile
from composer_lsp.agent.tools.context import ToolContext
from composer_lsp.agent.tools.staging import take_changes
from composer_lsp.agent.workspace.directory import DirectoryWorkspace
from composer_lsp.agent.workspace.paths import Paths, Place


class CountingPaths(Paths):
    """Counts how often git is asked."""

    num_questions = 0

    def check(self, place: Place, *, may_be_ignored: bool = False) -> None:
        self.num_questions += 1
        super().check(place, may_be_ignored=may_be_ignored)

    def refused(self, places: Iterable[Place]) -> dict[Place, str]:
        self.num_questions += 1
        return super().refused(places)


def result(
    changes: dict[Path, bytes | None], modes: dict[Path, int] | None = None
) -> CommandResult:
    return CommandResult(
        output="",
        num_output_bytes=0,
        exit_code=0,
        signal=None,
        ended="exited",
        duration_s=0.0,
        changes=changes,
        modes=modes or {},
    )


async def test_git_is_asked_once_about_all_files(root: Path) -> None:
    paths = CountingPaths([root])
    context = ToolContext(workspace=DirectoryWorkspace(paths))
    made: dict[Path, bytes | None] = {root / f"made/{n}.txt": b"x\n" for n in range(50)}
    notes = await take_changes(context, result({**made, root / "sub" / ".env": b"KEY=1\n"}))

    assert len(list(context.changes.changes())) == 50
    assert (
        "left out, and nowhere now: sub/.env (sub/.env cannot be used: it holds secrets" in notes[1]
    )
    assert paths.num_questions == 1


def only(context: ToolContext) -> FileChange:
    (change,) = context.changes.changes()
    return change


@pytest.mark.parametrize("before", [None, "old = 'grün'\n"], ids=["new", "changed"])
@pytest.mark.parametrize("encoding", ["latin-1", "utf-16", "utf-8-sig", "utf-8"])
async def test_a_text_keeps_the_encoding_that_the_command_gave_it(
    encoding: str, before: str | None, root: Path, context: ToolContext
) -> None:
    path = root / "a.py"
    if before is not None:
        path.write_bytes(before.encode("latin-1" if encoding == "utf-8" else "utf-8"))
    for text in ("name = 'Bär'\n", "name = 'Käse und Brot für Jürgen'\n"):
        await take_changes(context, result({path: text.encode(encoding)}))
        assert only(context).data() == text.encode(encoding)
    await context.workspace.apply([only(context)], label="")

    assert path.read_bytes() == text.encode(encoding)


@pytest.mark.parametrize("after", ["x = 1\n", "caf\xe9 = 1\n"], ids=["ascii", "accents"])
async def test_a_text_that_tells_less_of_its_encoding_keeps_it(
    after: str, root: Path, context: ToolContext
) -> None:
    (root / "a.py").write_text("# coding: latin-1\ncaf\xe9 = 2\n", encoding="latin-1")
    await take_changes(context, result({root / "a.py": after.encode("latin-1")}))

    assert (only(context).after, only(context).like) == (after, None)
    assert only(context).data() == after.encode("latin-1")


@pytest.mark.parametrize("name", ["new.sh", "src/app.py"])
@pytest.mark.parametrize("mode", [0o755, 0o600])
async def test_permissions_of_a_staged_file_are_those_of_the_command(
    name: str, mode: int, root: Path, context: ToolContext
) -> None:
    """Whether they come with the text, or once it was staged, with another text or alone."""
    path = root / name
    for text, modes in (("one\n", {}), ("two\n", {path: 0o700}), (None, {path: mode})):
        changes: dict[Path, bytes | None] = {path: text.encode()} if text else {}
        num_edits = context.ledger.num_edits
        notes = await take_changes(context, result(changes, modes))
        assert notes == [f"[it changed, as if you had: {name}]"]
        assert context.ledger.num_edits == num_edits + 1
    assert (only(context).after, only(context).mode) == ("two\n", mode)
    await context.workspace.apply([only(context)], label="")

    assert path.stat().st_mode & 0o777 == mode
    assert path.read_text() == "two\n"


async def test_permissions_of_a_moved_file_leave_it_moved(root: Path, context: ToolContext) -> None:
    paths = context.workspace.paths
    old, new = paths.locate("src/app.py"), paths.locate("app.py")
    context.changes.move(
        old.path, await context.snapshot(old), new.path, await context.snapshot(new)
    )
    await take_changes(context, result({}, {root / "app.py": 0o755}))

    assert (only(context).moved_from, only(context).mode) == ("src/app.py", 0o755)
    assert TextFile.decode(only(context).data() or b"").text.startswith("import os")


async def test_permissions_of_an_unsaved_text_are_named(root: Path, context: ToolContext) -> None:
    notes = await take_changes(context, result({}, {root / "src/app.py": 0o755}))

    assert notes == [
        "[left out, and nowhere now: src/app.py (its permissions, since its text is that of an editor)]"
    ]

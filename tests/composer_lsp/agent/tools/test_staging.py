"""What commands make of files, staged; `commands/test_tools.py` runs such commands."""

from collections.abc import Iterable
from pathlib import Path

from composer_lsp.agent.commands import CommandResult
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

"""What becomes of changes whose editor answers late or never."""

import asyncio
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from lsprotocol import types

from composer_index.store.location import store_location
from composer_lsp.agent.edits.change_set import Snapshot
from composer_lsp.agent.edits.text_file import TextFile
from composer_lsp.agent.prompt.system import Request
from composer_lsp.agent.tools.context import ToolContext
from composer_lsp.agent.workspace.paths import Paths
from composer_lsp.agent.workspace.workspace import CodeIndex, WorkspaceError
from composer_lsp.config import Settings
from composer_lsp.server.agent.changes import Changes
from composer_lsp.server.agent.diagnostics import Diagnostics
from composer_lsp.server.agent.window_run import Run, RunError
from composer_lsp.server.agent.workspace import EditorWorkspace
from composer_lsp.server.documents import DocumentStore
from composer_lsp.server.positions import PositionEncoding

BEFORE, AFTER = "a = 0\nb = 0\nx = 1\ny = 1\n", "a = 0\nb = 0\nx = 2\ny = 1\n"
SOON_S = 0.05
LONG_S = 600.0
LIMIT_S = 30.0


@dataclass
class Editor:
    """An `EditingClient` that answers when it is told to."""

    has_document_changes: bool = True
    has_resource_operations: bool = True
    has_annotations: bool = True
    asked: "asyncio.Queue[asyncio.Future[str | None]]" = field(
        default_factory=lambda: asyncio.Queue[asyncio.Future[str | None]]()
    )

    labels: list[str] = field(default_factory=list[str])

    async def apply_edit(self, edit: types.WorkspaceEdit, label: str) -> str | None:
        answer = asyncio.get_running_loop().create_future()
        self.labels.append(label)
        self.asked.put_nowait(answer)
        return await answer


@dataclass
class Window:
    """An `AgentHost` of one folder."""

    store: DocumentStore
    settings: Settings = field(default_factory=Settings)
    diagnostics: Diagnostics = field(default_factory=Diagnostics)
    code_index: CodeIndex | None = None
    can_ask: bool = False
    logged: list[str] = field(default_factory=list[str])
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    def roots(self) -> Sequence[str]:
        return ()

    def documents(self) -> DocumentStore:
        return self.store

    async def confirm(self, question: str) -> bool:
        return False

    async def ask(self, question: str, *answers: str) -> str | None:
        return None

    def log(self, message: str) -> None:
        self.logged.append(message)

    def thinking(self) -> AbstractContextManager[None]:
        return nullcontext()

    def pending_changed(self) -> None:
        self.changed.set()


@dataclass
class Scene:
    root: Path
    editor: Editor
    window: Window
    workspace: EditorWorkspace
    runs: int = 0

    def changes(self, *, answer_limit_s: float = LONG_S, turn_limit_s: float = LONG_S) -> Changes:
        return Changes(self.window, answer_limit_s=answer_limit_s, turn_limit_s=turn_limit_s)

    def run(self, *paths: str) -> Run:
        """It has raised x in each file."""
        self.runs += 1
        context = ToolContext(workspace=self.workspace)
        for path in paths:
            self.make(path, BEFORE)
            context.changes.write(path, Snapshot(file=TextFile(text=BEFORE), mode=0o644), AFTER)
        ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        ended.cancel()
        return Run(
            id=str(self.runs),
            request=Request(mode="edit", text=f"Raise {paths[0]}."),
            workspace=self.workspace,
            context=context,
            task=ended,  # pyright: ignore[reportArgumentType] - a run that was stopped
            transcripts=self.root.parent / "transcripts",
        )

    def make(self, path: str, text: str) -> None:
        """As the editor does it that is asked to."""
        Path(self.workspace.paths.locate(path).absolute).write_text(text)


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("COMPOSER_STATE_DIR", str(tmp_path / "state"))
    return tmp_path / "state"


def scene_of(*roots: Path) -> Scene:
    for root in roots:
        root.mkdir()
    store = DocumentStore(None, [], PositionEncoding.UTF16)
    window, editor = Window(store), Editor()
    workspace = EditorWorkspace(Paths(roots), window.documents, editor, window.diagnostics)
    return Scene(roots[0], editor, window, workspace)


@pytest.fixture
async def scene(tmp_path: Path, state: Path) -> Scene:
    return scene_of(tmp_path / "root")


def manifests(state: Path) -> list[Path]:
    return list(state.glob("checkpoints/*/*.json"))


async def cancelled(task: "asyncio.Task[None] | asyncio.Task[str]") -> None:
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def undone(scene: Scene, changes: Changes, path: str) -> str:
    undoing = asyncio.create_task(changes.undo(scene.workspace))
    answer = await scene.editor.asked.get()
    scene.make(path, BEFORE)
    answer.set_result(None)
    return await undoing


async def test_an_edit_that_was_sent_before_a_cancel_is_accepted_when_it_is_made(
    scene: Scene,
) -> None:
    changes, run = scene.changes(), scene.run("a.py")
    accepting = asyncio.create_task(changes.accept(run))
    answer = await scene.editor.asked.get()
    await cancelled(accepting)
    scene.make("a.py", AFTER)
    answer.set_result(None)
    assert await undone(scene, changes, "a.py") == "Raise a.py."
    assert not run.pending
    with pytest.raises(RunError, match="nothing to undo"):
        await changes.undo(scene.workspace)


async def test_an_edit_that_was_refused_after_a_cancel_is_pending_and_told(scene: Scene) -> None:
    changes, run = scene.changes(), scene.run("a.py")
    accepting = asyncio.create_task(changes.accept(run))
    answer = await scene.editor.asked.get()
    await cancelled(accepting)
    answer.set_result("no")
    with pytest.raises(RunError, match="nothing to undo"):
        await changes.undo(scene.workspace)
    assert run.pending
    assert scene.window.logged == ["the editor did not make the changes: no"]


async def test_an_undo_that_was_sent_before_a_cancel_is_over_when_it_is_made(scene: Scene) -> None:
    changes, run = scene.changes(), scene.run("a.py")
    accepting = asyncio.create_task(changes.accept(run))
    answer = await scene.editor.asked.get()
    scene.make("a.py", AFTER)
    answer.set_result(None)
    await accepting
    undoing = asyncio.create_task(changes.undo(scene.workspace))
    answer = await scene.editor.asked.get()
    await cancelled(undoing)
    scene.make("a.py", BEFORE)
    answer.set_result(None)
    with pytest.raises(RunError, match="nothing to undo"):
        await changes.undo(scene.workspace)


async def test_a_later_accept_says_what_it_waits_for(scene: Scene) -> None:
    changes = scene.changes(turn_limit_s=SOON_S)
    accepting = asyncio.create_task(changes.accept(scene.run("a.py")))
    answer = await scene.editor.asked.get()
    with pytest.raises(WorkspaceError, match=r"has not answered yet .* “Raise a\.py\.”"):
        await changes.accept(scene.run("b.py"))
    answer.set_result(None)
    await accepting


async def test_a_later_accept_is_cancelled_at_once(scene: Scene) -> None:
    changes, run = scene.changes(), scene.run("b.py")
    accepting = asyncio.create_task(changes.accept(scene.run("a.py")))
    answer = await scene.editor.asked.get()
    later = asyncio.create_task(changes.accept(run))
    await asyncio.sleep(0)
    await cancelled(later)
    third = asyncio.create_task(changes.accept(scene.run("c.py")))
    answer.set_result(None)
    (await scene.editor.asked.get()).set_result(None)
    await asyncio.gather(accepting, third)
    assert run.pending
    assert scene.editor.labels == ["Composer: Raise a.py.", "Composer: Raise c.py."]


@pytest.mark.parametrize("is_cancelled", [True, False])
async def test_an_editor_that_does_not_answer_blocks_nothing_for_ever(
    scene: Scene, is_cancelled: bool
) -> None:
    """`is_cancelled`: of a review, which has no limit as long as somebody waits for it."""
    changes, run = scene.changes(answer_limit_s=SOON_S), scene.run("a.py")
    accepting = asyncio.create_task(changes.accept(run, review=is_cancelled))
    await scene.editor.asked.get()
    if is_cancelled:
        await cancelled(accepting)
    else:
        with pytest.raises(WorkspaceError, match=r"not answered whether it made .*“Raise a\.py\.”"):
            await accepting
    later = asyncio.create_task(changes.accept(scene.run("b.py")))
    answer = await scene.editor.asked.get()
    scene.make("b.py", AFTER)
    answer.set_result(None)
    await later
    assert run.pending
    assert await undone(scene, changes, "b.py") == "Raise b.py."
    with pytest.raises(RunError, match="nothing to undo"):
        await changes.undo(scene.workspace)


async def test_a_review_that_is_given_up_ends_at_once(scene: Scene) -> None:
    changes, run = scene.changes(), scene.run("a.py")
    assert not changes.give_up()
    accepting = asyncio.create_task(changes.accept(run, review=True))
    await scene.editor.asked.get()
    assert changes.give_up()
    with pytest.raises(WorkspaceError, match="not answered"):
        await accepting
    assert run.pending


async def test_what_was_made_without_an_answer_is_accepted(scene: Scene) -> None:
    changes, run = scene.changes(answer_limit_s=SOON_S), scene.run("a.py")
    accepting = asyncio.create_task(changes.accept(run))
    await scene.editor.asked.get()
    scene.make("a.py", "# typed\n" + AFTER)
    await accepting
    assert not run.pending
    assert await undone(scene, changes, "a.py") == "Raise a.py."


async def test_what_is_made_after_it_was_given_up_is_accepted(scene: Scene) -> None:
    changes, run = scene.changes(answer_limit_s=SOON_S), scene.run("a.py")
    accepting = asyncio.create_task(changes.accept(run))
    answer = await scene.editor.asked.get()
    with pytest.raises(WorkspaceError, match="not answered"):
        await accepting
    assert run.pending
    scene.window.changed.clear()
    scene.make("a.py", AFTER)
    answer.set_result(None)
    await scene.window.changed.wait()
    assert not run.pending
    assert await undone(scene, changes, "a.py") == "Raise a.py."


async def test_what_is_taken_back_after_it_was_given_up_is_not_undone(
    scene: Scene, state: Path
) -> None:
    """The new file was made on the disk."""
    scene.editor.has_document_changes = False
    changes, run = scene.changes(answer_limit_s=SOON_S), scene.run("a.py")
    run.pending.write("new.py", Snapshot(file=None), AFTER)
    accepting = asyncio.create_task(changes.accept(run))
    answer = await scene.editor.asked.get()
    with pytest.raises(WorkspaceError, match="not answered"):
        await accepting
    assert [each.path for each in run.pending.changes()] == ["a.py"]
    answer.set_result("no")
    async with asyncio.timeout(LIMIT_S):
        while manifests(state):
            await asyncio.sleep(0.01)
    with pytest.raises(RunError, match="nothing to undo"):
        await changes.undo(scene.workspace)


async def test_what_was_accepted_again_meanwhile_is_undone_once(scene: Scene) -> None:
    changes, run = scene.changes(answer_limit_s=SOON_S), scene.run("a.py")
    accepting = asyncio.create_task(changes.accept(run))
    late = await scene.editor.asked.get()
    with pytest.raises(WorkspaceError, match="not answered"):
        await accepting
    again = asyncio.create_task(changes.accept(run))
    answer = await scene.editor.asked.get()
    scene.make("a.py", AFTER)
    answer.set_result(None)
    await again
    scene.window.changed.clear()
    late.set_result(None)
    await scene.window.changed.wait()
    assert await undone(scene, changes, "a.py") == "Raise a.py."
    with pytest.raises(RunError, match="nothing to undo"):
        await changes.undo(scene.workspace)


async def test_an_undo_that_is_not_answered_can_be_done_again(scene: Scene) -> None:
    changes, run = scene.changes(answer_limit_s=SOON_S), scene.run("a.py")
    accepting = asyncio.create_task(changes.accept(run))
    answer = await scene.editor.asked.get()
    scene.make("a.py", AFTER)
    answer.set_result(None)
    await accepting
    undoing = asyncio.create_task(changes.undo(scene.workspace))
    await scene.editor.asked.get()
    with pytest.raises(WorkspaceError, match=r"not answered .*“Undo: Raise a\.py\.”"):
        await undoing
    assert await undone(scene, changes, "a.py") == "Raise a.py."


async def test_what_cannot_be_kept_in_one_of_two_folders_is_kept_in_none(
    tmp_path: Path, state: Path
) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    scene = scene_of(one, two)
    (state / "checkpoints").mkdir(parents=True)
    (state / "checkpoints" / store_location(state, two).name).write_text("in the way")
    changes, run = scene.changes(), scene.run("one/a.py", "two/b.py")
    with pytest.raises(OSError, match="Not a directory"):
        await changes.accept(run)
    assert run.pending
    assert scene.editor.asked.empty()
    with pytest.raises(RunError, match="nothing to undo"):
        await changes.undo(scene.workspace)

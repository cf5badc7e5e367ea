"""The hook by which a run's changes are applied before a command that sees the disk alone."""

import stat
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import url2pathname

import pytest
from lsprotocol import types

from composer_lsp.agent.edits.change_set import FileChange
from composer_lsp.agent.edits.text_file import TextFile
from composer_lsp.agent.prompt.system import Request
from composer_lsp.agent.workspace.workspace import ConflictError, WorkspaceError
from composer_lsp.config import AgentSettings, IndexSettings, Settings
from composer_lsp.server.agent.diagnostics import Diagnostics
from composer_lsp.server.agent.runs import Runs
from composer_lsp.server.agent.window_run import Run
from composer_lsp.server.documents import DocumentStore
from composer_lsp.server.positions import PositionEncoding
from tests.support.chat_server import Said, fake_chat

TEXT = "price = 1\n"
EDIT: Said = [
    ("edit_file", {"path": "shop.py", "edits": [{"old": "price = 1", "new": "price = 2"}]}),
    ("finish", {"summary": "ok"}),
]


class Window:
    """Implements `AgentHost` and `EditingClient`: one open document, which only a user saves."""

    has_document_changes = True
    has_resource_operations = True
    has_annotations = False
    code_index = None
    can_ask = True
    diagnostics = Diagnostics()

    def __init__(self, path: Path, url: str, on_ask: Callable[["Window"], str | None]) -> None:
        self.settings = Settings(agent=AgentSettings(url=url), index=IndexSettings(enabled=False))
        self._path = path
        self._on_ask = on_ask
        self._documents = DocumentStore(None, [], PositionEncoding.UTF16)
        self._documents.put_text_document(
            types.TextDocumentItem(path.as_uri(), types.LanguageKind.Python, 1, path.read_text())
        )
        self.asked: list[tuple[str, ...]] = []

    @property
    def text(self) -> str:
        document = self._documents.find(self._path.as_uri())
        assert document is not None
        return document.buffer.text

    def type(self, text: str) -> None:
        document = self._documents.find(self._path.as_uri())
        assert document is not None
        document.buffer.replace_all(text)
        document.version = (document.version or 0) + 1

    def save(self) -> None:
        self._path.write_text(self.text)

    def roots(self) -> Sequence[str]:
        return [str(self._path.parent)]

    def documents(self) -> DocumentStore:
        return self._documents

    async def confirm(self, question: str) -> bool:
        return False

    async def ask(self, question: str, *answers: str) -> str | None:
        self.asked.append((question, *answers))
        return self._on_ask(self)

    def log(self, message: str) -> None: ...

    def thinking(self) -> AbstractContextManager[None]:
        return nullcontext()

    def pending_changed(self) -> None: ...

    async def apply_edit(self, edit: types.WorkspaceEdit, label: str) -> str | None:
        for change in edit.document_changes or ():
            if isinstance(change, types.DeleteFile):
                _delete(change.uri)
                continue
            assert isinstance(change, types.TextDocumentEdit)
            for each in reversed(change.edits):
                assert isinstance(each, types.TextEdit)
                document = self._documents.find(self._path.as_uri())
                assert document is not None
                document.buffer.replace(each.range.start, each.range.end, each.new_text)
        return None


def _delete(uri: str) -> None:
    Path(url2pathname(urlsplit(uri).path)).unlink()


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("COMPOSER_STATE_DIR", str(tmp_path / "state"))
    (tmp_path / "shop").mkdir()
    file = tmp_path / "shop" / "shop.py"
    file.write_text(TEXT)
    return file


async def run_in(window: Window) -> tuple[Runs, Run]:
    runs = Runs(window, window)
    run = runs.begin(Request(mode="edit", text="Raise it."), lambda id, event: None)
    await runs.ended(run)
    return runs, run


async def apply_pending(run: Run) -> None:
    assert run.context.apply_pending is not None
    await run.context.apply_pending()


def saved_at_the_second_word(window: Window) -> str:
    if len(window.asked) == 2:
        window.save()
    return window.asked[-1][1]


async def test_the_user_saves_what_was_applied(path: Path) -> None:
    with fake_chat(EDIT) as chat:
        window = Window(path, chat.url, saved_at_the_second_word)
        runs, run = await run_in(window)
        await apply_pending(run)
        assert window.text == "price = 2\n"
        assert [asked[0] for asked in window.asked] == [
            "Save shop.py, so that the command sees the changes."
        ] * 2
        assert not run.pending
        # It is a change that was accepted: undo takes it back.
        assert await runs.undo() == "Raise it."
        assert window.text == TEXT
        await runs.close()


async def test_whoever_does_not_save_has_no_command_run(path: Path) -> None:
    with fake_chat(EDIT) as chat:
        window = Window(path, chat.url, lambda window: None)
        runs, run = await run_in(window)
        with pytest.raises(WorkspaceError, match=r"the changes are made, but shop\.py not saved"):
            await apply_pending(run)
        await runs.close()


async def test_a_conflict_applies_nothing_and_keeps_it_pending(path: Path) -> None:
    with fake_chat(EDIT) as chat:
        window = Window(path, chat.url, saved_at_the_second_word)
        runs, run = await run_in(window)
        window.type("price = 7\n")
        with pytest.raises(ConflictError):
            await apply_pending(run)
        assert window.text == "price = 7\n"
        assert run.pending
        await runs.close()


UTF_16 = TextFile(text="", encoding="utf-16-le", bom=b"\xff\xfe")
MADE_BY_A_COMMAND = [
    FileChange(path="run.sh", before=None, after="echo\n", mode=0o755),
    FileChange(path="wide.txt", before=None, after="x\n", like=UTF_16),
]


async def test_what_an_editor_cannot_give_a_new_file_is_kept(path: Path) -> None:
    with fake_chat(EDIT) as chat:
        window = Window(path, chat.url, saved_at_the_second_word)
        runs, run = await run_in(window)
        for change in MADE_BY_A_COMMAND:
            run.pending.add(change)
        await runs.accept(run.id)
        assert stat.S_IMODE((path.parent / "run.sh").stat().st_mode) == 0o755
        assert (path.parent / "wide.txt").read_bytes() == "\ufeffx\n".encode("utf-16-le")
        assert window.text == "price = 2\n"
        await runs.undo()
        assert [each.name for each in path.parent.iterdir()] == ["shop.py"]
        assert window.text == TEXT
        await runs.close()


class LeavesAll(Window):
    """Its user takes nothing in a review."""

    has_annotations = True

    async def apply_edit(self, edit: types.WorkspaceEdit, label: str) -> str | None:
        return None


async def test_what_a_review_leaves_out_stays_as_it_was(path: Path) -> None:
    link = path.parent / "link.py"
    link.symlink_to("shop.py")
    with fake_chat(EDIT) as chat:
        window = LeavesAll(path, chat.url, saved_at_the_second_word)
        runs, run = await run_in(window)
        for change in MADE_BY_A_COMMAND:
            run.pending.add(change)
        run.pending.add(
            FileChange(path="link.py", before=TextFile(text=TEXT), after=None, link="shop.py")
        )
        await runs.accept(run.id, review=True)
        left = {change.path: change for change in run.pending.changes()}
        assert sorted(left) == ["link.py", "run.sh", "shop.py", "wide.txt"]
        assert left["link.py"].link == "shop.py"
        assert left["run.sh"].mode == 0o755
        assert left["wide.txt"].data() == "\ufeffx\n".encode("utf-16-le")
        await runs.close()

"""What the index and the open documents have to say to a place."""

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import pytest
from lsprotocol import types

from composer_lsp.completion.copies import Copies, Copy
from composer_lsp.completion.edit_history import EditHistory
from composer_lsp.completion.request import CompletionRequest
from composer_lsp.index.client import WorkerError
from composer_lsp.index.service import IndexService
from composer_lsp.server.documents import DocumentStore
from composer_lsp.server.positions import PositionEncoding
from composer_lsp.server.prompt_sources import PromptSources


class FakeIndex:
    def __init__(
        self, related: Sequence[Mapping[str, Any]] = (), alike: Sequence[Mapping[str, Any]] = ()
    ) -> None:
        self._related = related
        self._alike = alike
        self.asked: list[tuple[str, int]] = []
        self.queries: list[str] = []
        self.error: WorkerError | None = None
        self.hangs = False

    async def related(self, path: str, line: int, *, limit: int) -> Sequence[Mapping[str, Any]]:
        self.asked.append((path, line))
        if self.hangs:
            await asyncio.Event().wait()
        if self.error is not None:
            raise self.error
        return self._related

    async def search(self, query: str, *, limit: int) -> Mapping[str, Any]:
        self.queries.append(query)
        return {"results": self._alike}


def result(path: str, text: str, *why: str, start_line: int = 1) -> Mapping[str, Any]:
    return {"path": path, "text": text, "why": why, "start_line": start_line}


class Window:
    def __init__(self, root: Path, index: FakeIndex | None = None) -> None:
        self.store = DocumentStore(None, [], PositionEncoding.UTF16)
        self.root = root
        self.edits = EditHistory()
        self.copies = Copies()
        self.files = PromptSources(
            lambda: cast("IndexService | None", index),
            lambda: self.store,
            lambda: [str(root)],
            self.edits,
            self.copies,
            limit_s=0.05,
        )

    def open(self, name: str, text: str, language_id: str = "python") -> str:
        uri = (self.root / name).as_uri()
        item = types.TextDocumentItem(uri=uri, language_id=language_id, version=1, text=text)
        self.store.put_text_document(item)
        return uri

    def edit(self, uri: str, line: int, text: str) -> None:
        """Replaces a line."""
        document = self.store.find(uri)
        assert document is not None
        buffer = document.buffer
        buffer.watch = self.edits.opened(uri, "python", lambda: buffer.lines)
        buffer.replace(types.Position(line, 0), types.Position(line + 1, 0), f"{text}\n")

    def request(self, uri: str, offset: int) -> CompletionRequest:
        document = self.store.find(uri)
        assert document is not None
        return CompletionRequest(document=document.snapshot(), offset=offset)


OWN = "import b\n\ndef load(path, delimiter):\n    return b.read_table(path, "
OTHER = "def read_table(path, delimiter):\n    return load(path)\n"


async def test_what_the_index_tells_by_its_kind_and_rank(tmp_path: Path) -> None:
    index = FakeIndex(
        related=[
            result("b.py", "def one(): ...", "import"),
            result("b.py", "def two(): ...", "import", start_line=9),
            result("test_a.py", "def test(): ...", "test"),
        ],
        alike=[result("c.py", "def three(): ...", "meaning")],
    )
    window = Window(tmp_path, index)
    request = window.request(window.open("a.py", OWN), len(OWN))
    found = await window.files.gather(request)
    assert found is not None
    assert [(each.path, each.first_line, round(each.worth, 2)) for each in found] == [
        ("b.py", 1, 0.9),
        ("b.py", 9, 0.86),
        ("test_a.py", 1, 0.5),
        ("c.py", 1, 0.7),
    ]
    assert index.asked == [(str(tmp_path / "a.py"), 4)]
    assert index.queries == [OWN.strip()]


async def test_what_the_prompt_has_anyway_is_left_out(tmp_path: Path) -> None:
    near = result("a.py", "def load(path): ...", "sibling", start_line=3)
    far = result("a.py", "def far(): ...", "sibling", start_line=500)
    window = Window(tmp_path, FakeIndex(related=[near, far]))
    found = await window.files.gather(window.request(window.open("a.py", OWN), len(OWN)))
    assert [each.first_line for each in found or ()] == [500]


async def test_open_documents_of_the_language_without_an_index(tmp_path: Path) -> None:
    window = Window(tmp_path)
    window.open("b.py", OTHER)
    window.open("c.lua", OTHER, "lua")
    window.open("d.py", "nothing = 0\n")
    found = await window.files.gather(window.request(window.open("a.py", OWN), len(OWN)))
    assert found is not None
    [piece] = found
    assert (piece.path, piece.text) == ("b.py", OTHER.rstrip("\n"))


async def test_hidden_documents_are_told_nothing_of(tmp_path: Path) -> None:
    (tmp_path / ".composerignore").write_text("b.py\n")
    window = Window(tmp_path)
    window.open("b.py", OTHER)
    window.open(".env", OTHER)
    request = window.request(window.open("a.py", OWN), len(OWN))
    assert await window.files.gather(request) == []
    assert window.files.is_hidden("b.py")
    assert window.files.is_hidden(".env")
    assert not window.files.is_hidden("a.py")


async def test_what_was_edited_elsewhere(tmp_path: Path) -> None:
    window = Window(tmp_path)
    own = window.open("a.py", OWN)
    window.edit(window.open("b.py", "one = 1\ntwo = 2\nthree = 3\n"), 1, "deux = 2")
    found = await window.files.gather(window.request(own, len(OWN)))
    assert found is not None
    [piece] = found
    assert (piece.path, piece.is_volatile) == ("b.py.diff", True)
    assert piece.text == "@@\n one = 1\n-two = 2\n+deux = 2\n three = 3"


async def test_what_is_edited_at_the_cursor_stands_there_already(tmp_path: Path) -> None:
    window = Window(tmp_path)
    own = window.open("a.py", OWN)
    window.edit(own, 2, "def load(path):")
    line_start = OWN.index("def")
    assert await window.files.gather(window.request(own, line_start + 3)) == []
    assert len(await window.files.gather(window.request(own, 0)) or ()) == 1


async def test_what_was_copied_elsewhere(tmp_path: Path) -> None:
    window = Window(tmp_path)
    own, other = window.open("a.py", OWN), (tmp_path / "b.py").as_uri()
    hidden = (tmp_path / ".env").as_uri()
    text = "value = compute(1)\n"
    for uri, line, copied in (
        (own, 3, text),
        (other, 7, text + text),
        (hidden, 1, "KEY = 'secret value'"),
        (other, 9, "short"),
    ):
        window.copies.add(Copy(uri=uri, language_id="python", first_line=line, text=copied))
    found = await window.files.gather(window.request(own, len(OWN)))
    assert [(each.path, each.first_line, each.text) for each in found or ()] == [
        ("b.py", 7, text + text)
    ]


def test_the_last_copies_each_once() -> None:
    copies = Copies()
    texts = [f"value_{number} = {number} + 0" for number in range(5)]
    for text in (*texts, texts[3], "", "x" * 5000):
        copies.add(Copy(uri="file:///a.py", language_id="python", first_line=1, text=text))
    assert [each.text for each in copies.recent()] == [texts[3], texts[4], texts[2]]


@pytest.mark.parametrize("uri", ["untitled:new", "file:///elsewhere/x.py"])
async def test_documents_outside_of_the_folders_ask_no_index(tmp_path: Path, uri: str) -> None:
    index = FakeIndex()
    window = Window(tmp_path, index)
    item = types.TextDocumentItem(uri=uri, language_id="python", version=1, text=OWN)
    window.store.put_text_document(item)
    assert await window.files.gather(window.request(uri, 0)) == []
    assert index.asked == []
    assert window.files.repository_of("/elsewhere/x.py") == ""
    assert window.files.repository_of(str(tmp_path / "a.py")) == tmp_path.name


async def test_what_the_index_has_of_hidden_files_is_left_out(tmp_path: Path) -> None:
    (tmp_path / ".composerignore").write_text("b.py\n")
    told = [result(name, "KEY = 'value'", "sibling") for name in ("b.py", ".env", "c.py")]
    window = Window(tmp_path, FakeIndex(related=told, alike=told))
    found = await window.files.gather(window.request(window.open("a.py", OWN), len(OWN)))
    assert {each.path for each in found or ()} == {"c.py"}


async def test_an_index_that_hangs_is_not_waited_for(tmp_path: Path) -> None:
    index = FakeIndex()
    index.hangs = True
    window = Window(tmp_path, index)
    async with asyncio.timeout(30):
        assert await window.files.gather(window.request(window.open("a.py", OWN), 0)) == []


async def test_an_index_that_never_answered_leaves_the_open_documents(tmp_path: Path) -> None:
    index = FakeIndex()
    index.error = WorkerError("cannot start")
    window = Window(tmp_path, index)
    window.open("b.py", OTHER)
    request = window.request(window.open("a.py", OWN), len(OWN))
    assert [each.path for each in await window.files.gather(request) or ()] == ["b.py"]
    index.error = None
    await window.files.gather(request)
    index.error = WorkerError("gone")
    assert await window.files.gather(request) is None


async def test_an_edit_among_long_lines_is_told_without_them(tmp_path: Path) -> None:
    window = Window(tmp_path)
    own = window.open("a.py", OWN)
    data = f"data = [{'1, ' * 1000}]"
    other = window.open("b.py", f"{data}\none = 1\ntwo = 2\n")
    window.edit(other, 1, "un = 1")
    found = await window.files.gather(window.request(own, len(OWN)))
    assert [each.text for each in found or ()] == ["@@\n-one = 1\n+un = 1\n two = 2"]
    window.edit(other, 0, "data = []")
    assert await window.files.gather(window.request(own, len(OWN))) == []

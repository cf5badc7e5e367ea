"""A window whose agent's model says what a test wrote down, and an editor's buffers."""

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import url2pathname

from lsprotocol import types

from composer_lsp.server.documents import TextBuffer
from composer_lsp.server.positions import PositionEncoding
from tests.composer_lsp.server.conftest import StartFake
from tests.support.chat_server import FakeChat, Said, fake_chat
from tests.support.lsp import CAPABILITIES, LspClient

OPERATIONS: dict[str, Any] = {
    "documentChanges": True,
    "resourceOperations": ["create", "rename", "delete"],
    "changeAnnotationSupport": {},
}
CODE_ACTIONS: dict[str, Any] = {
    "codeActionLiteralSupport": {"codeActionKind": {"valueSet": ["quickfix", "a.kind.of.theirs"]}},
    "resolveSupport": {"properties": ["edit", "command"]},
    "tagSupport": {"valueSet": [99]},
}
EDITOR: dict[str, Any] = {
    **CAPABILITIES,
    "textDocument": {**CAPABILITIES["textDocument"], "codeAction": CODE_ACTIONS},
    "workspace": {
        **CAPABILITIES["workspace"],
        "applyEdit": True,
        "workspaceEdit": OPERATIONS,
        "codeLens": {"refreshSupport": True},
    },
    "experimental": {"composer": {"status": True, "agent": True, "input": True}},
}
"""Knows the agent, and leaves pending hunks to code lenses."""
PLAIN: dict[str, Any] = {
    **CAPABILITIES,
    "workspace": {**CAPABILITIES["workspace"], "applyEdit": True},
    "experimental": {},
}

Window = tuple[LspClient, FakeChat]


class OpenWindow:
    """Starts a window on folders; `OpenWindow(...)(*replies)`."""

    def __init__(self, start: StartFake, *roots: Path) -> None:
        self._start = start
        self._roots = roots

    def __call__(
        self,
        *replies: Said,
        capabilities: Any = EDITOR,
        roots: Sequence[Path] | None = None,
        settings: Mapping[str, Any] | None = None,
    ) -> AbstractAsyncContextManager[Window]:
        """`settings`: of the agent, besides the model's URL."""
        of_agent = settings or {}
        return self._open(replies, capabilities, self._roots if roots is None else roots, of_agent)

    @asynccontextmanager
    async def _open(
        self,
        replies: Sequence[Said],
        capabilities: Any,
        roots: Sequence[Path],
        settings: Mapping[str, Any],
    ) -> AsyncGenerator[Window]:
        with fake_chat(*replies) as chat:
            async with self._start() as client:
                await client.initialize(
                    capabilities,
                    workspaceFolders=[{"uri": each.as_uri(), "name": each.name} for each in roots],
                    initializationOptions={
                        "agent": {"url": chat.url, **settings},
                        "index": {"enabled": False},
                    },
                )
                client.answers["workspace/applyEdit"] = lambda params: {"applied": True}
                yield client, chat


@dataclass
class Buffers:
    """An editor that applies workspace edits: to its buffers, and to files that are not open by
    writing them. Its answer to `workspace/applyEdit` is `apply`."""

    client: LspClient
    texts: dict[str, str] = field(default_factory=dict[str, str])
    versions: dict[str, int] = field(default_factory=dict[str, int])
    skips: Callable[[str], bool] = lambda uri: False
    """What the user leaves out in a review."""

    def __post_init__(self) -> None:
        self.client.answers["workspace/applyEdit"] = self.apply

    def open(self, path: Path, text: str) -> str:
        uri = path.as_uri()
        self.client.open(uri, text)
        self.texts[uri], self.versions[uri] = text, 1
        return uri

    def type(self, uri: str, text: str) -> None:
        """The whole text is another now."""
        self.texts[uri] = text
        self.versions[uri] += 1
        self.client.change(uri, self.versions[uri], {"text": text})

    def apply(self, params: Any) -> Any:
        for change in params["edit"]["documentChanges"]:
            uri = change.get("uri") or change.get("newUri") or change["textDocument"]["uri"]
            if not self.skips(uri):
                self._apply(change)
        return {"applied": True}

    def _apply(self, change: Any) -> None:
        kind = change.get("kind")
        if kind == "create":
            _path(change["uri"]).write_text("")
        elif kind == "delete":
            _path(change["uri"]).unlink()
        elif kind == "rename":
            _path(change["oldUri"]).rename(_path(change["newUri"]))
        else:
            self._edit(change["textDocument"], change["edits"])

    def _edit(self, document: Any, edits: Any) -> None:
        uri = document["uri"]
        if uri not in self.texts:
            path = _path(uri)
            path.write_bytes(_edited(path.read_bytes().decode(), edits).encode())
            return
        assert document["version"] == self.versions[uri]
        self.type(uri, _edited(self.texts[uri], edits))


def _edited(text: str, edits: Any) -> str:
    buffer = TextBuffer(text, PositionEncoding.UTF16)
    for edit in reversed(edits):
        start, end = (types.Position(**edit["range"][name]) for name in ("start", "end"))
        buffer.replace(start, end, edit["newText"])
    return buffer.text


def _path(uri: str) -> Path:
    return Path(url2pathname(urlsplit(uri).path))


def place(line: int, character: int = 0) -> dict[str, int]:
    return {"line": line, "character": character}


def span(line: int, character: int, end_line: int, end_character: int) -> dict[str, Any]:
    return {"start": place(line, character), "end": place(end_line, end_character)}

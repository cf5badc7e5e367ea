"""An editor that speaks ACP, by the SDK's client side, and the real process at its other end."""

import asyncio
import os
import shutil
import sys
import tempfile
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from acp import PROTOCOL_VERSION, RequestError, connect_to_agent, schema, text_block
from acp.client.connection import ClientSideConnection

from tests.support.chat_server import FakeChat, Said, fake_chat

LIMIT_S = 60.0
TEXT = "def price():\n    return 1\n"

WITH_FILES = schema.ClientCapabilities(
    fs=schema.FileSystemCapabilities(read_text_file=True, write_text_file=True)
)
WITHOUT_FILES = schema.ClientCapabilities()


@dataclass
class Editor:
    """What it was told, and what it answers."""

    buffers: dict[str, str] = field(default_factory=dict[str, str])
    """Unsaved texts, by absolute path."""
    choice: str | None = "once"
    """The option that is chosen where it is offered; None: the question stays open."""
    updates: list[Any] = field(default_factory=list[Any])
    asked: list[Any] = field(default_factory=list[Any])
    read: list[str] = field(default_factory=list[str])
    written: list[str] = field(default_factory=list[str])
    when_asked: Callable[[], object] = lambda: None
    is_asked: asyncio.Event = field(default_factory=asyncio.Event)
    refuses_to_write: str = ""
    """The path of a file that it does not write."""
    connection: ClientSideConnection | None = None
    process: asyncio.subprocess.Process | None = None

    @property
    def agent(self) -> ClientSideConnection:
        assert self.connection is not None
        return self.connection

    # The SDK's names. ---------------------------------------------------------------------------

    async def session_update(self, session_id: str, update: Any, **meta: Any) -> None:
        self.updates.append((session_id, update))

    async def request_permission(
        self, session_id: str, tool_call: Any, options: list[Any], **meta: Any
    ) -> schema.RequestPermissionResponse:
        self.asked.append((tool_call, options))
        self.is_asked.set()
        self.when_asked()
        if self.choice is None:
            await asyncio.Event().wait()
        assert self.choice in [option.option_id for option in options]
        return schema.RequestPermissionResponse(
            outcome=schema.AllowedOutcome(outcome="selected", option_id=self.choice)
        )

    async def read_text_file(
        self, session_id: str, path: str, **rest: Any
    ) -> schema.ReadTextFileResponse:
        self.read.append(path)
        text = self.buffers.get(path)
        if text is None and (text := on_disk(path)) is None:
            raise RequestError.resource_not_found(path)
        return schema.ReadTextFileResponse(content=text)

    async def write_text_file(
        self, session_id: str, path: str, content: str, **meta: Any
    ) -> schema.WriteTextFileResponse:
        if path == self.refuses_to_write:
            raise RequestError(-32603, "the disk is full")
        self.written.append(path)
        self.buffers.pop(path, None)
        save(path, content)
        return schema.WriteTextFileResponse()

    # What tests ask of it. ----------------------------------------------------------------------

    async def start_session(self, root: Path, **more: Any) -> str:
        return (await self.agent.new_session(cwd=str(root), **more)).session_id

    async def say(self, session: str, text: str) -> str:
        """The stop reason."""
        return await self.prompt(session, text_block(text))

    async def prompt(self, session: str, *blocks: Any) -> str:
        async with asyncio.timeout(LIMIT_S):
            answer = await self.agent.prompt(session_id=session, prompt=list(blocks))
        return answer.stop_reason

    def said(self, session: str) -> str:
        return "".join(update.content.text for update in self.of(session, schema.AgentMessageChunk))

    def of(self, session: str, kind: type) -> list[Any]:
        return [update for id, update in self.updates if id == session and isinstance(update, kind)]


def on_disk(path: str) -> str | None:
    """As editors load it: lines end in \\n, what is no UTF-8 is shown as a sign."""
    try:
        return Path(path).read_bytes().decode("utf-8", "replace").replace("\r\n", "\n")
    except FileNotFoundError:
        return None


def save(path: str, text: str) -> None:
    Path(path).write_text(text, newline="\n")


Start = Callable[..., AbstractAsyncContextManager[tuple[Editor, FakeChat]]]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "shop"
    folder.mkdir()
    (folder / "shop.py").write_text(TEXT)
    (folder / ".env").write_text("TOKEN=1\n")
    return folder


@pytest.fixture
def home() -> Iterator[Path]:
    """Where the process keeps what it keeps."""
    path = Path(tempfile.mkdtemp(prefix="c-"))
    yield path
    shutil.rmtree(path)


@pytest.fixture
def start(home: Path) -> Start:
    """`start(*replies)`: the process, initialized, whose model says what is played."""

    @asynccontextmanager
    async def started(
        *replies: Said,
        capabilities: schema.ClientCapabilities = WITH_FILES,
        arguments: tuple[str, ...] = (),
    ) -> AsyncGenerator[tuple[Editor, FakeChat]]:
        with fake_chat(*replies) as chat:
            editor = Editor()
            process = await spawn(home, "--url", chat.url, "--no-index", *arguments)
            assert process.stdin is not None
            editor.process = process
            editor.connection = connect_to_agent(editor, process.stdin, process.stdout)
            try:
                await editor.agent.initialize(PROTOCOL_VERSION, capabilities)
                yield editor, chat
            finally:
                process.stdin.close()
                async with asyncio.timeout(LIMIT_S):
                    await process.wait()
                await editor.agent.close()

    return started


async def spawn(home: Path, *arguments: str) -> asyncio.subprocess.Process:
    folders = {
        f"COMPOSER_{name}_DIR": str(home / name.lower())
        for name in ("RUNTIME", "DATA", "CACHE", "STATE")
    }
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "composer_lsp", "acp", *arguments),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        env={**os.environ, **folders},
        limit=1 << 26,
    )

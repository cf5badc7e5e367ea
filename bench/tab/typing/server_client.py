"""An editor on a Composer language server: a change and a request at each key, the request before it
cancelled; what is shown stays while it is typed through, until the newest answer has come. Where the
cursor rests, the server is told so, if it is one that wants to know."""

import asyncio
import os
import shutil
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx

from bench.engines import real_engine
from bench.tab.resting import answered, prepare
from bench.tab.typing.client import Tokens
from bench.tab.typing.texts import Typed, beside, language_of
from tests.support.lsp import Drawn, LspClient, LspError, apply_item, start_server

_REST_S = 0.5
"""As in the editors' clients."""
_PREPARE = "composer.prepare"
_INDEX_POLL_S = 0.25
_INDEX_LIMIT_S = 120.0


class ServerClient:
    """Implements `Client`."""

    def __init__(self, lsp: LspClient, engine: httpx.AsyncClient, folder: Path) -> None:
        """`folder`: a copy of the typed file's, which is changed."""
        self.changed = asyncio.Event()
        self._lsp = lsp
        self._engine = engine
        self._folder = folder
        self._ghost = ""
        self._before = self._after = ""
        self._uri = ""
        self._version = 0
        self._request: int | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._asking: set[asyncio.Task[None]] = set()

    @property
    def ghost(self) -> str:
        return self._ghost

    async def open(self, typed: Typed) -> None:
        self._before, self._after = typed.before, typed.after
        path = self._folder / typed.path
        path.write_text(typed.before + typed.after)
        for other in beside(path):
            text = other.read_text(encoding="utf-8")
            self._lsp.open(other.as_uri(), text, language_id=language_of(other.name))
        self._uri, self._version = path.as_uri(), 1
        self._lsp.open(self._uri, self._before + self._after, language_id=typed.language_id)
        await indexed(self._lsp)
        if self._tells_rests:
            await prepare(self._lsp, self._uri, self._position())
        self._ask()
        await self.rest()

    def press(self, text: str) -> None:
        if not text:
            start, self._before = self._position(), self._before[:-1]
            self._change({"start": self._position(), "end": start}, "")
            self._show("")
        else:
            self._insert(text)

    def accept(self, text: str) -> None:
        self._insert(text)

    async def tokens(self) -> Tokens:
        return await num_computed(self._engine)

    async def rest(self) -> None:
        while self._asking:
            await asyncio.gather(*self._asking)
        if self._timer is not None:
            self._timer.cancel()

    def _insert(self, text: str) -> None:
        position = self._position()
        self._before += text
        self._change({"start": position, "end": position}, text)
        self._show(self._ghost[len(text) :] if self._ghost.startswith(text) else "")

    def _change(self, span: dict[str, Any], text: str) -> None:
        self._version += 1
        self._lsp.change(self._uri, self._version, {"range": span, "text": text})
        self._ask()

    def _ask(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._tells_rests:
            self._timer = asyncio.get_running_loop().call_later(_REST_S, self._tell_rest)
        if self._request is not None:
            self._lsp.cancel(self._request)
        self._request = self._lsp.begin_inline_completion(self._uri, self._position())
        task = asyncio.create_task(self._take(self._request, self._before))
        self._asking.add(task)
        task.add_done_callback(self._asking.discard)

    @property
    def _tells_rests(self) -> bool:
        capabilities = self._lsp.initialize_result["capabilities"]
        return _PREPARE in capabilities.get("executeCommandProvider", {}).get("commands", ())

    def _tell_rest(self) -> None:
        self._timer = None
        place = {"start": self._position(), "end": self._position()}
        options = {"uri": self._uri, "range": place}
        # Says nothing, whatever comes of it.
        self._lsp.begin("workspace/executeCommand", {"command": _PREPARE, "arguments": [options]})

    async def _take(self, request: int, before: str) -> None:
        try:
            result = await answered(self._lsp, request)
        except LspError:  # Cancelled.
            return
        if request != self._request:
            return
        self._request = None
        if result is not None:
            self._show(_inserted(result["items"], before, self._after))

    def _show(self, ghost: str) -> None:
        if ghost != self._ghost:
            self._ghost = ghost
            self.changed.set()

    def _position(self) -> dict[str, Any]:
        return Drawn(self._before, len(self._before)).position()


@asynccontextmanager
async def server_client(
    scratch: Path, model: str, tree: Path, *, env: Mapping[str, str]
) -> AsyncGenerator[ServerClient]:
    """With a server and an engine of its own, in a copy of `tree`. `env`: added to their
    environment, such as the `PYTHONPATH` of another version."""
    folder = scratch / "tree"
    shutil.copytree(tree, folder)
    async with (
        real_engine(scratch, model, env=env) as engine,
        start_server(scratch, env={**env, **user_models()}) as lsp,
    ):
        await lsp.initialize(
            rootUri=folder.as_uri(),
            workspaceFolders=[{"uri": folder.as_uri(), "name": tree.name}],
            initializationOptions={"tab": {"model": model}},
        )
        yield ServerClient(lsp, engine, folder)


def user_models() -> dict[str, str]:
    """The environment that has a server of `start_server` use the user's models."""
    return {"COMPOSER_DATA_DIR": os.environ.get("COMPOSER_DATA_DIR", "")}


async def num_computed(engine: httpx.AsyncClient) -> Tokens:
    """So far, for keystrokes and for what was done ahead of them."""
    lines = (await engine.get("/metrics")).text.splitlines()
    return Tokens(
        prefill=_counted(lines, "prefill_tokens_total"),
        decoded=_counted(lines, "decoded_tokens_total"),
    )


async def indexed(lsp: LspClient) -> None:
    """Wait until the folders are indexed; a server without an index is waited for no longer.

    Raises: TimeoutError.
    """
    async with asyncio.timeout(_INDEX_LIMIT_S):
        while True:
            try:
                folders = await lsp.command("composer.index.status")
            except LspError:
                return
            if folders and all(each["state"] == "ready" for each in folders):
                return
            await asyncio.sleep(_INDEX_POLL_S)


def _inserted(items: list[dict[str, Any]], before: str, after: str) -> str:
    """What the first item puts at the cursor; empty where it changes more than that."""
    if not items:
        return ""
    text = apply_item(before + after, items[0])
    is_insertion = len(text) > len(before) + len(after)
    if not (is_insertion and text.startswith(before) and text.endswith(after)):
        return ""
    return text[len(before) : len(text) - len(after)]


def _counted(lines: list[str], name: str) -> int:
    prefix = f"composer_{name}{{"
    return sum(int(float(line.rpartition(" ")[2])) for line in lines if line.startswith(prefix))

"""How `bench.tab typing` sits in front of a language server, as an editor does."""

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, cast

import httpx

from bench.tab.typing.client import Tokens
from bench.tab.typing.server_client import ServerClient
from bench.tab.typing.texts import Typed
from tests.support.lsp import LspClient, LspError

JsonObject = dict[str, Any]

METRICS = """# HELP composer_prefill_tokens_total Prompt tokens computed
composer_prefill_tokens_total{priority="tab"} 12
composer_prefill_tokens_total{priority="agent"} 30
composer_decoded_tokens_total{priority="tab"} 7
"""


class Server:
    """Of `LspClient`, what the client uses; answers come when a test gives them."""

    def __init__(self) -> None:
        self.initialize_result: JsonObject = {"capabilities": {}}
        self.sent: list[Any] = []
        self.open_texts: list[str] = []
        self._answers: dict[int, asyncio.Future[Any]] = {}

    def open(self, uri: str, text: str, *, language_id: str) -> None:
        self.open_texts.append(text)

    def change(self, uri: str, version: int, *changes: JsonObject) -> None:
        self.sent.append((version, changes[0]["range"]["start"]["character"], changes[0]["text"]))

    def cancel(self, request: int) -> None:
        self.sent.append(("cancel", request))
        if not self._answers[request].done():
            error = LspError({"code": -32800, "message": "cancelled"})
            self._answers[request].set_exception(error)

    def begin_inline_completion(self, uri: str, position: JsonObject) -> int:
        request = len(self._answers)
        self._answers[request] = asyncio.get_running_loop().create_future()
        if request == 0:  # The one that warms the model up.
            self.give(0, None)
        return request

    async def wait_for(self, matches: Callable[[JsonObject], bool], *, limit_s: float) -> None:
        await asyncio.wait([self._answers[each] for each in self._answers if matches({"id": each})])

    async def answer(self, request: int) -> Any:
        return await self._answers[request]

    async def command(self, name: str) -> Any:
        raise LspError({"code": -32601, "message": "unknown method"})

    def give(self, request: int, result: Any) -> None:
        self._answers[request].set_result(result)


def item(text: str, line: int, start: int, end: int) -> JsonObject:
    span = {name: {"line": line, "character": at} for name, at in (("start", start), ("end", end))}
    return {"items": [{"insertText": text, "range": span}]}


def run(folder: Path, use: Callable[[ServerClient, Server], Coroutine[Any, Any, None]]) -> None:
    async def main() -> None:
        server = Server()
        transport = httpx.MockTransport(lambda request: httpx.Response(200, text=METRICS))
        async with httpx.AsyncClient(transport=transport, base_url="http://engine") as engine:
            client = ServerClient(cast("LspClient", server), engine, folder)
            typed = Typed(
                path="a.py", language_id="python", before="x = ", text="f(1)", after="\ny = 2\n"
            )
            await client.open(typed)
            await use(client, server)

    asyncio.run(main())


async def settled(client: ServerClient) -> None:
    client.changed.clear()
    await asyncio.wait_for(client.changed.wait(), 60)


def test_what_is_shown_stays_while_it_is_typed_through(tmp_path: Path) -> None:
    async def use(client: ServerClient, server: Server) -> None:
        client.press("f")
        server.give(1, item("(1)", 0, 5, 5))
        await settled(client)
        assert client.ghost == "(1)"
        client.press("(")
        assert client.ghost == "1)"
        server.give(2, None)
        client.press("1")
        assert client.ghost == ")"
        client.press("x")
        assert client.ghost == ""

    run(tmp_path, use)


def test_a_key_cancels_the_request_before_it(tmp_path: Path) -> None:
    async def use(client: ServerClient, server: Server) -> None:
        client.press("f")
        client.press("g")
        client.press("")
        assert server.sent == [(2, 4, "f"), (3, 5, "g"), ("cancel", 1), (4, 5, ""), ("cancel", 2)]
        server.give(3, item("(1)", 0, 5, 5))
        await client.rest()
        assert client.ghost == "(1)"

    run(tmp_path, use)


def test_what_replaces_text_before_the_cursor_shows_what_is_new(tmp_path: Path) -> None:
    async def use(client: ServerClient, server: Server) -> None:
        client.press("f")
        server.give(1, item("x = f(1)", 0, 0, 5))
        await client.rest()
        assert client.ghost == "(1)"

    run(tmp_path, use)


def test_what_changes_other_text_is_no_ghost(tmp_path: Path) -> None:
    async def use(client: ServerClient, server: Server) -> None:
        client.press("f")
        server.give(1, item("y = f(1)", 0, 0, 5))
        await client.rest()
        assert client.ghost == ""

    run(tmp_path, use)


def test_the_file_on_the_disk_lacks_what_is_typed(tmp_path: Path) -> None:
    (tmp_path / "b.py").write_text("beside")

    async def use(client: ServerClient, server: Server) -> None:
        assert (tmp_path / "a.py").read_text() == "x = \ny = 2\n"
        assert server.open_texts == ["beside", "x = \ny = 2\n"]
        assert await client.tokens() == Tokens(prefill=42, decoded=7)

    run(tmp_path, use)

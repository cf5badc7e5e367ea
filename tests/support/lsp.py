"""A language client for tests: raw JSON-RPC over the standard streams of a real server process.

It speaks what it is told to, garbage included, answers the server's requests by `answers`, and
keeps everything that arrived in `received`. Waiting is on conditions, with a generous limit.
"""

import asyncio
import itertools
import json
import os
import sys
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

LIMIT_S = 60.0
CURSOR = "ˇ"

SERVER_COMMAND = (sys.executable, "-m", "composer_lsp", "serve")

CAPABILITIES: dict[str, Any] = {
    "general": {"positionEncodings": ["utf-16"]},
    "textDocument": {"inlineCompletion": {}, "synchronization": {}},
    "window": {"workDoneProgress": True, "showMessage": {}},
    "workspace": {"configuration": True, "workspaceFolders": True},
    "experimental": {"composer": {"status": True}},
}
"""A client that can do everything the server makes use of."""

INVOKED, AUTOMATIC = 1, 2

SILENCE = object()
"""An answer that never comes."""

JsonObject = dict[str, Any]


class LspError(Exception):
    """The server's error answer to a request."""

    def __init__(self, error: JsonObject) -> None:
        super().__init__(f"{error['code']}: {error['message']}")
        self.code: int = error["code"]
        self.message: str = error["message"]


UNKNOWN_METHOD = LspError({"code": -32601, "message": "unknown method"})


class ServerClosedError(Exception):
    """The server closed its output while something was waited for."""


@dataclass(frozen=True, slots=True)
class Drawn:
    """A text in which `ˇ` marked the cursor."""

    text: str
    offset: int

    def position(self, encoding: str = "utf-16") -> JsonObject:
        before = self.text[: self.offset]
        lines = before.replace("\r\n", "\n").replace("\r", "\n").split("\n")
        return {"line": len(lines) - 1, "character": num_units(lines[-1], encoding)}


def drawn(text: str) -> Drawn:
    """The text without its cursor mark, and where the mark stood."""
    before, mark, after = text.partition(CURSOR)
    assert mark, f"no {CURSOR} in {text!r}"
    return Drawn(before + after, len(before))


def num_units(text: str, encoding: str) -> int:
    """How many units of a position encoding a text takes."""
    sizes = {"utf-8": 1, "utf-16": 2, "utf-32": 4}
    codec = "utf-8" if encoding == "utf-8" else f"{encoding}-le"
    return len(text.encode(codec, "surrogatepass")) // sizes[encoding]


def apply_item(text: str, item: JsonObject, encoding: str = "utf-16") -> str:
    """The text after accepting an inline completion item, as an editor would make it."""
    lines = text.splitlines(keepends=True)
    start, end = item["range"]["start"], item["range"]["end"]
    assert start["line"] == end["line"], "an inline completion's range stays on one line"
    line = lines[start["line"]] if start["line"] < len(lines) else ""
    from_, to = (_index(line, place["character"], encoding) for place in (start, end))
    new_line = line[:from_] + item["insertText"] + line[to:]
    return "".join([*lines[: start["line"]], new_line, *lines[start["line"] + 1 :]])


def _index(line: str, character: int, encoding: str) -> int:
    for index in range(len(line) + 1):
        if num_units(line[:index], encoding) == character:
            return index
    raise AssertionError(f"character {character} is not between characters of {line!r}")


def frame(message: object) -> bytes:
    body = json.dumps(message).encode()
    return b"Content-Length: %d\r\n\r\n%s" % (len(body), body)


@dataclass
class LspClient:
    process: asyncio.subprocess.Process
    received: list[JsonObject] = field(default_factory=list)
    """Every message of the server, oldest first."""
    answers: dict[str, Callable[[Any], Any]] = field(default_factory=dict)
    """What to answer to the server's requests, by method: a result, an `LspError`, or `SILENCE`;
    null to others."""
    stderr: bytearray = field(default_factory=bytearray)
    initialize_result: JsonObject = field(default_factory=dict)
    _ids: Any = field(default_factory=lambda: itertools.count(1))
    _arrived: asyncio.Condition = field(default_factory=asyncio.Condition)
    _closed: bool = False

    # Talking -------------------------------------------------------------------------------------

    def send_bytes(self, data: bytes) -> None:
        """Anything at all."""
        assert self.process.stdin is not None
        self.process.stdin.write(data)

    def send(self, message: object) -> None:
        self.send_bytes(frame(message))

    def notify(self, method: str, params: object = None) -> None:
        self.send({"jsonrpc": "2.0", "method": method, "params": params})

    def begin(self, method: str, params: object = None) -> int:
        """Send a request and return its id without waiting for the answer."""
        msg_id = next(self._ids)
        self.send({"jsonrpc": "2.0", "id": msg_id, "method": method, "params": params})
        return msg_id

    async def answer(self, msg_id: object) -> Any:
        """The result of a request that was begun. Raises: LspError."""
        message = await self.wait_for(
            lambda message: "method" not in message and message.get("id") == msg_id
        )
        if "error" in message:
            raise LspError(message["error"])
        return message["result"]

    async def request(self, method: str, params: object = None) -> Any:
        """Raises: LspError."""
        return await self.answer(self.begin(method, params))

    def cancel(self, msg_id: object) -> None:
        self.notify("$/cancelRequest", {"id": msg_id})

    # Listening -----------------------------------------------------------------------------------

    async def wait_for(
        self, matches: Callable[[JsonObject], bool], *, after: int = 0, limit_s: float = LIMIT_S
    ) -> JsonObject:
        """The first message that matches, among those from number `after` of `received` on."""

        def found() -> JsonObject | None:
            return next((message for message in self.received[after:] if matches(message)), None)

        async with asyncio.timeout(limit_s), self._arrived:
            while (message := found()) is None:
                if self._closed:
                    raise ServerClosedError(self.stderr.decode(errors="replace"))
                await self._arrived.wait()
        return message

    async def notification(
        self,
        method: str,
        matches: Callable[[Any], bool] = lambda params: True,
        *,
        after: int = 0,
    ) -> Any:
        """The parameters of the first such notification or request of the server."""
        message = await self.wait_for(
            lambda message: message.get("method") == method and matches(message.get("params")),
            after=after,
        )
        return message.get("params")

    async def state(self, state: str, *, after: int = 0) -> JsonObject:
        """The first `composer/status` of this state."""
        return await self.notification(
            "composer/status", lambda params: params["state"] == state, after=after
        )

    def all(self, method: str) -> list[Any]:
        """The parameters of all such messages so far."""
        return [
            message.get("params") for message in self.received if message.get("method") == method
        ]

    async def exit_code(self, limit_s: float = LIMIT_S) -> int:
        """Wait until the server has ended."""
        return await asyncio.wait_for(self.process.wait(), limit_s)

    # What an editor does -------------------------------------------------------------------------

    async def initialize(
        self,
        capabilities: Mapping[str, Any] | None = None,
        *,
        process_id: int | None = None,
        **params: Any,
    ) -> JsonObject:
        self.initialize_result = await self.request(
            "initialize",
            {
                "processId": os.getpid() if process_id is None else process_id,
                "rootUri": None,
                "capabilities": CAPABILITIES if capabilities is None else capabilities,
                **params,
            },
        )
        self.notify("initialized", {})
        return self.initialize_result

    @property
    def encoding(self) -> str:
        return self.initialize_result["capabilities"]["positionEncoding"]

    def open(self, uri: str, text: str, *, language_id: str = "python", version: int = 1) -> None:
        self.notify(
            "textDocument/didOpen",
            {
                "textDocument": {
                    "uri": uri,
                    "languageId": language_id,
                    "version": version,
                    "text": text,
                }
            },
        )

    def change(self, uri: str, version: int, *changes: JsonObject) -> None:
        """Changes are `{"text": whole}` or `{"range": ..., "text": part}`."""
        self.notify(
            "textDocument/didChange",
            {"textDocument": {"uri": uri, "version": version}, "contentChanges": changes},
        )

    def begin_inline_completion(
        self, uri: str, position: JsonObject, *, trigger: int = AUTOMATIC, **context: Any
    ) -> int:
        return self.begin(
            "textDocument/inlineCompletion",
            {
                "textDocument": {"uri": uri},
                "position": position,
                "context": {"triggerKind": trigger, **context},
            },
        )

    async def inline_completion(
        self, uri: str, position: JsonObject, *, trigger: int = AUTOMATIC, **context: Any
    ) -> list[JsonObject] | None:
        """The items; None for a `null` answer. Raises: LspError."""
        msg_id = self.begin_inline_completion(uri, position, trigger=trigger, **context)
        result = await self.answer(msg_id)
        return None if result is None else result["items"]

    async def command(self, name: str, *arguments: Any) -> Any:
        """Raises: LspError."""
        return await self.request(
            "workspace/executeCommand", {"command": name, "arguments": list(arguments)}
        )

    async def shut_down(self) -> int:
        """Leave as the specification wants it, and return the server's exit code."""
        await self.request("shutdown")
        self.notify("exit")
        return await self.exit_code()

    # Below ---------------------------------------------------------------------------------------

    async def _read(self) -> None:
        assert self.process.stdout is not None
        try:
            while True:
                header = await self.process.stdout.readuntil(b"\r\n\r\n")
                fields = dict(line.split(b": ", 1) for line in header.strip().split(b"\r\n"))
                body = await self.process.stdout.readexactly(int(fields[b"Content-Length"]))
                await self._take(json.loads(body))
        except asyncio.IncompleteReadError as error:
            # Anything but messages on stdout would break an editor's client.
            assert not error.partial, f"not a message: {error.partial!r}"
        finally:
            async with self._arrived:
                self._closed = True
                self._arrived.notify_all()

    async def _take(self, message: JsonObject) -> None:
        async with self._arrived:
            self.received.append(message)
            self._arrived.notify_all()
        if "method" in message and "id" in message:
            result = self._answer(message["method"], message.get("params"))
            if isinstance(result, LspError):
                error = {"code": result.code, "message": result.message}
                self.send({"jsonrpc": "2.0", "id": message["id"], "error": error})
            elif result is not SILENCE:
                self.send({"jsonrpc": "2.0", "id": message["id"], "result": result})

    def _answer(self, method: str, params: Any) -> Any:
        if (answer := self.answers.get(method)) is not None:
            return answer(params)
        # An editor without any settings of ours.
        return [None] if method == "workspace/configuration" else None

    async def _read_stderr(self) -> None:
        assert self.process.stderr is not None
        while data := await self.process.stderr.read(1 << 16):
            self.stderr += data


@asynccontextmanager
async def start_server(
    directory: Path,
    *,
    command: Sequence[str] = SERVER_COMMAND,
    env: Mapping[str, str] | None = None,
) -> AsyncIterator[LspClient]:
    """A server process with its own folders below `directory`, ended when the block is left.

    `directory` should be short: a Unix socket's path holds about 100 bytes.
    """
    process = await asyncio.create_subprocess_exec(
        *command,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env={**os.environ, **server_environment(directory), **(env or {})},
        cwd=directory,
    )
    client = LspClient(process)
    readers = [
        asyncio.create_task(client._read()),
        asyncio.create_task(client._read_stderr()),
    ]
    try:
        yield client
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()
        # A failure to read is the test's failure.
        await asyncio.gather(*readers)


def server_environment(directory: Path) -> dict[str, str]:
    """Folders of one's own for every kind of file, so that tests do not meet."""
    kinds = ("RUNTIME", "DATA", "CACHE", "STATE")
    return {f"COMPOSER_{kind}_DIR": str(directory / kind[0].lower()) for kind in kinds}

"""JSON-RPC messages, one a line, on two file descriptors.

Lines that are no message are answered with an error and do not end the connection, as those of the
SDK's own transport would. Reading and writing block in daemon threads: a client that does not read
stops neither the loop nor the way out.
"""

import asyncio
import json
import logging
import os
import queue
import threading
from collections.abc import Callable, Mapping
from typing import Any, Literal, cast

logger = logging.getLogger(__name__)

MAX_LINE_BYTES = 64 << 20
"""A longer line is refused."""
_CHUNK_BYTES = 1 << 16
_FLUSH_S = 2.0
"""That the last messages may take when the connection is closed."""

_PARSE_ERROR = -32700
_INVALID_REQUEST = -32600
_INTERNAL_ERROR = -32603

_Line = bytes | Literal["too long"]
_Object = dict[str, Any]


class StdioTransport:
    """A `Transport` of the SDK. For the loop that runs while it is made."""

    def __init__(self, stdin: int, stdout: int, on_end: Callable[[], None]) -> None:
        """`on_end` is called once, in a thread, when the client has closed the input."""
        self._loop = asyncio.get_running_loop()
        self._lines: asyncio.Queue[_Line | None] = asyncio.Queue()
        self._outgoing: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._on_end = on_end
        self._writer = threading.Thread(target=self._write, args=(stdout,), daemon=True)
        self._writer.start()
        threading.Thread(target=self._read, args=(stdin,), daemon=True).start()

    async def send(self, message: Mapping[str, Any]) -> None:
        """Does not wait: what is sent in one step of the loop goes out in that order."""
        self._put(message)

    async def receive(self) -> dict[str, Any] | None:
        """The next message that is one; None at the end."""
        while (line := await self._lines.get()) is not None:
            if isinstance(line, str):
                self._refuse(None, _INVALID_REQUEST, f"a line has more than {MAX_LINE_BYTES} bytes")
            elif line.strip() and (message := self._parsed(line)) is not None:
                return message
        self._lines.put_nowait(None)  # for whoever asks again
        return None

    async def close(self) -> None:
        self._outgoing.put(None)
        await asyncio.to_thread(self._writer.join, _FLUSH_S)

    def _parsed(self, line: bytes) -> _Object | None:
        try:
            message: object = json.loads(line)
        except (ValueError, RecursionError) as error:
            self._refuse(None, _PARSE_ERROR, f"a line is no JSON: {error}")
            return None
        if not isinstance(message, dict):
            self._refuse(None, _INVALID_REQUEST, "a message is an object; there are no batches")
            return None
        return self._checked(cast("_Object", message))

    def _checked(self, message: _Object) -> _Object | None:
        """The message as the SDK's connection can take it; None if it cannot."""
        id = message.get("id")
        if isinstance(id, bool) or not isinstance(id, str | int | None):
            self._refuse(None, _INVALID_REQUEST, "an id is a number or a text")
            return None
        if "method" in message:
            if isinstance(message["method"], str):
                return message
            self._refuse(id, _INVALID_REQUEST, "a method is a text")
            return None
        if "id" not in message:
            self._refuse(None, _INVALID_REQUEST, "a message has a method or an id")
            return None
        if "error" in message and "result" not in message:
            message["error"] = _error_of(message["error"])
        return message

    def _refuse(self, id: str | int | None, code: int, text: str) -> None:
        logger.warning("refused a message of the client: %s", text)
        self._put({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": text}})

    def _put(self, message: Mapping[str, Any]) -> None:
        if isinstance(message.get("error"), dict):
            message = {**message, "error": _readable(message["error"])}
        # ASCII: a lone surrogate in a text is JSON, and no UTF-8.
        self._outgoing.put(json.dumps(message, separators=(",", ":")).encode() + b"\n")

    # In threads. ----------------------------------------------------------------------------------

    def _read(self, descriptor: int) -> None:
        rest = bytearray()
        is_skipping = False
        while data := _chunk(descriptor):
            *lines, tail = data.split(b"\n")
            for line in lines:
                rest += line
                self._arrived("too long" if is_skipping else bytes(rest))
                rest.clear()
                is_skipping = False
            rest += tail
            if len(rest) > MAX_LINE_BYTES:
                rest.clear()
                is_skipping = True
        if rest and not is_skipping:
            self._arrived(bytes(rest))
        self._on_end()
        self._arrived(None)

    def _write(self, descriptor: int) -> None:
        while (data := self._outgoing.get()) is not None:
            view = memoryview(data)
            try:
                while view:
                    view = view[os.write(descriptor, view) :]
            except OSError as error:
                logger.info("the client reads no more: %s", error.strerror)
                self._on_end()
                self._arrived(None)
                return

    def _arrived(self, line: _Line | None) -> None:
        try:
            self._loop.call_soon_threadsafe(self._lines.put_nowait, line)
        except RuntimeError:
            logger.debug("the loop has ended")


def _chunk(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, _CHUNK_BYTES)
    except OSError as error:
        logger.info("cannot read from the client: %s", error.strerror)
        return b""


def _error_of(value: object) -> _Object:
    """An error of the client's, with a code and a text whatever it sent."""
    fields = cast("_Object", value) if isinstance(value, dict) else {}
    code, text = fields.get("code"), fields.get("message")
    return {
        "code": code if isinstance(code, int) else _INTERNAL_ERROR,
        "message": text if isinstance(text, str) else "the client sent an error without a text",
        "data": fields.get("data"),
    }


def _readable(error: Mapping[str, Any]) -> _Object:
    """What the SDK says of wrong parameters, in words that a user can be shown, and without the
    text of his that was in them."""
    data = error.get("data")
    if not isinstance(data, dict):
        return dict(error)
    fields = cast("_Object", data)
    if isinstance(fields.get("errors"), list):
        found = [
            f"{'.'.join(map(str, each['loc'])) or 'params'}: {each['msg']}"
            for each in fields["errors"]
        ]
        return {"code": error["code"], "message": f"{error['message']}: {'; '.join(found)}"}
    if isinstance(fields.get("method"), str):
        return {"code": error["code"], "message": f"{error['message']}: {fields['method']}"}
    return dict(error)

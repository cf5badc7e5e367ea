"""One HTTP request as a whole, for a thread that waits: so long, so many bytes, and no more.

httpx limits the silence between two bytes, which a server that drips them never reaches. So one
event loop in a thread of its own carries all requests: there one can be cut off wherever it is, in
the look-up of the name, the handshake, the headers or the body. httpx is imported with the first
request: it takes 0.2 s.
"""

import asyncio
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import httpx

_CONNECT_S = 5.0

_lock = threading.Lock()
_loops: list[asyncio.AbstractEventLoop] = []
"""The one loop, once there is one; it ends with the process."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Answer:
    status: int
    body: bytes
    is_whole: bool
    """The body had no more bytes than it might have."""


def exchange(
    client: "httpx.AsyncClient",
    path: str,
    content: bytes,
    headers: Mapping[str, str],
    *,
    limit_s: float | None,
    max_bytes: int,
) -> Answer:
    """Posts `content`, and returns what came of the answer when it, or `max_bytes`, was complete.

    Raises:
        TimeoutError: that was not the case after `limit_s` seconds; None: they are never over.
        httpx.HTTPError, httpx.InvalidURL: as httpx does.
    """
    asked = asyncio.run_coroutine_threadsafe(
        _exchange(client, path, content, headers, limit_s, max_bytes), _loop()
    )
    try:
        return asked.result()
    finally:
        asked.cancel()  # An interrupt ended the waiting; else it is done.


def _loop() -> asyncio.AbstractEventLoop:
    with _lock:
        if not _loops:
            _loops.append(asyncio.new_event_loop())
            threading.Thread(target=_loops[0].run_forever, name="requests", daemon=True).start()
        return _loops[0]


async def _exchange(
    client: "httpx.AsyncClient",
    path: str,
    content: bytes,
    headers: Mapping[str, str],
    limit_s: float | None,
    max_bytes: int,
) -> Answer:
    import httpx

    async with (
        asyncio.timeout(limit_s),
        client.stream(
            "POST",
            path,
            content=content,
            # What is packed could be a thousand times what was read.
            headers={**headers, "Accept-Encoding": "identity"},
            timeout=httpx.Timeout(None, connect=_CONNECT_S),
        ) as response,
    ):
        encoding = response.headers.get("Content-Encoding", "identity")
        if encoding.lower() != "identity":
            raise httpx.DecodingError(
                f"its answer is packed, by {encoding}, without being asked to"
            )
        body = bytearray()
        async for part in response.aiter_raw():
            body += part
            if len(body) > max_bytes:
                break
    return Answer(
        status=response.status_code, body=bytes(body[:max_bytes]), is_whole=len(body) <= max_bytes
    )

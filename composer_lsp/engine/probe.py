"""Small questions to the local engine without an HTTP library, which costs 0.2 s to import."""

import asyncio
import json
from dataclasses import dataclass
from typing import Any

from composer_inference.endpoint import Endpoint, TcpEndpoint, UnixEndpoint

_TIMEOUT_S = 5.0


@dataclass(frozen=True, kw_only=True, slots=True)
class EngineHealth:
    """`GET /health` of a running engine."""

    status: str
    version: str
    api: int
    pid: int

    @property
    def is_draining(self) -> bool:
        return self.status == "draining"


async def read_health(endpoint: Endpoint) -> EngineHealth | None:
    """The engine's state, None when nothing that is an engine answers there."""
    try:
        async with asyncio.timeout(_TIMEOUT_S):
            status, body = await _exchange(endpoint, "GET", "/health")
        value: Any = json.loads(body)
        if status != 200:
            return None
        return EngineHealth(
            status=str(value["status"]),
            version=str(value["version"]),
            api=int(value["api"]),
            pid=int(value["pid"]),
        )
    except (OSError, asyncio.IncompleteReadError, ValueError, KeyError, TypeError, RecursionError):
        return None


async def request_drain(endpoint: Endpoint) -> None:
    """Ask the engine to finish what runs and leave; one that is gone already is no error."""
    try:
        async with asyncio.timeout(_TIMEOUT_S):
            await _exchange(endpoint, "POST", "/composer/drain")
    except (OSError, asyncio.IncompleteReadError, ValueError):
        return


async def _exchange(endpoint: Endpoint, method: str, path: str) -> tuple[int, bytes]:
    """One request over a connection of its own; the body's end is the connection's."""
    reader, writer = await _connect(endpoint)
    try:
        head = [f"{method} {path} HTTP/1.1", "Host: composer", "Connection: close"]
        if isinstance(endpoint, TcpEndpoint):
            head.append(f"Authorization: Bearer {endpoint.token}")
        if method == "POST":
            head.append("Content-Length: 0")
        writer.write("\r\n".join([*head, "", ""]).encode("ascii"))
        await writer.drain()
        answer = await reader.read()
    finally:
        writer.close()
    status_line, _, rest = answer.partition(b"\r\n")
    _, _, body = rest.partition(b"\r\n\r\n")
    return int(status_line.split()[1]) if b" " in status_line else 0, body


async def _connect(endpoint: Endpoint) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    if isinstance(endpoint, UnixEndpoint):
        return await asyncio.open_unix_connection(str(endpoint.path))
    return await asyncio.open_connection("127.0.0.1", endpoint.port)

"""The transport to a server with a URL: the SDK's, with bounds on what a response may hold."""

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from composer_lsp.agent.mcp.launch import Endpoint

if TYPE_CHECKING:
    from mcp.client._transport import TransportStreams

MAX_RESPONSE_BYTES = 32_000_000
"""Of one response; one that streams is opened again by the SDK after that."""
MAX_EVENT_BYTES = 8_000_000
_CONNECT_S = 15.0
_READ_S = 600.0
"""Without a byte. A call has a limit of its own."""


@asynccontextmanager
async def http_transport(endpoint: Endpoint) -> AsyncGenerator["TransportStreams"]:
    """Redirects are followed within the URL's origin only: the SDK sees to that."""
    from mcp.client.sse import sse_client
    from mcp.client.streamable_http import streamable_http_client

    if endpoint.is_sse:
        # Its factory's parameters are by position or name, as the SDK likes.
        async with sse_client(
            endpoint.url, dict(endpoint.headers), _CONNECT_S, _READ_S, httpx_client_factory=_client
        ) as streams:
            yield streams
        return
    async with (
        _client(dict(endpoint.headers)) as client,
        streamable_http_client(
            endpoint.url, http_client=client, max_sse_event_size=MAX_EVENT_BYTES
        ) as streams,
    ):
        yield streams


def _client(headers: dict[str, str] | None = None, timeout: Any = None, auth: Any = None) -> Any:
    import httpx2

    class Client(httpx2.AsyncClient):
        async def send(self, request: httpx2.Request, **kwargs: Any) -> httpx2.Response:
            response = await super().send(request, **kwargs)
            if response.headers.get("content-encoding", "identity") != "identity":
                await response.aclose()
                raise httpx2.ReadError("a response is compressed, which was not asked for")
            if not response.is_closed and isinstance(response.stream, httpx2.AsyncByteStream):
                response.stream = BoundedStream(response.stream)
            return response

    class BoundedStream(httpx2.AsyncByteStream):
        def __init__(self, stream: httpx2.AsyncByteStream) -> None:
            self._stream = stream

        async def __aiter__(self) -> AsyncIterator[bytes]:
            num_bytes = 0
            async for data in self._stream:
                num_bytes += len(data)
                if num_bytes > MAX_RESPONSE_BYTES:
                    raise httpx2.ReadError(f"a response has more than {MAX_RESPONSE_BYTES:,} bytes")
                yield data

        async def aclose(self) -> None:
            await self._stream.aclose()

    # Few bytes may become many: what is compressed cannot be bounded.
    return Client(
        headers={**(headers or {}), "Accept-Encoding": "identity"},
        timeout=timeout or httpx2.Timeout(_CONNECT_S, read=_READ_S),
        auth=auth,
    )

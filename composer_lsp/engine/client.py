"""One OpenAI-compatible server, spoken to over a Unix socket, a loopback port or the network."""

import re
from collections.abc import AsyncGenerator, Generator, Mapping
from contextlib import aclosing, contextmanager
from typing import Any, Literal, cast
from urllib.parse import urlsplit

import httpx

from composer_inference.endpoint import Endpoint, TcpEndpoint, UnixEndpoint
from composer_inference.environment import EnvironmentVariableError, api_key
from composer_lsp.config import RoleSettings
from composer_lsp.engine.errors import (
    ConfigurationError,
    EngineError,
    EngineTimeoutError,
    ModelNotFoundError,
    NotAnEngineError,
    TruncatedStreamError,
    UnreachableError,
)
from composer_lsp.engine.responses import error_in_event, error_of, parsed_object
from composer_lsp.engine.sse import read_events

Priority = Literal["tab", "agent", "background"]

_CONNECT_TIMEOUT_S = 10.0
_LOCAL_HOSTS = frozenset({"localhost", "127.0.0.1", "::1"})
_MAX_LISTED_MODELS = 10


class OpenAIClient:
    """Requests to one server for one role. `name` is what error messages call it.

    Closing a stream cancels the request: the connection is closed, which the server notices.
    """

    def __init__(self, *, name: str, http: httpx.AsyncClient, key_env: str = "") -> None:
        self._name = name
        self._http = http
        self._key_env = key_env

    async def aclose(self) -> None:
        await self._http.aclose()

    async def models(self) -> list[str]:
        """Ids of the models that the server offers. Raises: EngineError."""
        return [str(entry["id"]) for entry in await self.model_entries()]

    async def model_entries(self) -> list[dict[str, Any]]:
        """What the server lists, each with an `id`. Raises: EngineError."""
        with self._network_errors():
            response = await self._http.get(self._url("models"))
        if response.status_code != 200:
            raise self._error(response, response.content, model="")
        listed = parsed_object(self._name, response.content).get("data")
        if not isinstance(listed, list):
            raise NotAnEngineError(f"{self._name} lists no models at /v1/models")
        entries = cast(list[object], listed)
        return [
            cast(dict[str, Any], entry)
            for entry in entries
            if isinstance(entry, dict) and isinstance(cast(dict[str, Any], entry).get("id"), str)
        ]

    async def post(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """One JSON answer; `path` is relative to `/v1/` (`../infill` stands beside it). Raises: EngineError."""
        with self._network_errors():
            response = await self._http.post(self._url(path), json=dict(body))
        if response.status_code >= 300:
            raise await self._explained(response, response.content, str(body.get("model", "")))
        return parsed_object(self._name, response.content)

    async def events(
        self, path: str, body: Mapping[str, Any]
    ) -> AsyncGenerator[dict[str, Any], None]:
        """The events of a streamed answer (`"stream": true` is added). Raises: EngineError."""
        request = self._http.build_request("POST", self._url(path), json={**body, "stream": True})
        with self._network_errors():
            response = await self._http.send(request, stream=True)
            try:
                async with aclosing(self._read(response, body)) as events:
                    async for event in events:
                        yield event
            finally:
                await response.aclose()

    async def _read(
        self, response: httpx.Response, body: Mapping[str, Any]
    ) -> AsyncGenerator[dict[str, Any], None]:
        if response.status_code != 200:
            content = await response.aread()
            raise await self._explained(response, content, str(body.get("model", "")))
        if "text/event-stream" not in response.headers.get("content-type", ""):
            # A server without streaming answers at once; anything else is no such server.
            yield parsed_object(self._name, await response.aread())
            return
        async with aclosing(read_events(self._name, response.aiter_bytes())) as events:
            async for event in events:
                if (error := error_in_event(self._name, event)) is not None:
                    raise error
                yield event

    async def _explained(self, response: httpx.Response, content: bytes, model: str) -> EngineError:
        error = self._error(response, content, model)
        if not isinstance(error, ModelNotFoundError):
            return error
        try:
            available = await self.models()
        except EngineError:
            return error  # the list would have been a help, no more
        names = ", ".join(available[:_MAX_LISTED_MODELS]) or "none"
        more = ", …" if len(available) > _MAX_LISTED_MODELS else ""
        return ModelNotFoundError(
            f"{error}. It offers: {names}{more}", model=model, available=available
        )

    def _url(self, path: str) -> httpx.URL:
        return self._http.base_url.join(path)

    def _error(self, response: httpx.Response, content: bytes, model: str) -> EngineError:
        return error_of(
            server=self._name,
            status=response.status_code,
            body=content,
            model=model,
            key_env=self._key_env,
        )

    @contextmanager
    def _network_errors(self) -> Generator[None, None, None]:
        try:
            yield
        except httpx.ConnectTimeout as error:
            raise UnreachableError(f"{self._name} cannot be reached: no answer") from error
        except httpx.TimeoutException as error:
            raise EngineTimeoutError(
                f"{self._name} stayed silent for {self._http.timeout.read:g} s"
            ) from error
        except httpx.ConnectError as error:
            raise UnreachableError(f"{self._name} cannot be reached: {error}") from error
        except httpx.TransportError as error:
            raise TruncatedStreamError(f"{self._name} closed the connection: {error}") from error
        except httpx.RequestError as error:
            raise NotAnEngineError(
                f"{self._name} answered what cannot be read: {error}. Is this the base URL of an "
                "OpenAI-compatible server?"
            ) from error


def local_client(endpoint: Endpoint, priority: Priority) -> OpenAIClient:
    """A client of the engine on this machine. It waits as long as the engine lives: a model may
    have to be loaded first, and a dead engine closes its connections."""
    headers = {"X-Composer-Priority": priority}
    if isinstance(endpoint, TcpEndpoint):
        headers["Authorization"] = f"Bearer {endpoint.token}"
    base = "http://composer/v1/"
    path: str | None = None
    if isinstance(endpoint, UnixEndpoint):
        path = str(endpoint.path)
    else:
        base = f"http://127.0.0.1:{endpoint.port}/v1/"
    # Plain HTTP: `verify=True` would read the system's certificates for nothing (20 ms), and a
    # proxy from the environment must not see what is typed.
    transport = httpx.AsyncHTTPTransport(uds=path, verify=False, trust_env=False)
    http = httpx.AsyncClient(
        base_url=base,
        transport=transport,
        headers=headers,
        timeout=httpx.Timeout(None, connect=_CONNECT_TIMEOUT_S),
        trust_env=False,
    )
    return OpenAIClient(name="the local engine", http=http)


def remote_client(role: RoleSettings, priority: Priority) -> OpenAIClient:
    """A client of the server at `role.url`.

    Raises: ConfigurationError for a URL or a key that cannot be used.
    """
    base = api_base(role.url)
    headers = {"X-Composer-Priority": priority}
    if role.api_key_env:
        headers["Authorization"] = f"Bearer {role_key(role)}"
    timeout_s = role.timeout_s or None
    connect_s = min(_CONNECT_TIMEOUT_S, role.timeout_s or _CONNECT_TIMEOUT_S)
    is_local = urlsplit(base).hostname in _LOCAL_HOSTS
    http = httpx.AsyncClient(
        base_url=base,
        headers=headers,
        timeout=httpx.Timeout(timeout_s, connect=connect_s),
        trust_env=not is_local,
        verify=urlsplit(base).scheme == "https",
    )
    return OpenAIClient(name=role.url, http=http, key_env=role.api_key_env)


def role_key(role: RoleSettings) -> str:
    """The key that `role.api_key_env` names. Raises: ConfigurationError."""
    try:
        key = api_key(role.api_key_env)
    except EnvironmentVariableError as error:
        raise ConfigurationError(f"the key for {role.url} is missing: {error}") from error
    if not key.isascii() or not key.isprintable():
        raise ConfigurationError(
            f"the key for {role.url} in the environment variable {role.api_key_env} holds "
            "characters that no HTTP header can carry, such as accents or the end of a line"
        )
    return key


def api_base(url: str) -> str:
    """The URL that paths such as `completions` are relative to, with `/v1` given or not.

    Raises: ConfigurationError.
    """
    try:
        parts = urlsplit(url.strip())
        is_usable = parts.scheme in {"http", "https"} and parts.hostname and parts.port != 0
        httpx.URL(url.strip())
    except (ValueError, httpx.InvalidURL) as error:
        raise ConfigurationError(
            f"the URL {url!r} is not like http://127.0.0.1:8080/v1: {error}"
        ) from error
    if not is_usable:
        raise ConfigurationError(f"the URL {url!r} is not like http://127.0.0.1:8080/v1")
    path = re.sub(r"/(?:(?:chat/)?completions|models|embeddings|rerank)/?$", "", parts.path).rstrip(
        "/"
    )
    if not re.search(r"/v\d\w*(?:/|$)", path):
        path += "/v1"
    return parts._replace(path=path + "/", query="", fragment="").geturl()

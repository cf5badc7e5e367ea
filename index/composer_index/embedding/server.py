"""One model behind OpenAI's protocol: the engine of this machine, or any server with a URL.

Synchronous, for threads that may wait. httpx is imported with the first request: it takes 0.2 s.
"""

import json
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, cast
from urllib.parse import urlsplit

if TYPE_CHECKING:
    import httpx

FIRST_WAIT_S = 2.0
LONGEST_WAIT_S = 300.0
"""Between tries, while a server fails: the first, and what doubling ends at."""
_CONNECT_S = 5.0
_MAX_SAID_CHARS = 300
_LOCAL_HOSTS = frozenset({"localhost", "127.0.0.1", "::1"})

Priority = Literal["agent", "background"]


class ModelServerError(OSError):
    """A model does not answer; the message names the server, what it said, and the way out."""


class EngineAwayError(ModelServerError):
    """The engine of this machine is not running; whoever can start it has been told."""


class InputRefusedError(ModelServerError):
    """It answers, and not to this input: too long, as a rule."""

    def __init__(self, message: str, *, is_failure: bool) -> None:
        """`is_failure`: the server says that it is at fault itself."""
        super().__init__(message)
        self.is_failure = is_failure


@dataclass(frozen=True, kw_only=True, slots=True)
class ServedModel:
    """A model, and where it is served."""

    model: str
    """As the server calls it."""
    origin: str
    """Where it is served, as people know it: a URL, "the engine"."""
    url: str = ""
    """What `embeddings` and `rerank` are relative to: `http://127.0.0.1:8080/v1/`. Empty: the server
    is not running, as far as is known."""
    socket: str = ""
    """Path of the Unix socket that `url` is reached by; empty: by the network."""
    api_key: str = field(default="", repr=False)
    """Sent as a bearer token; empty: none is."""
    timeout_s: float = 30.0
    """How long it may stay silent; 0: without end."""
    is_engine: bool = False
    """It is the engine of this machine, which is started when it is needed."""


class ModelServer:
    """Safe to use from several threads. While the server fails it is left alone for growing spells.

    `wake` is told, in any thread, that the engine is needed and not there.
    """

    def __init__(self, served: ServedModel, wake: Callable[[], None] = lambda: None) -> None:
        self.served = served
        self._wake = wake
        self._client: httpx.Client | None = None
        self._lock = threading.Lock()
        self._num_failures = 0
        self._ready_at = float("-inf")
        self._last_error: ModelServerError | None = None

    @property
    def wait_s(self) -> float:
        """Seconds until the next try is due; 0 when it may be made now."""
        return max(0.0, self._ready_at - time.monotonic())

    @property
    def problem(self) -> str:
        """What went wrong last, empty since the last answer."""
        return str(self._last_error or "")

    def close(self) -> None:
        """Requests that run fail."""
        with self._lock:
            if self._client is not None:
                self._client.close()

    def post(
        self,
        path: str,
        body: Mapping[str, Any],
        *,
        priority: Priority = "background",
        limit_s: float | None = None,
    ) -> dict[str, Any]:
        """The answer to `body`, the model's name added; at most `limit_s` of silence, if given.

        Raises: ModelServerError; at once, and the last one again, while the server is left alone.
        """
        if self._last_error is not None and self.wait_s > 0:
            raise type(self._last_error)(*self._last_error.args)
        try:
            answer = self._post(path, body, priority, limit_s)
        except InputRefusedError:
            raise
        except ModelServerError as error:
            self.failed(error)
            raise
        self._num_failures, self._ready_at, self._last_error = 0, float("-inf"), None
        return answer

    def failed(self, error: ModelServerError) -> None:
        """Leave the server alone for a while."""
        wait_s = min(FIRST_WAIT_S * 2.0 ** min(self._num_failures, 30), LONGEST_WAIT_S)
        self._num_failures += 1
        self._last_error = error
        self._ready_at = time.monotonic() + wait_s

    def _post(
        self, path: str, body: Mapping[str, Any], priority: Priority, limit_s: float | None
    ) -> dict[str, Any]:
        import httpx

        name, silence_s = self.served.origin, limit_s or self.served.timeout_s or None
        if not self.served.url:
            raise self._away("cannot be reached: it is not running")
        content = json.dumps({"model": self.served.model, **body}).encode("ascii")
        try:
            response = self._opened().post(
                path,
                content=content,
                headers={"Content-Type": "application/json", "X-Composer-Priority": priority},
                timeout=httpx.Timeout(silence_s, connect=min(_CONNECT_S, silence_s or _CONNECT_S)),
            )
        except httpx.ConnectError as error:
            raise self._away(f"cannot be reached: {error}") from error
        except httpx.TimeoutException as error:
            raise ModelServerError(f"{name} stayed silent for {silence_s or 0:g} s") from error
        except httpx.TransportError as error:
            raise self._away(f"closed the connection: {error}") from error
        except (httpx.HTTPError, httpx.InvalidURL, RuntimeError) as error:
            # RuntimeError: the client was closed while the request waited for its turn.
            raise ModelServerError(f"{name} cannot be asked: {error}") from error
        if response.status_code >= 300:
            raise self._error(path, response.status_code, response.content)
        return self._object(response.content)

    def _away(self, how: str) -> ModelServerError:
        message = f"{self.served.origin} {how}"
        if not self.served.is_engine:
            return ModelServerError(message)
        self._wake()
        return EngineAwayError(message)

    def _opened(self) -> "httpx.Client":
        import httpx

        served = self.served
        with self._lock:
            if self._client is None:
                key = {"Authorization": f"Bearer {served.api_key}"} if served.api_key else {}
                is_https = urlsplit(served.url).scheme == "https"
                is_local = bool(served.socket) or urlsplit(served.url).hostname in _LOCAL_HOSTS
                # A proxy of the environment must not see what stays on this machine; nor are the
                # system's certificates read where none is used.
                self._client = httpx.Client(
                    base_url=served.url,
                    headers=key,
                    transport=httpx.HTTPTransport(uds=served.socket) if served.socket else None,
                    trust_env=not is_local,
                    verify=is_https,
                )
            return self._client

    def _error(self, path: str, status: int, body: bytes) -> ModelServerError:
        said = _said(body)
        told = f"{self.served.origin} answered {status}" + (f": {said}" if said else "")
        if status in (401, 403):
            return ModelServerError(f"{told}. Its key is named by the setting apiKeyEnv")
        if status == 404 and not said:
            return ModelServerError(f"{told}. Does it serve /v1/{path}?")
        if status in (400, 413, 422, 500):
            return InputRefusedError(told, is_failure=status == 500)
        return ModelServerError(told)

    def _object(self, body: bytes) -> dict[str, Any]:
        try:
            value: object = json.loads(body)
        except (ValueError, RecursionError):
            value = None
        if not isinstance(value, dict):
            raise ModelServerError(
                f"{self.served.origin} answered something other than a JSON object. Is this the "
                "base URL of an OpenAI-compatible server?"
            )
        return cast("dict[str, Any]", value)


def listed(server: str, answer: Mapping[str, Any], key: str) -> Sequence[Mapping[str, Any]]:
    """The list of objects at `key`. Raises: ModelServerError where it is none."""
    items = answer.get(key)
    if not isinstance(items, list) or not all(
        isinstance(item, dict) for item in cast("list[object]", items)
    ):
        raise ModelServerError(f"{server} answered without a list of {key}")
    return cast("list[Mapping[str, Any]]", items)


def _said(body: bytes) -> str:
    """The message of an error's body, whatever the server wraps it in."""
    try:
        value: Any = json.loads(body)
        for key in ("error", "message", "detail"):
            if isinstance(value, dict):
                value = cast("dict[str, Any]", value).get(key, cast("dict[str, Any]", value))
    except (ValueError, RecursionError):
        value = body.decode("utf-8", "replace")
        if value.lstrip().startswith("<"):
            return ""  # a page, for people with a browser
    text = value if isinstance(value, str) else json.dumps(value)
    text = " ".join(text.split())
    return text if len(text) <= _MAX_SAID_CHARS else text[:_MAX_SAID_CHARS] + "…"

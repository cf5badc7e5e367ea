"""One model behind OpenAI's protocol: the engine of this machine, or any server with a URL.

Synchronous, for threads that may wait.
"""

import json
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeVar, cast
from urllib.parse import urlsplit

from composer_index.embedding.exchange import Answer, exchange
from composer_index.printable import printable

if TYPE_CHECKING:
    import httpx

FIRST_WAIT_S = 2.0
LONGEST_WAIT_S = 300.0
"""Between tries, while a server fails: the first, and what doubling ends at."""
_MAX_SAID_CHARS = 300
_WRAPPING_BYTES = 65_536
"""Of an answer, around what was asked for."""
_LOCAL_HOSTS = frozenset({"localhost", "127.0.0.1", "::1"})

Priority = Literal["agent", "background"]
_Read = TypeVar("_Read")


class ModelServerError(OSError):
    """A model does not answer; the message names the server, what it said, and the way out."""

    def __init__(self, message: str) -> None:
        """`message` may hold what the server said, as it came."""
        super().__init__(printable(message))


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
    """How long a whole request may take; 0: without end."""
    is_engine: bool = False
    """It is the engine of this machine, which is started when it is needed."""


class ModelServer:
    """Safe to use from several threads. While the server fails it is left alone for growing spells.

    `wake` is told, in any thread, that the engine is needed and not there.
    """

    def __init__(self, served: ServedModel, wake: Callable[[], None] = lambda: None) -> None:
        self.served = served
        self._wake = wake
        self._client: httpx.AsyncClient | None = None
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

    def post(
        self,
        path: str,
        body: Mapping[str, Any],
        read: Callable[[Mapping[str, Any]], _Read],
        *,
        max_bytes: int,
        priority: Priority = "background",
        limit_s: float | None = None,
    ) -> _Read:
        """What `read` makes of the answer to `body`, the model's name added. `read` raises
        ModelServerError for an answer that cannot be used, which is a failure like any other.

        The answer has at most `limit_s` seconds if given, else the model's `timeout_s`, and at most
        `max_bytes` besides what it repeats of the body.

        Raises: ModelServerError; at once, and the last one again, while the server is left alone.
        """
        if self._last_error is not None and self.wait_s > 0:
            raise type(self._last_error)(*self._last_error.args)
        try:
            answer = read(self._post(path, body, max_bytes, priority, limit_s))
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
        self,
        path: str,
        body: Mapping[str, Any],
        max_bytes: int,
        priority: Priority,
        limit_s: float | None,
    ) -> dict[str, Any]:
        if not self.served.url:
            raise self._away("cannot be reached: it is not running")
        content = json.dumps({"model": self.served.model, **body}).encode("ascii")
        limit_bytes = max_bytes + len(content) + _WRAPPING_BYTES
        answer = self._exchange(path, content, limit_bytes, priority, limit_s)
        if answer.status >= 300:
            raise self._error(path, answer.status, answer.body)
        if not answer.is_whole:
            raise ModelServerError(
                f"{self.served.origin} answered /v1/{path} with more than {limit_bytes:,} bytes, "
                "which is more than an answer needs"
            )
        return self._object(answer.body)

    def _exchange(
        self,
        path: str,
        content: bytes,
        max_bytes: int,
        priority: Priority,
        limit_s: float | None,
    ) -> Answer:
        import httpx

        name, limit_s = self.served.origin, limit_s or self.served.timeout_s or None
        headers = {"Content-Type": "application/json", "X-Composer-Priority": priority}
        try:
            return exchange(
                self._opened(), path, content, headers, limit_s=limit_s, max_bytes=max_bytes
            )
        except TimeoutError as error:
            raise ModelServerError(f"{name} did not answer within {limit_s or 0:g} s") from error
        except (httpx.ConnectError, httpx.ConnectTimeout) as error:
            how = "it does not answer" if isinstance(error, httpx.ConnectTimeout) else error
            raise self._away(f"cannot be reached: {how}") from error
        except httpx.TransportError as error:
            raise self._away(f"closed the connection: {error}") from error
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise ModelServerError(f"{name} cannot be asked: {error}") from error

    def _away(self, how: str) -> ModelServerError:
        message = f"{self.served.origin} {how}"
        if not self.served.is_engine:
            return ModelServerError(message)
        self._wake()
        return EngineAwayError(message)

    def _opened(self) -> "httpx.AsyncClient":
        import httpx

        served = self.served
        with self._lock:
            if self._client is None:
                key = {"Authorization": f"Bearer {served.api_key}"} if served.api_key else {}
                is_https = urlsplit(served.url).scheme == "https"
                is_local = bool(served.socket) or urlsplit(served.url).hostname in _LOCAL_HOSTS
                transport = None
                if served.socket:
                    transport = httpx.AsyncHTTPTransport(uds=served.socket, verify=False)
                # A proxy of the environment must not see what stays on this machine; nor are the
                # system's certificates read where none is used.
                self._client = httpx.AsyncClient(
                    base_url=served.url,
                    headers=key,
                    transport=transport,
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

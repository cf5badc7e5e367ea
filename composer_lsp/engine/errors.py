"""What can go wrong between the language server and whatever answers it.

Each message is written for the user: it names the server, what it said, and the way out.
"""

import math
from collections.abc import Sequence

from composer_lsp.completion.tab_engine import TabEngineError


class EngineError(TabEngineError):
    """The engine did not answer."""

    is_transient = True
    """Whether the same request may succeed later without the user doing anything."""


class UnreachableError(EngineError):
    """Nothing listens there, or the connection broke."""


class EngineTimeoutError(EngineError):
    """The server accepted the request and stayed silent."""


class OverloadedError(EngineError):
    """The server asks for patience: 429, 503."""


class ServerFailureError(EngineError):
    """The server failed on its side: 5xx."""


class TruncatedStreamError(EngineError):
    """The answer ended in the middle."""


class AuthenticationError(EngineError):
    """The key is missing or refused: 401, 403."""

    is_transient = False


class ModelNotFoundError(EngineError):
    """The server does not have the model."""

    is_transient = False

    def __init__(self, message: str, *, model: str, available: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.model = model
        self.available = tuple(available)


class RequestRefusedError(EngineError):
    """The server understood the request and refuses it: 4xx."""

    is_transient = False

    def __init__(self, message: str, *, code: str | None = None) -> None:
        super().__init__(message)
        self.code = code
        """The server's own name for the reason, such as `context_length_exceeded`."""


class NotAnEngineError(EngineError):
    """What listens there does not speak the OpenAI API."""

    is_transient = False


class ConfigurationError(EngineError):
    """A setting cannot be used; the message names it."""

    is_transient = False


class ModelLoadError(EngineError):
    """The engine of this machine cannot load the model; the message names the file and why."""

    is_transient = False


class BackingOffError(EngineError):
    """The server failed lately and is left alone for a while; the message repeats why."""

    def __init__(self, reason: Exception, remaining_s: float) -> None:
        super().__init__(f"{reason} (next try in {math.ceil(remaining_s)} s)")
        self.reason = reason


class EngineStartError(EngineError):
    """The engine process did not come up; the message ends with what it logged."""


class IncompatibleEngineError(EngineError):
    """Another version's engine runs, and the two do not understand each other."""

    is_transient = False

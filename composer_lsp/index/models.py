"""The models that take part in searching, as the settings choose them, in the worker's terms.

Most windows use none: what knows the engine and HTTP is imported when it is needed.
"""

import asyncio
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from composer_lsp.config import EmbedderSettings, EngineSettings, IndexSettings, RoleSettings

if TYPE_CHECKING:
    from composer_inference.endpoint import Endpoint
    from composer_lsp.engine.launcher import Launcher

ENGINE = "the engine"
_POLL_S = 0.25

Models = Mapping[str, Mapping[str, Any] | None]
"""`embedder` and `reranker`: the fields of the worker's `ServedModel`, None for none."""
NO_MODELS: Models = {"embedder": None, "reranker": None}


class ModelsError(Exception):
    """The models cannot be used; the message says why, and the way out."""


class IndexModels:
    """Follows the settings. Event loop only."""

    def __init__(
        self, index: Callable[[], IndexSettings], engine: Callable[[], EngineSettings]
    ) -> None:
        self._index = index
        self._engine = engine
        self._launcher: Launcher | None = None

    def now(self) -> Models:
        """The models by the settings of now, and where the engine is found now.

        Raises: ModelsError.
        """
        settings = self._index()
        roles: dict[str, RoleSettings] = {}
        if settings.embedder.model != "static":
            roles["embedder"] = settings.embedder
        if settings.reranker.model:
            roles["reranker"] = settings.reranker
        if not roles:
            return NO_MODELS
        from composer_inference.endpoint import EndpointError, find_endpoint
        from composer_lsp.engine.errors import EngineError

        try:
            endpoint = None if all(role.url for role in roles.values()) else find_endpoint()
            return {**NO_MODELS, **{name: served(role, endpoint) for name, role in roles.items()}}
        except (EngineError, EndpointError) as error:
            raise ModelsError(f"{error}. Search goes on without that model") from error

    async def launch(self) -> None:
        """Start the engine, or find it again: nothing listens where it was.

        Raises: ModelsError.
        """
        from composer_inference.endpoint import EndpointError
        from composer_lsp.engine.errors import EngineError
        from composer_lsp.engine.launcher import Launcher

        if self._launcher is None:
            self._launcher = Launcher(self._engine)
        elif (endpoint := self._launcher.endpoint) is not None:
            self._launcher.lost(endpoint)
        while self._launcher.is_backing_off:  # Nobody waits for it: the table answers.
            await asyncio.sleep(_POLL_S)
        try:
            await self._launcher.ensure()
        except (EngineError, EndpointError) as error:
            raise ModelsError(f"{error}. Search goes on without its models") from error


def served(role: RoleSettings, endpoint: "Endpoint | None") -> Mapping[str, Any]:
    """The fields of the worker's `ServedModel`; `endpoint` is where the engine is, if it runs.

    Raises: ConfigurationError for a URL or a key that cannot be used.
    """
    # The engine embeds when nobody else wants it, which may be a while; a search waits for no model.
    is_patient = not role.url and isinstance(role, EmbedderSettings)
    fields: dict[str, Any] = {
        "model": role.model,
        "timeout_s": 0.0 if is_patient else role.timeout_s,
    }
    if role.url:
        # Imports httpx, which those who use the engine never need in this process.
        from composer_lsp.engine.client import api_base, role_key

        key = role_key(role) if role.api_key_env else ""
        return {**fields, "origin": role.url, "url": api_base(role.url), "api_key": key}
    fields |= {"origin": ENGINE, "is_engine": True}
    if endpoint is None:
        return fields
    from composer_inference.endpoint import UnixEndpoint

    if isinstance(endpoint, UnixEndpoint):
        socket = str(endpoint.path)
        return {**fields, "url": "http://composer/v1/", "socket": socket}
    url = f"http://127.0.0.1:{endpoint.port}/v1/"
    return {**fields, "url": url, "api_key": endpoint.token}

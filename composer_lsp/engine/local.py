"""Tab completions by the engine on this machine, started when it is not there."""

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from typing import Any

from composer_inference.endpoint import Endpoint
from composer_lsp.completion.tab_engine import TabChunk
from composer_lsp.completion.templates import FimPrompt
from composer_lsp.config import TabSettings
from composer_lsp.engine.client import OpenAIClient, local_client
from composer_lsp.engine.errors import (
    EngineError,
    OverloadedError,
    TruncatedStreamError,
    UnreachableError,
)
from composer_lsp.engine.launcher import Launcher
from composer_lsp.engine.spawn import engine_log_path
from composer_lsp.engine.tab import Forcing, prepare, stream_completion
from composer_lsp.engine.users import Users

_GONE = (UnreachableError, TruncatedStreamError, OverloadedError)
"""The engine died, left, or is draining: another one answers the next try."""


class LocalTabEngine:
    """Implements `TabEngine`. An engine that is gone before it answered is replaced and asked
    again, once; one that dies in the middle of an answer costs that answer."""

    def __init__(self, launcher: Launcher, settings: Callable[[], TabSettings]) -> None:
        self._launcher = launcher
        self._settings = settings
        self._connection: _Connection | None = None

    async def complete(
        self,
        prompt: FimPrompt,
        *,
        max_tokens: int,
        stop: Sequence[str],
        invoked: bool,
        seed: int | None = None,
    ) -> AsyncGenerator[TabChunk, None]:
        """Raises: EngineError."""
        for is_last_try in (False, True):
            connection = await self._connected(invoked)
            has_answered = False
            try:
                async with (
                    connection.in_use() as client,
                    aclosing(
                        self._stream(connection, client, prompt, max_tokens, stop, seed)
                    ) as chunks,
                ):
                    async for chunk in chunks:
                        has_answered = True
                        self._launcher.worked()
                        yield chunk
                return
            except _GONE as error:
                await self._disconnect(connection, error)
                if has_answered or is_last_try:
                    raise

    async def prepare(self, prompt: FimPrompt) -> Mapping[str, float]:
        """Raises: EngineError."""
        connection = await self._connected(False)
        settings = self._settings()
        try:
            async with connection.in_use():
                model = await connection.model(settings.model)
                return await prepare(
                    connection.background,
                    prompt,
                    model=model.name,
                    fim_template=settings.fim_template,
                    forcing=model.forcing,
                )
        except _GONE as error:
            await self._disconnect(connection, error)
            raise

    async def aclose(self) -> None:
        if self._connection is not None:
            await self._disconnect(self._connection, None)

    async def _stream(
        self,
        connection: "_Connection",
        client: OpenAIClient,
        prompt: FimPrompt,
        max_tokens: int,
        stop: Sequence[str],
        seed: int | None,
    ) -> AsyncGenerator[TabChunk, None]:
        settings = self._settings()
        model = await connection.model(settings.model)
        chunks = stream_completion(
            client,
            prompt,
            model=model.name,
            fim_template=settings.fim_template,
            forcing=model.forcing,
            max_tokens=max_tokens,
            stop=stop,
            seed=seed,
        )
        async with aclosing(chunks):
            async for chunk in chunks:
                yield chunk

    async def _connected(self, invoked: bool) -> "_Connection":
        endpoint = await self._launcher.ensure(at_once=invoked)
        if self._connection is None or self._connection.endpoint is not endpoint:
            if self._connection is not None:
                await self._connection.retire()
            self._connection = _Connection(endpoint)
        return self._connection

    async def _disconnect(self, connection: "_Connection", error: EngineError | None) -> None:
        self._launcher.lost(connection.endpoint, error)
        if self._connection is connection:
            self._connection = None
        await connection.retire()


class _Connection:
    """The client of one engine process. A draining engine still finishes its streams, so that a
    client is closed when the last of them has ended."""

    def __init__(self, endpoint: Endpoint) -> None:
        self.endpoint = endpoint
        self._client = local_client(endpoint, "tab")
        self.background = local_client(endpoint, "background")
        self._models: dict[str, _Model] = {}
        self._users = Users(self._close)

    @asynccontextmanager
    async def in_use(self) -> AsyncGenerator[OpenAIClient, None]:
        async with self._users.one():
            yield self._client

    async def retire(self) -> None:
        await self._users.retire()

    async def _close(self) -> None:
        await self._client.aclose()
        await self.background.aclose()

    async def model(self, setting: str) -> "_Model":
        """The model that the setting means to this engine, loaded."""
        if setting not in self._models:
            answer = await load_model(self._client, setting)
            name = str(answer.get("model", setting))
            entries = await self._client.model_entries()
            has_grammar = any(entry["id"] == name and _has_grammar(entry) for entry in entries)
            self._models[setting] = _Model(name, Forcing.GRAMMAR if has_grammar else Forcing.NONE)
        return self._models[setting]


async def load_model(client: OpenAIClient, setting: str) -> Mapping[str, Any]:
    """What the engine says of the model that the setting means, once it is loaded.

    Raises: EngineError, which names the model and the log where loading it ended the engine.
    """
    try:
        return await client.post("../composer/load", {"model": setting})
    except (UnreachableError, TruncatedStreamError) as error:
        raise type(error)(
            f"the engine ended while it loaded the model {setting}: {error} "
            f"(log: {engine_log_path()})"
        ) from error


@dataclass(frozen=True, slots=True)
class _Model:
    name: str
    """The template depends on it."""
    forcing: Forcing


def _has_grammar(entry: Mapping[str, Any]) -> bool:
    return "grammar" in entry.get("composer", {}).get("capabilities", ())

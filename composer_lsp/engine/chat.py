"""The agent's model: chat completions with tools, by the engine here or by a configured URL."""

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing
from typing import Any, cast

from composer_inference.endpoint import Endpoint
from composer_lsp.agent.model import Delta, Message, Sampling, Token, Usage
from composer_lsp.config import AgentSettings
from composer_lsp.engine.client import OpenAIClient, local_client, remote_client
from composer_lsp.engine.errors import (
    EngineError,
    ModelNotFoundError,
    NotAnEngineError,
    RequestRefusedError,
)
from composer_lsp.engine.launcher import Launcher
from composer_lsp.engine.local import load_model
from composer_lsp.engine.sse import first_choice

_UNKNOWN_CONTEXT_TOKENS = 32_768
"""Assumed of a server that does not say it."""
_CHARS_A_TOKEN = 3.0
"""Assumed where nothing counts: code has more, so that the estimate is not too low."""
_CONTEXT_FIELDS = ("max_model_len", "context_length", "context_window", "n_ctx")
"""Names that servers give it in what they list at /v1/models."""


class ConfiguredChatModel:
    """A `ChatModel` that follows the settings. With a URL the local engine is never started."""

    def __init__(self, launcher: Launcher, settings: Callable[[], AgentSettings]) -> None:
        self._launcher = launcher
        self._settings = settings
        self._connection: _Connection | None = None

    async def context_tokens(self) -> int:
        return (await self._connected()).context_tokens

    async def num_tokens(self, text: str) -> int:
        return await (await self._connected()).num_tokens(text)

    async def name(self) -> str:
        """The model's, loaded. Raises: EngineError."""
        return (await self._connected()).model

    async def reply(
        self,
        messages: Sequence[Message],
        tools: Sequence[Mapping[str, Any]],
        *,
        max_tokens: int,
        must_call: bool = False,
        prediction: str | None = None,
    ) -> AsyncGenerator[Delta, None]:
        connection = await self._connected()
        body: dict[str, Any] = {
            "model": connection.model,
            "messages": [_sendable(message) for message in messages],
            "max_tokens": max_tokens,
            "temperature": self._settings().temperature,
            "stream_options": {"include_usage": True},
        }
        if tools:
            body["tools"] = list(tools)
        if connection.is_local:
            body["logprobs"] = True
            if must_call:
                body["tool_choice"] = "required"
        if prediction:
            body["prediction"] = {"type": "content", "content": prediction}
        yield Delta(
            sampling=Sampling(
                model=connection.model,
                temperature=body["temperature"],
                max_tokens=max_tokens,
                must_call="tool_choice" in body,
                has_prediction="prediction" in body,
            )
        )
        try:
            async with aclosing(connection.client.events("chat/completions", body)) as events:
                async for event in events:
                    for delta in _deltas(event):
                        yield delta
        except EngineError as error:
            await self._on_error(connection, error)
            raise

    async def aclose(self) -> None:
        if self._connection is not None:
            connection, self._connection = self._connection, None
            await connection.client.aclose()

    async def _connected(self) -> "_Connection":
        settings = self._settings()
        endpoint = None if settings.url else await self._launcher.ensure(at_once=True)
        if self._connection is None or self._connection.of != (settings, endpoint):
            await self.aclose()
            self._connection = await _connect(settings, endpoint)
        return self._connection

    async def _on_error(self, connection: "_Connection", error: EngineError) -> None:
        if isinstance(error, RequestRefusedError):
            return  # about this request
        if connection.endpoint is not None:
            self._launcher.lost(connection.endpoint, error)
        if self._connection is connection:
            await self.aclose()


class _Connection:
    def __init__(
        self,
        settings: AgentSettings,
        endpoint: Endpoint | None,
        client: OpenAIClient,
        entry: Mapping[str, Any],
    ) -> None:
        self.of = (settings, endpoint)
        self.endpoint = endpoint
        self.client = client
        self.model = str(entry["id"])
        self.is_local = endpoint is not None
        self.context_tokens = _context_tokens(entry)
        self._can_count = self.is_local

    async def num_tokens(self, text: str) -> int:
        if self._can_count:
            try:
                body = {"model": self.model, "content": text}
                return len((await self.client.post("../tokenize", body))["tokens"])
            except RequestRefusedError:
                self._can_count = False  # a model whose tokenizer is not known
        return int(len(text) / _CHARS_A_TOKEN) + 1


async def _connect(settings: AgentSettings, endpoint: Endpoint | None) -> _Connection:
    client = (
        remote_client(settings, "agent") if endpoint is None else local_client(endpoint, "agent")
    )
    try:
        name = settings.model
        if endpoint is not None:
            name = str((await load_model(client, name)).get("model", name))
        entries = await client.model_entries()
        entry = next((each for each in entries if name in (each["id"], "auto")), None)
        if entry is None and name == "auto":
            raise ModelNotFoundError(
                f"{settings.url} lists no model; name one in the setting agent.model", model=name
            )
        return _Connection(settings, endpoint, client, entry or {"id": name})
    except BaseException:
        await client.aclose()
        raise


def _context_tokens(entry: Mapping[str, Any]) -> int:
    ours = _object(entry.get("composer")).get("context_tokens")
    others = (
        _object(entry.get("meta")).get("n_ctx"),
        *(entry.get(name) for name in _CONTEXT_FIELDS),
    )
    known = (each for each in (ours, *others) if isinstance(each, int) and each > 0)
    return next(known, _UNKNOWN_CONTEXT_TOKENS)


def _deltas(event: Mapping[str, Any]) -> list[Delta]:
    choice = first_choice(dict(event))
    delta = _object(choice.get("delta")) or _object(choice.get("message"))
    found = [
        Delta(
            text=_text(delta.get("content")),
            tokens=_tokens(choice),
            finish_reason=_text(choice.get("finish_reason")) or None,
            usage=_usage(event),
        )
    ]
    for position, call in enumerate(_list(delta.get("tool_calls"))):
        fields = _object(call)
        function = _object(fields.get("function"))
        index = fields.get("index", position)
        if not isinstance(index, int) or not 0 <= index < _MAX_INDEX:
            raise NotAnEngineError(f"the server sent a tool call with the index {index!r}")
        found.append(
            Delta(
                call_index=index,
                call_id=_text(fields.get("id")),
                call_name=_text(function.get("name")),
                call_arguments=_text(function.get("arguments")),
            )
        )
    return found


_MAX_INDEX = 4096
"""No reply has the tokens for so many calls; how many of them are done says who runs them."""


def _tokens(choice: Mapping[str, Any]) -> list[Token]:
    logprobs = _object(choice.get("logprobs"))
    return [
        Token(
            text=str(fields["token"]),
            logprob=float(fields["logprob"]),
            id=fields.get("token_id"),
            is_call=name == "tool_calls",
        )
        for name in ("content", "tool_calls")
        for fields in map(_object, _list(logprobs.get(name)))
        if isinstance(fields.get("logprob"), int | float) and "token" in fields
    ]


def _sendable(message: Message) -> Message:
    """A file's name can hold bytes that are no text, which JSON cannot be sent with."""
    content = message.get("content")
    return {**message, "content": _text(content)} if isinstance(content, str) else message


def _usage(event: Mapping[str, Any]) -> Usage | None:
    fields = _object(event.get("usage"))
    prompt, reply = fields.get("prompt_tokens"), fields.get("completion_tokens")
    if not isinstance(prompt, int) or not isinstance(reply, int):
        return None
    return Usage(num_prompt_tokens=prompt, num_reply_tokens=reply)


def _text(value: object) -> str:
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) else ""


def _list(value: object) -> list[object]:
    return cast("list[object]", value) if isinstance(value, list) else []


def _object(value: object) -> dict[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}

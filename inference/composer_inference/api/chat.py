"""POST /v1/chat/completions."""

import uuid
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, cast

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from composer_inference.api import parse
from composer_inference.api.answers import chat_logprobs, header, timings_object, usage
from composer_inference.api.errors import invalid
from composer_inference.api.service import EngineService
from composer_inference.api.streaming import event_stream, while_connected
from composer_inference.backends.base import (
    Backend,
    Capability,
    GenerateChunk,
    GenerateRequest,
    MissingCapabilityError,
    Timings,
)
from composer_inference.chat.decode import Part, ToolCallDecoder, ToolChoice
from composer_inference.chat.template import render_chat
from composer_inference.chat.tools import Tools

DEFAULT_MAX_TOKENS = 1024
_ROLES = frozenset({"system", "developer", "user", "assistant", "tool"})


@dataclass(frozen=True, kw_only=True, slots=True)
class _ChatRequest:
    model: str
    messages: list[dict[str, Any]]
    tools: Tools
    choice: ToolChoice
    only: str | None
    json_schema: dict[str, Any] | None
    prediction: str | None
    wants_logprobs: bool


async def chat_completions(request: Request) -> Response:
    service: EngineService = request.app.state.service
    body = await parse.read_body(request)
    chat = _read_chat(body)
    priority = parse.read_priority(request)
    num_logprobs = parse.integer(body, "top_logprobs", 1, minimum=0, maximum=20)
    names = ("max_completion_tokens", "max_tokens")
    limit = next((body[name] for name in names if body.get(name) is not None), None)
    sampling = parse.read_sampling(
        {**body, "max_tokens": limit},
        max_tokens=DEFAULT_MAX_TOKENS,
        num_logprobs=max(1, num_logprobs) if chat.wants_logprobs else 0,
    )

    async def events() -> AsyncGenerator[dict[str, Any], None]:
        backend = await service.backend(chat.model)
        generate = _generate_request(backend, chat, sampling)

        def run(request: GenerateRequest) -> AsyncGenerator[GenerateChunk, None]:
            return service.generate(chat.model, request, priority)

        parts = _plain(run(generate))
        if chat.tools and chat.choice != "none":
            has_grammar = Capability.GRAMMAR in backend.capabilities
            parts = ToolCallDecoder(
                run,
                generate,
                chat.tools,
                choice=chat.choice,
                only=chat.only,
                has_grammar=has_grammar,
            ).parts()
        unsupported = chat.prediction is not None and generate.draft_text is None
        async with aclosing(_events(chat, parts, unsupported)) as produced:
            async for event in produced:
                yield event

    if parse.boolean(body, "stream"):
        include_usage = bool((body.get("stream_options") or {}).get("include_usage"))
        return await event_stream(request, _streamed(events(), include_usage))
    return JSONResponse(await while_connected(request, _whole(chat.model, events())))


def _generate_request(backend: Backend, chat: _ChatRequest, sampling: Any) -> GenerateRequest:
    offered = chat.tools.definitions if chat.choice != "none" else ()
    if chat.json_schema is not None and Capability.GRAMMAR not in backend.capabilities:
        raise MissingCapabilityError(f"response_format needs a grammar, which {chat.model} lacks")
    can_draft = Capability.DRAFT_TEXT in backend.capabilities
    return GenerateRequest(
        prompt=(
            render_chat(
                backend.chat_template,
                chat.messages,
                tools=offered,
                special_tokens=backend.special_tokens,
            ),
        ),
        sampling=sampling,
        json_schema=chat.json_schema,
        draft_text=chat.prediction if can_draft else None,
    )


async def _plain(chunks: AsyncGenerator[GenerateChunk, None]) -> AsyncGenerator[Part, None]:
    async with aclosing(chunks):
        async for chunk in chunks:
            if chunk.text or chunk.logprobs or chunk.finish_reason is not None:
                yield Part(
                    text=chunk.text,
                    logprobs=chunk.logprobs,
                    finish_reason=chunk.finish_reason,
                    timings=chunk.timings if chunk.finish_reason is not None else None,
                )


async def _events(
    chat: _ChatRequest, parts: AsyncGenerator[Part, None], prediction_unsupported: bool
) -> AsyncGenerator[dict[str, Any], None]:
    first = header("chat.completion.chunk", chat.model)
    num_calls = 0
    role: dict[str, Any] = {"role": "assistant"}
    async with aclosing(parts):
        async for part in parts:
            delta, role = dict(role), {}
            if part.text:
                delta["content"] = part.text
            if part.call is not None:
                function = {"name": part.call.name, "arguments": part.call.arguments}
                call = {"index": num_calls, "id": f"call_{uuid.uuid4().hex[:24]}"}
                delta["tool_calls"] = [{**call, "type": "function", "function": function}]
                num_calls += 1
            if not delta and part.finish_reason is None:
                continue
            logprobs = chat_logprobs(list(part.logprobs)) if chat.wants_logprobs else None
            choice = {
                "index": 0,
                "delta": delta,
                "logprobs": logprobs,
                "finish_reason": part.finish_reason,
            }
            event = {**first, "choices": [choice]}
            if part.finish_reason is not None:
                timings = part.timings or Timings()
                event["usage"] = usage(timings)
                event["timings"] = timings_object(timings)
                if prediction_unsupported:
                    event["usage"]["composer"] = {"prediction": "unsupported"}
            yield event


async def _streamed(
    events: AsyncGenerator[dict[str, Any], None], include_usage: bool
) -> AsyncGenerator[dict[str, Any], None]:
    """Usage in an event of its own, and only where it was asked for, as OpenAI streams it."""
    async with aclosing(events):
        async for event in events:
            numbers = event.pop("usage", None)
            yield event
            if numbers is not None and include_usage:
                yield {**event, "choices": [], "usage": numbers}


async def _whole(model: str, events: AsyncGenerator[dict[str, Any], None]) -> dict[str, Any]:
    content: list[str] = []
    calls: list[dict[str, Any]] = []
    logprobs: list[Any] = []
    last: dict[str, Any] = {}
    async with aclosing(events):
        async for last in events:
            choice: dict[str, Any] = last["choices"][0]
            content.append(choice["delta"].get("content", ""))
            calls += choice["delta"].get("tool_calls", [])
            if choice["logprobs"] is not None:
                logprobs += choice["logprobs"]["content"]
    message: dict[str, Any] = {"role": "assistant", "content": "".join(content) or None}
    if calls:
        message["tool_calls"] = [
            {name: value for name, value in call.items() if name != "index"} for call in calls
        ]
    elif message["content"] is None:
        message["content"] = ""
    whole: dict[str, Any] = {
        "index": 0,
        "message": message,
        "logprobs": {"content": logprobs} if logprobs else None,
        "finish_reason": last["choices"][0]["finish_reason"],
    }
    return {**last, **header("chat.completion", model), "choices": [whole]}


def _read_chat(body: Mapping[str, Any]) -> _ChatRequest:
    parse.refuse_unsupported(body)
    tools = _read_tools(body)
    choice, only = _read_choice(body, tools)
    return _ChatRequest(
        model=parse.string(body, "model", "auto"),
        messages=_read_messages(body),
        tools=tools,
        choice=choice,
        only=only,
        json_schema=_read_format(body),
        prediction=_read_prediction(body),
        wants_logprobs=parse.boolean(body, "logprobs"),
    )


def _read_messages(body: Mapping[str, Any]) -> list[dict[str, Any]]:
    value = body.get("messages")
    if not isinstance(value, list) or not value:
        raise invalid("messages must be a list of at least one message")
    return [_read_message(index, item) for index, item in enumerate(cast(list[object], value))]


def _read_message(index: int, value: object) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise invalid(f"messages[{index}] must be an object")
    message = cast(dict[str, Any], value)
    if message.get("role") not in _ROLES:
        raise invalid(f"messages[{index}].role must be one of {', '.join(sorted(_ROLES))}")
    role = "system" if message["role"] == "developer" else message["role"]
    return {**message, "role": role, "content": _text(index, message.get("content"))}


def _text(index: int, content: object) -> str:
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    parts = cast(list[object], content if isinstance(content, list) else [None])
    texts: list[str] = []
    for part in parts:
        fields = cast(dict[str, Any], part if isinstance(part, dict) else {})
        if fields.get("type") != "text" or not isinstance(fields.get("text"), str):
            raise invalid(f"messages[{index}].content must be text, or a list of text parts")
        texts.append(fields["text"])
    return "".join(texts)


def _read_tools(body: Mapping[str, Any]) -> Tools:
    value = cast(list[dict[str, Any]], body.get("tools") or [])
    try:
        return Tools(value)
    except (KeyError, TypeError, AttributeError):
        raise invalid(
            'tools must be a list of {"type": "function", "function": {"name": …}}'
        ) from None


def _read_choice(body: Mapping[str, Any], tools: Tools) -> tuple[ToolChoice, str | None]:
    value = body.get("tool_choice", "auto")
    if value in ("none", "auto"):
        return value, None
    if value == "required" and tools:
        return "required", None
    if isinstance(value, dict):
        name = cast(dict[str, Any], value).get("function", {}).get("name")
        if name in tools.names:
            return "required", str(name)
    raise invalid(f"tool_choice is {value!r} and must be none, auto, required or one of the tools")


def _read_format(body: Mapping[str, Any]) -> dict[str, Any] | None:
    value = cast(dict[str, Any], body.get("response_format") or {"type": "text"})
    match value:
        case {"type": "text"}:
            return None
        case {"type": "json_object"}:
            return {"type": "object"}
        case {"type": "json_schema", "json_schema": {"schema": dict()}}:
            return cast(dict[str, Any], value["json_schema"]["schema"])
        case _:
            raise invalid("response_format must be text, json_object, or json_schema with a schema")


def _read_prediction(body: Mapping[str, Any]) -> str | None:
    value = cast("dict[str, Any] | None", body.get("prediction"))
    if value is None:
        return None
    if value.get("type") != "content" or not isinstance(value.get("content"), str):
        raise invalid('prediction must be {"type": "content", "content": "…"}')
    return value["content"]

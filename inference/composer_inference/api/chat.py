"""POST /v1/chat/completions."""

import uuid
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from composer_inference.api import parse
from composer_inference.api.answers import (
    chat_logprobs,
    header,
    timings_object,
    usage,
    with_usage_event,
)
from composer_inference.api.chat_request import ChatRequest, read_chat_request
from composer_inference.api.service import EngineService
from composer_inference.api.streaming import Events, event_stream, while_connected
from composer_inference.backends.base import (
    Backend,
    Capability,
    GenerateChunk,
    GenerateRequest,
    MissingCapabilityError,
    Timings,
)
from composer_inference.chat.decode import Part, ToolCallDecoder
from composer_inference.chat.escape import find_control_words
from composer_inference.chat.json_guard import JsonGuard
from composer_inference.chat.messages import render_conversation
from composer_inference.chat.unconstrained import read_calls
from composer_inference.priority import Priority


async def chat_completions(request: Request) -> Response:
    service: EngineService = request.app.state.service
    body = await parse.read_body(request)
    chat = read_chat_request(body)
    events = _events(service, chat, parse.read_priority(request))
    if parse.boolean(body, "stream"):
        wanted = parse.wants_usage_event(body)
        return await event_stream(request, with_usage_event(events, wanted=wanted))
    return JSONResponse(await while_connected(request, _whole(chat.model, events)))


async def _events(service: EngineService, chat: ChatRequest, priority: Priority) -> Events:
    backend = await service.backend(chat.model)
    generate = await _generate_request(backend, chat)
    undrafted = chat.prediction is not None and generate.draft_text is None
    first = header("chat.completion.chunk", chat.model)
    delta: dict[str, Any] = {"role": "assistant", "content": ""}
    async with aclosing(_parts(service, chat, backend, generate, priority)) as parts:
        async for part in parts:
            delta |= _delta(part)
            has_logprobs = bool(part.logprobs or part.call_logprobs)
            if not delta and not has_logprobs and part.finish_reason is None:
                continue
            logprobs = None
            if chat.num_logprobs is not None and has_logprobs:
                logprobs = chat_logprobs(
                    part.logprobs, of_calls=part.call_logprobs, num_top=chat.num_logprobs
                )
            choice = {
                "index": 0,
                "delta": delta,
                "logprobs": logprobs,
                "finish_reason": part.finish_reason,
            }
            event = {**first, "choices": [choice]}
            if part.finish_reason is not None:
                event |= _totals(part, undrafted=undrafted)
            yield event
            delta = {}


async def _generate_request(backend: Backend, chat: ChatRequest) -> GenerateRequest:
    has_grammar = Capability.GRAMMAR in backend.capabilities
    if chat.json_schema is not None and not has_grammar:
        raise MissingCapabilityError(f"response_format needs a grammar, which {chat.model} lacks")
    if chat.rules.required and not has_grammar:
        raise MissingCapabilityError(f"tool_choice needs a grammar, which {chat.model} lacks")
    tools = chat.tools.definitions if chat.may_call else ()
    escaper = await find_control_words(backend, chat.messages, tools)
    rendered = render_conversation(
        backend.chat_template,
        escaper.escape(chat.messages),
        tools=escaper.escape(tools),
        special_tokens=backend.special_tokens,
    )
    can_draft = Capability.DRAFT_TEXT in backend.capabilities
    return GenerateRequest(
        prompt=escaper.pieces(rendered),
        sampling=chat.sampling,
        json_schema=chat.json_schema,
        draft_text=chat.prediction if can_draft else None,
    )


def _parts(
    service: EngineService,
    chat: ChatRequest,
    backend: Backend,
    generate: GenerateRequest,
    priority: Priority,
) -> AsyncGenerator[Part, None]:
    def run(request: GenerateRequest) -> AsyncGenerator[GenerateChunk, None]:
        return service.generate(chat.model, request, priority)

    if not chat.may_call:
        guard = JsonGuard() if chat.json_schema is not None else None
        return _text_parts(run(generate), guard)
    if Capability.GRAMMAR not in backend.capabilities:
        return read_calls(run(generate), chat.tools)
    return ToolCallDecoder(run, generate, chat.tools, chat.rules).parts()


async def _text_parts(
    chunks: AsyncGenerator[GenerateChunk, None], guard: JsonGuard | None
) -> AsyncGenerator[Part, None]:
    async with aclosing(chunks):
        async for chunk in chunks:
            if guard is not None:
                guard.check(chunk)
            yield Part(
                text=chunk.text,
                logprobs=chunk.logprobs,
                finish_reason=chunk.finish_reason,
                timings=chunk.timings,
            )


def _delta(part: Part) -> dict[str, Any]:
    delta: dict[str, Any] = {"content": part.text} if part.text else {}
    if (call := part.call) is not None:
        fields: dict[str, Any] = {"index": call.index, "function": {"arguments": call.arguments}}
        if call.name is not None:
            fields |= {"id": f"call_{uuid.uuid4().hex[:24]}", "type": "function"}
            fields["function"] = {"name": call.name, "arguments": call.arguments}
        delta["tool_calls"] = [fields]
    return delta


def _totals(part: Part, *, undrafted: bool) -> dict[str, Any]:
    timings = part.timings or Timings()
    totals = usage(timings, prompt=part.prompt_timings)
    if undrafted:
        totals["composer"] = {"prediction": "unsupported"}
    return {"usage": totals, "timings": timings_object(timings)}


async def _whole(model: str, events: Events) -> dict[str, Any]:
    content = ""
    calls: list[dict[str, Any]] = []
    logprobs: dict[str, list[Any]] = {}
    last: dict[str, Any] = {}
    async with aclosing(events):
        async for last in events:
            choice: dict[str, Any] = last["choices"][0]
            content += choice["delta"].get("content", "")
            for call in choice["delta"].get("tool_calls", ()):
                _add_call(calls, call)
            given: dict[str, list[Any]] = choice["logprobs"] or {}
            for name in ("content", "tool_calls"):
                if entries := given.get(name):
                    logprobs.setdefault(name, []).extend(entries)
    message: dict[str, Any] = {"role": "assistant", "content": content, "refusal": None}
    if calls:
        message |= {"content": content or None, "tool_calls": calls}
    whole: dict[str, Any] = {
        "index": 0,
        "message": message,
        "logprobs": {"content": [], "refusal": None, **logprobs} if logprobs else None,
        "finish_reason": last["choices"][0]["finish_reason"],
    }
    return {**last, **header("chat.completion", model), "choices": [whole]}


def _add_call(calls: list[dict[str, Any]], delta: dict[str, Any]) -> None:
    if "id" in delta:
        calls.append({name: delta[name] for name in ("id", "type", "function")})
    else:
        calls[-1]["function"]["arguments"] += delta["function"]["arguments"]

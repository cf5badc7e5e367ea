"""POST /v1/chat/completions."""

import uuid
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from composer_inference.api import parse
from composer_inference.api.answers import chat_logprobs, header, with_usage_event
from composer_inference.api.chat_request import ChatRequest, read_chat_request
from composer_inference.api.chat_whole import WholeChoice
from composer_inference.api.choices import ChoicePart, Totals, requests, streamed, together, whole
from composer_inference.api.choices import Parts as ChoiceParts
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
    priority = parse.read_priority(request)
    if parse.boolean(body, "stream"):
        wanted = parse.wants_usage_event(body)
        events = with_usage_event(_events(service, chat, priority), wanted=wanted)
        return await event_stream(request, events)
    return JSONResponse(await while_connected(request, _whole(service, chat, priority)))


async def _begin(
    service: EngineService, chat: ChatRequest, priority: Priority
) -> tuple[ChoiceParts, Totals]:
    """Nothing is computed before the parts are asked for."""
    backend = await service.backend(chat.model)
    generate = await _generate_request(backend, chat)
    drafts = None if chat.prediction is None else generate.draft_text is not None
    streams = [
        _choice(_parts(service, chat, backend, each, priority), chat, index)
        for index, each in enumerate(requests(generate, chat.num_choices))
    ]
    return together(streams), Totals(drafts=drafts)


async def _choice(parts: AsyncGenerator[Part, None], chat: ChatRequest, index: int) -> ChoiceParts:
    delta: dict[str, Any] = {"role": "assistant", "content": ""}
    async with aclosing(parts):
        async for part in parts:
            delta |= _delta(part)
            token_ids = part.token_ids if chat.returns_token_ids else ()
            has_logprobs = bool(part.logprobs or part.call_logprobs)
            has_news = delta or has_logprobs or token_ids
            if not has_news and part.finish_reason is None:
                continue
            logprobs = None
            if chat.num_logprobs is not None and has_logprobs:
                logprobs = chat_logprobs(
                    part.logprobs, of_calls=part.call_logprobs, num_top=chat.num_logprobs
                )
            choice: dict[str, Any] = {
                "index": index,
                "delta": delta,
                "logprobs": logprobs,
                "finish_reason": part.finish_reason,
            }
            if chat.returns_token_ids:
                choice["token_ids"] = list(token_ids)
            if part.router_choices is not None:
                choice["router_choices"] = part.router_choices
            yield ChoicePart(
                choice=choice,
                timings=part.timings or Timings(),
                prompt_timings=part.prompt_timings,
                weights_version=part.weights_version,
            )
            delta = {}


async def _events(service: EngineService, chat: ChatRequest, priority: Priority) -> Events:
    parts, totals = await _begin(service, chat, priority)
    first = header("chat.completion.chunk", chat.model)
    events = streamed(first, parts, totals, num_choices=chat.num_choices, timed=False)
    async with aclosing(events):
        async for event in events:
            yield event


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
        return_router_choices=chat.returns_router_choices,
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
                token_ids=chunk.token_ids,
                finish_reason=chunk.finish_reason,
                timings=chunk.timings,
                weights_version=chunk.weights_version,
                router_choices=chunk.router_choices,
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


async def _whole(service: EngineService, chat: ChatRequest, priority: Priority) -> dict[str, Any]:
    parts, totals = await _begin(service, chat, priority)
    wholes = [WholeChoice() for _ in range(chat.num_choices)]
    async with aclosing(parts):
        async for part in parts:
            index: int = part.choice["index"]
            wholes[index].add(part.choice)
            if part.is_last:
                totals.add(part)
    choices = [each.choice() for each in wholes]
    return whole(header("chat.completion", chat.model), choices, totals)

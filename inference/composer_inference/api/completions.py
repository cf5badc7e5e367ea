"""POST /v1/completions."""

from collections.abc import Mapping
from contextlib import aclosing
from dataclasses import replace
from typing import Any, cast

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from composer_inference.api import parse
from composer_inference.api.answers import (
    completion_logprobs,
    header,
    timings_object,
    usage,
    with_usage_event,
)
from composer_inference.api.errors import invalid
from composer_inference.api.service import EngineService
from composer_inference.api.streaming import Events, event_stream, while_connected
from composer_inference.backends.base import GenerateRequest, Prompt
from composer_inference.chat.grammar import GrammarError, check_grammar
from composer_inference.chat.json_guard import JsonGuard
from composer_inference.priority import Priority

DEFAULT_MAX_TOKENS = 16
"""OpenAI's."""
MAX_LOGPROBS = 20


async def completions(request: Request) -> Response:
    service: EngineService = request.app.state.service
    body = await parse.read_body(request)
    model = parse.string(body, "model", "auto")
    generate = _read_request(body)
    num_logprobs = parse.integer(body, "logprobs", None, minimum=0, maximum=MAX_LOGPROBS)
    if num_logprobs is not None:
        # 0 asks for the sampled tokens without alternatives; the backend's 0 reports nothing.
        sampling = replace(generate.sampling, num_logprobs=max(1, num_logprobs))
        generate = replace(generate, sampling=sampling)
    events = _events(service, model, generate, parse.read_priority(request), num_logprobs)
    if parse.boolean(body, "stream"):
        wanted = parse.wants_usage_event(body)
        return await event_stream(request, with_usage_event(events, wanted=wanted))
    return JSONResponse(await while_connected(request, _whole(events)))


def _read_request(body: Mapping[str, Any]) -> GenerateRequest:
    parse.refuse_unsupported(body)
    grammar = body.get("grammar")
    schema = parse.dictionary(body, "json_schema")
    return GenerateRequest(
        prompt=_read_prompt(body),
        sampling=parse.read_sampling(body, max_tokens=DEFAULT_MAX_TOKENS),
        grammar=None if grammar is None else _checked(parse.string(body, "grammar")),
        json_schema=schema and parse.schema(schema, "json_schema", relax=False),
    )


def _checked(grammar: str) -> str:
    try:
        return check_grammar(grammar)
    except GrammarError as error:
        raise invalid(f"grammar {error}", param="grammar") from error


def _read_prompt(body: Mapping[str, Any]) -> Prompt:
    value = body.get("prompt")
    pieces = cast(list[object], value if isinstance(value, list) else [value])
    if not all(map(_is_piece, pieces)) or all(piece == "" for piece in pieces):
        raise parse.wrong(
            "prompt",
            value,
            "a string, or a list of strings and token ids that are joined to one prompt, not empty",
        )
    return tuple(cast(list[str | int], pieces))


def _is_piece(piece: object) -> bool:
    return isinstance(piece, str) or (
        isinstance(piece, int) and not isinstance(piece, bool) and piece >= 0
    )


async def _events(
    service: EngineService,
    model: str,
    generate: GenerateRequest,
    priority: Priority,
    num_logprobs: int | None,
) -> Events:
    first = header("text_completion", model)
    offset = 0
    guard = JsonGuard() if generate.json_schema is not None else None
    async with aclosing(service.generate(model, generate, priority)) as chunks:
        async for chunk in chunks:
            if guard is not None:
                guard.check(chunk)
            if not chunk.text and not chunk.logprobs and chunk.finish_reason is None:
                continue
            logprobs = None
            if num_logprobs is not None:
                logprobs = completion_logprobs(chunk.logprobs, num_top=num_logprobs, offset=offset)
                offset += sum(len(entry.token) for entry in chunk.logprobs)
            choice = {
                "index": 0,
                "text": chunk.text,
                "logprobs": logprobs,
                "finish_reason": chunk.finish_reason,
            }
            # With every event, as of then: who has read enough leaves before the last one.
            event = {**first, "choices": [choice], "timings": timings_object(chunk.timings)}
            if chunk.finish_reason is not None:
                event["usage"] = usage(chunk.timings)
            yield event


async def _whole(events: Events) -> dict[str, Any]:
    texts: list[str] = []
    logprobs: dict[str, list[Any]] | None = None
    last: dict[str, Any] = {}
    async with aclosing(events):
        async for last in events:
            choice: dict[str, Any] = last["choices"][0]
            texts.append(choice["text"])
            if choice["logprobs"] is not None:
                logprobs = logprobs or {name: [] for name in choice["logprobs"]}
                for name, values in logprobs.items():
                    values += choice["logprobs"][name]
    whole: dict[str, Any] = {
        **last["choices"][0],
        "text": "".join(texts),
        "logprobs": logprobs,
    }
    return {**last, "choices": [whole]}

"""POST /v1/completions."""

from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from typing import Any, cast

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from composer_inference.api import parse
from composer_inference.api.answers import completion_logprobs, header, timings_object, usage
from composer_inference.api.errors import invalid
from composer_inference.api.service import EngineService
from composer_inference.api.streaming import event_stream, while_connected
from composer_inference.backends.base import GenerateRequest, Prompt
from composer_inference.priority import Priority

DEFAULT_MAX_TOKENS = 16
"""OpenAI's."""
MAX_LOGPROBS = 20


async def completions(request: Request) -> Response:
    service: EngineService = request.app.state.service
    body = await parse.read_body(request)
    model = parse.string(body, "model", "auto")
    generate = _read_request(body)
    priority = parse.read_priority(request)
    events = _events(service, model, generate, priority)
    if parse.boolean(body, "stream"):
        return await event_stream(request, events)
    return JSONResponse(await while_connected(request, _whole(events)))


def _read_request(body: Mapping[str, Any]) -> GenerateRequest:
    parse.refuse_unsupported(body)
    num_logprobs = parse.integer(body, "logprobs", 0, minimum=0, maximum=MAX_LOGPROBS)
    grammar = body.get("grammar")
    return GenerateRequest(
        prompt=_read_prompt(body),
        sampling=parse.read_sampling(
            body, max_tokens=DEFAULT_MAX_TOKENS, num_logprobs=num_logprobs
        ),
        grammar=None if grammar is None else parse.string(body, "grammar"),
        json_schema=body.get("json_schema"),
    )


def _read_prompt(body: Mapping[str, Any]) -> Prompt:
    value = body.get("prompt")
    pieces = cast(list[object], value if isinstance(value, list) else [value])
    good = all(isinstance(piece, str | int) and not isinstance(piece, bool) for piece in pieces)
    if not good or not any(piece != "" for piece in pieces):
        raise invalid(
            "prompt must be a string, or a list of strings and token ids that are joined to one, "
            "and not be empty"
        )
    return tuple(cast(list[str | int], pieces))


async def _events(
    service: EngineService, model: str, generate: GenerateRequest, priority: Priority
) -> AsyncGenerator[dict[str, Any], None]:
    first = header("text_completion", model)
    wants_logprobs = generate.sampling.num_logprobs > 0
    async with aclosing(service.generate(model, generate, priority)) as chunks:
        async for chunk in chunks:
            if not chunk.text and not chunk.logprobs and chunk.finish_reason is None:
                continue
            logprobs = completion_logprobs(list(chunk.logprobs)) if wants_logprobs else None
            choice = {
                "index": 0,
                "text": chunk.text,
                "logprobs": logprobs,
                "finish_reason": chunk.finish_reason,
            }
            event = {**first, "choices": [choice]}
            if chunk.finish_reason is not None:
                event["usage"] = usage(chunk.timings)
                event["timings"] = timings_object(chunk.timings)
            yield event


async def _whole(events: AsyncGenerator[dict[str, Any], None]) -> dict[str, Any]:
    texts: list[str] = []
    logprobs: dict[str, list[Any]] | None = None
    last: dict[str, Any] = {}
    async with aclosing(events):
        async for last in events:
            choice = last["choices"][0]
            texts.append(choice["text"])
            if choice["logprobs"] is not None:
                logprobs = _joined(logprobs, choice["logprobs"])
    choice = {**last["choices"][0], "text": "".join(texts), "logprobs": logprobs}
    return {**last, "choices": [choice]}


def _joined(
    before: dict[str, list[Any]] | None, more: dict[str, list[Any]]
) -> dict[str, list[Any]]:
    if before is None:
        return more
    shift = before["text_offset"][-1] + len(before["tokens"][-1]) if before["tokens"] else 0
    shifted = {**more, "text_offset": [shift + offset for offset in more["text_offset"]]}
    return {name: before[name] + shifted[name] for name in before}

"""POST /v1/completions."""

from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import Any, cast

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from composer_inference.api import parse
from composer_inference.api.answers import completion_logprobs, header, with_usage_event
from composer_inference.api.choices import (
    ChoicePart,
    Parts,
    Totals,
    requests,
    streamed,
    together,
    whole,
)
from composer_inference.api.errors import invalid
from composer_inference.api.service import EngineService
from composer_inference.api.streaming import Events, event_stream, while_connected
from composer_inference.backends.base import (
    Capability,
    GenerateChunk,
    GenerateRequest,
    Prompt,
)
from composer_inference.chat.grammar import GrammarError, check_grammar
from composer_inference.chat.json_guard import JsonGuard
from composer_inference.priority import Priority

DEFAULT_MAX_TOKENS = 16
"""OpenAI's."""
MAX_LOGPROBS = 20


@dataclass(frozen=True, kw_only=True, slots=True)
class _Completion:
    model: str
    generate: GenerateRequest
    priority: Priority
    num_choices: int
    num_logprobs: int | None
    """Alternatives to report for each token; None reports no log-probabilities."""
    returns_token_ids: bool


async def completions(request: Request) -> Response:
    service: EngineService = request.app.state.service
    body = await parse.read_body(request)
    completion = _read(body, parse.read_priority(request))
    if parse.boolean(body, "stream"):
        wanted = parse.wants_usage_event(body)
        events = with_usage_event(_events(service, completion), wanted=wanted)
        return await event_stream(request, events)
    return JSONResponse(await while_connected(request, _whole(service, completion)))


def _read(body: Mapping[str, Any], priority: Priority) -> _Completion:
    generate = _read_request(body)
    num_logprobs = parse.integer(body, "logprobs", None, minimum=0, maximum=MAX_LOGPROBS)
    if num_logprobs is not None:
        # 0 asks for the sampled tokens without alternatives; the backend's 0 reports nothing.
        sampling = replace(generate.sampling, num_logprobs=max(1, num_logprobs))
        generate = replace(generate, sampling=sampling)
    return _Completion(
        model=parse.string(body, "model", "auto"),
        generate=generate,
        priority=priority,
        num_choices=parse.read_num_choices(body),
        num_logprobs=num_logprobs,
        returns_token_ids=parse.boolean(body, "return_token_ids"),
    )


def _read_request(body: Mapping[str, Any]) -> GenerateRequest:
    parse.refuse_unsupported(body)
    grammar = body.get("grammar")
    schema = parse.dictionary(body, "json_schema")
    if grammar is not None and schema is not None:
        raise invalid(
            "grammar and json_schema exclude each other; give one of them", param="grammar"
        )
    return GenerateRequest(
        prompt=_read_prompt(body),
        sampling=parse.read_sampling(body, max_tokens=DEFAULT_MAX_TOKENS),
        grammar=None if grammar is None else _checked(parse.string(body, "grammar")),
        json_schema=schema and parse.schema(schema, "json_schema", relax=False),
        draft_text=parse.read_prediction(body),
        return_router_choices=parse.boolean(body, "return_router_choices"),
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


async def _begin(service: EngineService, completion: _Completion) -> tuple[Parts, Totals]:
    """Nothing is computed before the parts are asked for."""
    generate, drafts = completion.generate, None
    if generate.draft_text is not None:
        backend = await service.backend(completion.model)
        drafts = Capability.DRAFT_TEXT in backend.capabilities
        generate = generate if drafts else replace(generate, draft_text=None)
    streams = [
        _choice(service.generate(completion.model, each, completion.priority), completion, index)
        for index, each in enumerate(requests(generate, completion.num_choices))
    ]
    return together(streams), Totals(drafts=drafts)


async def _choice(
    chunks: AsyncGenerator[GenerateChunk, None], completion: _Completion, index: int
) -> Parts:
    offset = 0
    guard = JsonGuard() if completion.generate.json_schema is not None else None
    async with aclosing(chunks):
        async for chunk in chunks:
            if guard is not None:
                guard.check(chunk)
            token_ids = chunk.token_ids if completion.returns_token_ids else ()
            has_news = chunk.text or chunk.logprobs or token_ids
            if not has_news and chunk.finish_reason is None:
                continue
            logprobs = None
            if (num_top := completion.num_logprobs) is not None:
                logprobs = completion_logprobs(chunk.logprobs, num_top=num_top, offset=offset)
                offset += sum(len(entry.token) for entry in chunk.logprobs)
            choice: dict[str, Any] = {
                "index": index,
                "text": chunk.text,
                "logprobs": logprobs,
                "finish_reason": chunk.finish_reason,
            }
            if completion.returns_token_ids:
                choice["token_ids"] = list(token_ids)
            if chunk.router_choices is not None:
                choice["router_choices"] = chunk.router_choices
            yield ChoicePart(
                choice=choice, timings=chunk.timings, weights_version=chunk.weights_version
            )


async def _events(service: EngineService, completion: _Completion) -> Events:
    parts, totals = await _begin(service, completion)
    first = header("text_completion", completion.model)
    num_choices = completion.num_choices
    # Timings with every event: who has read enough leaves before the last one.
    events = streamed(first, parts, totals, num_choices=num_choices, timed=True)
    async with aclosing(events):
        async for event in events:
            yield event


async def _whole(service: EngineService, completion: _Completion) -> dict[str, Any]:
    parts, totals = await _begin(service, completion)
    wholes: list[dict[str, Any]] = [{} for _ in range(completion.num_choices)]
    async with aclosing(parts):
        async for part in parts:
            index: int = part.choice["index"]
            _add(wholes[index], part.choice)
            if part.is_last:
                totals.add(part)
    return whole(header("text_completion", completion.model), wholes, totals)


def _add(whole_choice: dict[str, Any], choice: dict[str, Any]) -> None:
    """Appends what a part says, and takes over the rest of its fields."""
    for name, value in choice.items():
        before = whole_choice.get(name)
        if name == "logprobs" and before is not None:
            for column, entries in value.items():
                before[column] += entries
        elif name in ("text", "token_ids") and before is not None:
            whole_choice[name] = before + value
        else:
            whole_choice[name] = value

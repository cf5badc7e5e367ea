"""One tab completion over an OpenAI-compatible server: prompt in, chunks out."""

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from typing import Any

from composer_lsp.completion.completer import TabChunk
from composer_lsp.completion.templates import SERVER_SIDE, FimPrompt, find_template
from composer_lsp.completion.trim import FinishReason
from composer_lsp.engine.client import OpenAIClient
from composer_lsp.engine.sse import first_choice

_MAX_STOPS = 4
"""Hosted servers refuse more; the trimmer ends the stream at every other sentinel."""

_LLAMA_CPP_TIMINGS = {"prompt_ms": "prefill_ms", "predicted_ms": "decode_ms"}


async def stream_completion(
    client: OpenAIClient,
    prompt: FimPrompt,
    *,
    model: str,
    fim_template: str,
    max_tokens: int,
    stop: Sequence[str],
) -> AsyncGenerator[TabChunk, None]:
    """Raises: EngineError, UnknownTemplateError."""
    path, body = _request(prompt, model=model, fim_template=fim_template, stop=stop)
    body |= {"model": model, "temperature": 0}
    body["n_predict" if path.endswith("infill") else "max_tokens"] = max_tokens
    async with aclosing(client.events(path, body)) as events:
        async for event in events:
            yield _chunk(event)


def _request(
    prompt: FimPrompt, *, model: str, fim_template: str, stop: Sequence[str]
) -> tuple[str, dict[str, Any]]:
    if fim_template not in SERVER_SIDE:
        template = find_template(fim_template, model)
        stops = [*stop, *template.sentinels][:_MAX_STOPS]
        return "completions", {"prompt": template.render(prompt), "stop": stops}
    stops = {"stop": list(stop)} if stop else {}
    if fim_template == "suffix":
        return "completions", {"prompt": prompt.prefix, "suffix": prompt.suffix, **stops}
    # llama.cpp serves it beside /v1, not below it.
    return "../infill", {"input_prefix": prompt.prefix, "input_suffix": prompt.suffix, **stops}


def _chunk(event: dict[str, Any]) -> TabChunk:
    choice = first_choice(event)
    text = choice.get("text", event.get("content")) or ""
    timings: object = event.get("timings")
    return TabChunk(
        text=str(text),
        finish_reason=_finish_reason(choice, event),
        timings=_known_timings(timings) if isinstance(timings, Mapping) else {},  # pyright: ignore[reportUnknownArgumentType]
    )


def _finish_reason(choice: dict[str, Any], event: dict[str, Any]) -> FinishReason | None:
    reason = choice.get("finish_reason")
    if reason is None and event.get("stop") is True:
        reason = "length" if event.get("stop_type") == "limit" else "stop"
    if reason is None:
        return None
    return "length" if reason == "length" else "stop"


def _known_timings(timings: Mapping[str, Any]) -> dict[str, float]:
    return {
        _LLAMA_CPP_TIMINGS.get(name, name): float(value)
        for name, value in timings.items()
        if isinstance(value, int | float)
    }

"""One tab completion over an OpenAI-compatible server: prompt in, chunks out."""

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace
from enum import Enum
from typing import Any

from composer_lsp.completion.completer import TabChunk
from composer_lsp.completion.healing import without_start
from composer_lsp.completion.prompt import CHARS_PER_TOKEN
from composer_lsp.completion.templates import FimPrompt, find_template
from composer_lsp.completion.trim import FinishReason
from composer_lsp.engine.client import OpenAIClient
from composer_lsp.engine.sse import first_choice

_MAX_STOPS = 4
"""Hosted servers refuse more; the trimmer ends the stream at every other sentinel."""

_LLAMA_CPP_TIMINGS = {"prompt_ms": "prefill_ms", "predicted_ms": "decode_ms"}


class Forcing(Enum):
    """Whether the server can be held to the beginning of its answer."""

    GRAMMAR = "grammar"
    """By a grammar in the request: this engine with llama.cpp."""
    UNKNOWN = "unknown"
    """It is asked without, and an answer that begins otherwise is dropped."""
    NONE = "none"
    """It is given the whole text before the cursor."""


async def stream_completion(
    client: OpenAIClient,
    prompt: FimPrompt,
    *,
    model: str,
    fim_template: str,
    forcing: Forcing,
    max_tokens: int,
    stop: Sequence[str],
) -> AsyncGenerator[TabChunk, None]:
    """Raises: EngineError, UnknownTemplateError."""
    sampling: dict[str, Any] = {"model": model, "temperature": 0, "stop": list(stop)[:_MAX_STOPS]}
    if fim_template == "infill":
        # llama.cpp serves it beside /v1, not below it.
        body = {"input_prefix": prompt.prefix, "input_suffix": prompt.suffix}
        chunks = _chunks(client, "../infill", body | sampling | {"n_predict": max_tokens})
    elif fim_template == "suffix":
        body = {"prompt": prompt.prefix, "suffix": prompt.suffix, "max_tokens": max_tokens}
        chunks = _chunks(client, "completions", body | sampling)
    else:
        template = find_template(fim_template, model)
        rendered = template.render(prompt, hold_back=forcing is not Forcing.NONE)
        body = sampling | {
            "prompt": rendered.text,
            "stop": [*stop, *template.sentinels][:_MAX_STOPS],
            "max_tokens": max_tokens + _num_held_tokens(rendered.starts_with),
        }
        if rendered.starts_with and forcing is Forcing.GRAMMAR:
            body["grammar"] = beginning_with(rendered.starts_with)
        chunks = _behind(_chunks(client, "completions", body), rendered.starts_with)
    async with aclosing(chunks):
        async for chunk in chunks:
            yield chunk


async def _chunks(
    client: OpenAIClient, path: str, body: dict[str, Any]
) -> AsyncGenerator[TabChunk, None]:
    async with aclosing(client.events(path, body)) as events:
        async for event in events:
            yield _chunk(event)


async def _behind(
    chunks: AsyncGenerator[TabChunk, None], starts_with: str
) -> AsyncGenerator[TabChunk, None]:
    """The answer without the held text that it begins with; nothing of one that does not."""
    answer = ""
    is_behind = not starts_with
    async with aclosing(chunks):
        async for chunk in chunks:
            if is_behind:
                yield chunk
                continue
            answer += chunk.text
            if len(answer) < len(starts_with) and chunk.finish_reason is None:
                continue
            text = without_start(answer, starts_with)
            if text is None:
                yield TabChunk(finish_reason="stop", timings=chunk.timings)
                return
            is_behind = True
            yield replace(chunk, text=text)


def beginning_with(text: str) -> str:
    """A GBNF grammar of all texts that begin with this one."""
    literal = "".join(
        f"\\{char}" if char in '"\\' else char if char.isprintable() else f"\\U{ord(char):08X}"
        for char in text
    )
    return f'root ::= "{literal}" [^\\x00]*'


def _num_held_tokens(held: str) -> int:
    # Held text is one token as a rule, and at most a few.
    return -(-len(held) // CHARS_PER_TOKEN)


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

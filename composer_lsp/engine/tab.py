"""One tab completion over an OpenAI-compatible server: prompt in, chunks out."""

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from enum import Enum
from typing import Any

from composer_lsp.completion.prompt import narrowed
from composer_lsp.completion.tab_engine import TabChunk
from composer_lsp.completion.templates import (
    SERVER_SIDE,
    FimPrompt,
    FimTemplate,
    find_template,
)
from composer_lsp.completion.tokens import CHARS_PER_TOKEN
from composer_lsp.engine.chunks import chunk_of
from composer_lsp.engine.client import OpenAIClient
from composer_lsp.engine.errors import RequestRefusedError
from composer_lsp.engine.healed import UnlikelyStartError, beginning_with, behind_held_text

_MAX_STOPS = 4
"""Hosted servers refuse more; the trimmer ends the stream at every other sentinel."""

_TEMPERATURE = 0.8
"""Of answers with a seed: enough for them to differ, and not so much that they stop being code."""


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
    seed: int | None = None,
) -> AsyncGenerator[TabChunk, None]:
    """The likeliest answer, or with a seed another one.

    Raises: EngineError, UnknownTemplateError.
    """
    sampling: dict[str, Any] = {"model": model, "temperature": 0, "stop": list(stop)[:_MAX_STOPS]}
    if forcing is Forcing.GRAMMAR:  # Hosted servers may refuse to.
        sampling |= {"logprobs": 1}
    if prompt.prediction and forcing is not Forcing.UNKNOWN:
        sampling |= {"prediction": {"type": "content", "content": prompt.prediction}}
    if seed is not None:
        sampling |= {"temperature": _TEMPERATURE, "seed": seed}
    windows = list(narrowed(prompt))
    for window in windows:
        chunks = _answer(
            client,
            window,
            model=model,
            fim_template=fim_template,
            forcing=forcing,
            max_tokens=max_tokens,
            sampling=sampling,
        )
        try:
            async with aclosing(chunks):
                async for chunk in chunks:
                    yield chunk
            return
        except RequestRefusedError as error:
            # Tokens were only estimated.
            if error.code != "context_length_exceeded" or window is windows[-1]:
                raise


def _answer(
    client: OpenAIClient,
    prompt: FimPrompt,
    *,
    model: str,
    fim_template: str,
    forcing: Forcing,
    max_tokens: int,
    sampling: dict[str, Any],
) -> AsyncGenerator[TabChunk, None]:
    if fim_template == "infill":
        # llama.cpp serves it beside /v1, not below it.
        snippets = prompt.context.snippets
        extra = [{"filename": each.path, "text": each.text} for each in snippets]
        body = {
            "input_prefix": prompt.prefix,
            "input_suffix": prompt.suffix,
            **({"input_extra": extra} if extra else {}),
        }
        return _chunks(client, "../infill", body | sampling | {"n_predict": max_tokens})
    if fim_template == "suffix":
        body = {
            "prompt": prompt.commented_prefix,
            "suffix": prompt.suffix,
            "max_tokens": max_tokens,
        }
        return _chunks(client, "completions", body | sampling)
    template = find_template(fim_template, model)
    sampling = sampling | {
        "stop": [*sampling["stop"], *template.sentinels][:_MAX_STOPS],
        "max_tokens": max_tokens,
    }
    return _healed(client, template, prompt, forcing, sampling)


async def prepare(
    client: OpenAIClient, prompt: FimPrompt, *, model: str, fim_template: str, forcing: Forcing
) -> Mapping[str, float]:
    """The timings of having the prompt read and nothing answered; none where the server makes the
    prompt. Raises: EngineError, UnknownTemplateError."""
    if fim_template in SERVER_SIDE:
        return {}
    rendered = find_template(fim_template, model).render(
        prompt, hold_back=forcing is not Forcing.NONE
    )
    body = {"model": model, "prompt": rendered.text, "max_tokens": 0, "temperature": 0}
    return chunk_of(await client.post("completions", body)).timings


async def _healed(
    client: OpenAIClient,
    template: FimTemplate,
    prompt: FimPrompt,
    forcing: Forcing,
    sampling: dict[str, Any],
) -> AsyncGenerator[TabChunk, None]:
    whole = sampling | {"prompt": template.render(prompt, hold_back=False).text}
    rendered = template.render(prompt)
    if forcing is Forcing.NONE or not rendered.starts_with:
        chunks = _chunks(client, "completions", whole)
    else:
        body = sampling | {
            "prompt": rendered.text,
            # Held text is one token as a rule, and at most a few.
            "max_tokens": sampling["max_tokens"] + -(-len(rendered.starts_with) // CHARS_PER_TOKEN),
        }
        if forcing is Forcing.GRAMMAR:
            body |= {"grammar": beginning_with(rendered.starts_with)}
        chunks = behind_held_text(client.events("completions", body), rendered.starts_with)
    try:
        async with aclosing(chunks):
            async for chunk in chunks:
                yield chunk
        return
    except UnlikelyStartError:
        pass
    # The text before the cursor ends with a whole word after all.
    async with aclosing(_chunks(client, "completions", whole)) as chunks:
        async for chunk in chunks:
            yield chunk


async def _chunks(
    client: OpenAIClient, path: str, body: dict[str, Any]
) -> AsyncGenerator[TabChunk, None]:
    async with aclosing(client.events(path, body)) as events:
        async for event in events:
            yield chunk_of(event)

"""The parts that all answers share: usage, timings, log-probabilities."""

import time
import uuid
from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import asdict
from typing import Any

from composer_inference.api.streaming import Events
from composer_inference.backends.base import Timings, TokenLogprob


def header(kind: str, model: str) -> dict[str, Any]:
    """What every object of one answer begins with."""
    prefix = "cmpl" if kind == "text_completion" else "chatcmpl"
    return {
        "id": f"{prefix}-{uuid.uuid4().hex}",
        "object": kind,
        "created": int(time.time()),
        "model": model,
    }


def usage(timings: Timings, *, prompt: Timings | None = None) -> dict[str, Any]:
    """`prompt`: the timings that tell the prompt's length, if not the same: those of the first part
    of an answer that was decoded in several."""
    prompt = prompt or timings
    prompt_tokens = prompt.num_cached_tokens + prompt.num_prefill_tokens
    return {
        "prompt_tokens": prompt_tokens,
        "completion_tokens": timings.num_decoded_tokens,
        "total_tokens": prompt_tokens + timings.num_decoded_tokens,
        "prompt_tokens_details": {"cached_tokens": prompt.num_cached_tokens},
    }


def timings_object(timings: Timings) -> dict[str, Any]:
    return {
        name: round(value, 3) if isinstance(value, float) else value
        for name, value in asdict(timings).items()
    }


async def with_usage_event(events: Events, *, wanted: bool) -> Events:
    """Moves the last event's usage into an event of its own where the client asked for one, as
    OpenAI streams it. Elsewhere it stays on the last event, where it harms nobody."""
    async with aclosing(events):
        async for event in events:
            if "usage" in event and wanted:
                numbers = event.pop("usage")
                yield event
                yield {**event, "choices": [], "usage": numbers}
            else:
                yield event


def completion_logprobs(
    entries: Sequence[TokenLogprob], *, num_top: int, offset: int
) -> dict[str, Any]:
    """The shape of `/v1/completions`. `offset`: characters of text before the first entry."""
    offsets: list[int] = []
    for entry in entries:
        offsets.append(offset)
        offset += len(entry.token)
    return {
        "tokens": [entry.token for entry in entries],
        "token_logprobs": [entry.logprob for entry in entries],
        "top_logprobs": [dict(entry.top[:num_top]) for entry in entries],
        "text_offset": offsets,
    }


def chat_logprobs(
    entries: Sequence[TokenLogprob], *, of_calls: Sequence[TokenLogprob] = (), num_top: int
) -> dict[str, Any]:
    """The shape of `/v1/chat/completions`, and beside it each token's `token_id`, and `tool_calls`
    for the tokens of calls: the marks around a call are not sampled, and are not in it."""
    logprobs: dict[str, Any] = {
        "content": [_entry(entry, num_top) for entry in entries],
        "refusal": None,
    }
    if of_calls:
        logprobs["tool_calls"] = [_entry(entry, num_top) for entry in of_calls]
    return logprobs


def _entry(entry: TokenLogprob, num_top: int) -> dict[str, Any]:
    return {
        **_chat_logprob(entry.token, entry.logprob),
        "token_id": entry.token_id,
        "top_logprobs": [_chat_logprob(*top) for top in entry.top[:num_top]],
    }


def _chat_logprob(token: str, logprob: float) -> dict[str, Any]:
    # A token may be part of a character; what stands for it then says nothing of its bytes.
    whole = "\ufffd" not in token
    return {
        "token": token,
        "logprob": logprob,
        "bytes": list(token.encode("utf-8", "surrogatepass")) if whole else None,
    }

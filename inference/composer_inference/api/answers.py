"""The parts that all answers share: usage, timings, log-probabilities."""

import time
import uuid
from dataclasses import asdict
from typing import Any

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


def usage(timings: Timings) -> dict[str, Any]:
    prompt_tokens = timings.num_cached_tokens + timings.num_prefill_tokens
    return {
        "prompt_tokens": prompt_tokens,
        "completion_tokens": timings.num_decoded_tokens,
        "total_tokens": prompt_tokens + timings.num_decoded_tokens,
        "prompt_tokens_details": {"cached_tokens": timings.num_cached_tokens},
    }


def timings_object(timings: Timings) -> dict[str, Any]:
    return {
        name: round(value, 3) if isinstance(value, float) else value
        for name, value in asdict(timings).items()
    }


def completion_logprobs(entries: list[TokenLogprob]) -> dict[str, Any]:
    """The shape of `/v1/completions`."""
    offsets: list[int] = []
    at = 0
    for entry in entries:
        offsets.append(at)
        at += len(entry.token)
    return {
        "tokens": [entry.token for entry in entries],
        "token_logprobs": [entry.logprob for entry in entries],
        "top_logprobs": [dict(entry.top) for entry in entries],
        "text_offset": offsets,
    }


def chat_logprobs(entries: list[TokenLogprob]) -> dict[str, Any]:
    """The shape of `/v1/chat/completions`."""

    def shown(token: str, logprob: float) -> dict[str, Any]:
        return {"token": token, "logprob": logprob, "bytes": list(token.encode("utf-8", "replace"))}

    return {
        "content": [
            {
                **shown(entry.token, entry.logprob),
                "top_logprobs": [shown(token, logprob) for token, logprob in entry.top],
            }
            for entry in entries
        ]
    }

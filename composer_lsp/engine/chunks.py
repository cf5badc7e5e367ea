"""Completion events of OpenAI's API and of llama.cpp's own, as `TabChunk`."""

from collections.abc import Mapping
from typing import Any, cast

from composer_lsp.completion.tab_engine import TabChunk
from composer_lsp.completion.trim import FinishReason
from composer_lsp.engine.sse import first_choice

_LLAMA_CPP_TIMINGS = {
    "prompt_ms": "prefill_ms",
    "predicted_ms": "decode_ms",
    "cache_n": "num_cached_tokens",
    "prompt_n": "num_prefill_tokens",
    "predicted_n": "num_decoded_tokens",
}

_MAX_TIMING = 1e12
"""Infinity would be no JSON when it is passed on."""


def chunk_of(event: dict[str, Any]) -> TabChunk:
    choice = first_choice(event)
    return TabChunk(
        text=_text(choice.get("text", event.get("content"))),
        finish_reason=_finish_reason(choice, event),
        tokens=tuple(tokens_of(event)),
        timings=_known_timings(_object(event.get("timings"))),
    )


def tokens_of(event: dict[str, Any]) -> list[tuple[str, float]]:
    """The event's tokens with their log-probabilities, where the server gives them."""
    logprobs = _object(first_choice(event).get("logprobs"))
    pairs = zip(_list(logprobs.get("tokens")), _list(logprobs.get("token_logprobs")), strict=False)
    return [
        (token, logprob)
        for token, logprob in pairs
        if isinstance(token, str) and isinstance(logprob, int | float)
    ]


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
        if isinstance(value, int | float) and abs(value) <= _MAX_TIMING
    }


def _text(value: object) -> str:
    # Half of a surrogate pair is JSON and no text that could be shown.
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) else ""


def _list(value: object) -> list[object]:
    return cast(list[object], value) if isinstance(value, list) else []


def _object(value: object) -> dict[str, Any]:
    return cast(dict[str, Any], value) if isinstance(value, dict) else {}

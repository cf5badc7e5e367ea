"""Counters of the engine in Prometheus' text format (exposition format 0.0.4)."""

from collections import Counter
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from operator import attrgetter
from typing import Literal, NamedTuple

from composer_inference.backends.base import BackendStats, GenerateChunk, Timings
from composer_inference.priority import Priority

_COUNTERS = {
    "requests_total": "Generations that ended with a finish reason",
    "requests_cancelled_total": "Generations that were closed or failed before their end",
    "cached_tokens_total": "Prompt tokens found in the cache",
    "prefill_tokens_total": "Prompt tokens computed",
    "prefill_seconds_total": "Time spent on prompts",
    "decoded_tokens_total": "Tokens generated",
    "decode_seconds_total": "Time spent on generating",
    "queue_seconds_total": "Time spent waiting for a turn",
    "preemptions_total": "Times that a generation gave its turn to a more urgent one",
}


class _Family(NamedTuple):
    kind: Literal["gauge", "counter"]
    help: str
    samples: Mapping[str, str]
    """Fields of `BackendStats` by the labels that they have beside the model's."""


_OF_A_MODEL = {
    "model_weights_bytes": _Family("gauge", "Memory of the weights", {"": "weights_bytes"}),
    "model_kv_cache_bytes": _Family("gauge", "Memory for keys and values", {"": "kv_cache_bytes"}),
    "model_kv_blocks": _Family(
        "gauge",
        "Blocks of the cache: held by requests, cached for later ones, or free",
        {f'state="{state}"': f"num_blocks_{state}" for state in ("free", "cached", "held")},
    ),
    "model_running_requests": _Family("gauge", "Computed together", {"": "num_running"}),
    "model_waiting_requests": _Family("gauge", "Waiting for memory", {"": "num_waiting"}),
    "model_steps_total": _Family("counter", "Steps computed", {"": "num_steps"}),
    "model_computed_tokens_total": _Family(
        "counter", "Tokens of prompts, answers and drafts computed", {"": "num_computed_tokens"}
    ),
    "model_drafted_tokens_total": _Family("counter", "Tokens drafted", {"": "num_drafted"}),
    "model_accepted_tokens_total": _Family(
        "counter", "Drafted tokens that the model decoded too", {"": "num_draft_accepted"}
    ),
}


class Metrics:
    def __init__(self) -> None:
        self._counts: Counter[tuple[str, Priority]] = Counter()
        self._seconds: dict[tuple[str, Priority], float] = {}

    @asynccontextmanager
    async def request(self, priority: Priority) -> AsyncGenerator[Callable[[GenerateChunk], None]]:
        """Counts one generation: call the result with each chunk. One that ends without a finish
        reason was cancelled; what it had computed until then counts."""
        last = GenerateChunk()

        def observe(chunk: GenerateChunk) -> None:
            nonlocal last
            last = chunk

        try:
            yield observe
        finally:
            name = "requests_total" if last.finish_reason else "requests_cancelled_total"
            self._counts[name, priority] += 1
            self._observe(priority, last.timings)

    def render(
        self,
        *,
        num_running: int,
        num_waiting: int,
        num_loaded_models: int,
        models: Mapping[str, BackendStats],
    ) -> str:
        """`models`: those of the loaded ones that tell what they take."""
        lines: list[str] = []
        for name, text in _COUNTERS.items():
            lines += [f"# HELP composer_{name} {text}", f"# TYPE composer_{name} counter"]
            for priority in Priority:
                value = self._seconds.get((name, priority), self._counts[name, priority])
                lines.append(f'composer_{name}{{priority="{priority.name.lower()}"}} {value:g}')
        gauges = {
            "running_requests": ("Generations that have a turn", num_running),
            "waiting_requests": ("Requests that wait for a turn", num_waiting),
            "loaded_models": ("Models in memory", num_loaded_models),
        }
        for name, (text, value) in gauges.items():
            lines += [
                f"# HELP composer_{name} {text}",
                f"# TYPE composer_{name} gauge",
                f"composer_{name} {value}",
            ]
        lines += _of_models(models)
        return "\n".join(lines) + "\n"

    def _observe(self, priority: Priority, timings: Timings) -> None:
        self._counts["cached_tokens_total", priority] += timings.num_cached_tokens
        self._counts["prefill_tokens_total", priority] += timings.num_prefill_tokens
        self._counts["decoded_tokens_total", priority] += timings.num_decoded_tokens
        self._counts["preemptions_total", priority] += timings.num_preemptions
        for name, milliseconds in (
            ("prefill_seconds_total", timings.prefill_ms),
            ("decode_seconds_total", timings.decode_ms),
            ("queue_seconds_total", timings.queue_ms),
        ):
            key = (name, priority)
            self._seconds[key] = self._seconds.get(key, 0.0) + milliseconds / 1000


def _of_models(models: Mapping[str, BackendStats]) -> Iterator[str]:
    if not models:
        return
    for name, (kind, text, samples) in _OF_A_MODEL.items():
        yield f"# HELP composer_{name} {text}"
        yield f"# TYPE composer_{name} {kind}"
        for model, stats in models.items():
            for label, field in samples.items():
                labels = f'model="{_escaped(model)}"' + (f",{label}" if label else "")
                yield f"composer_{name}{{{labels}}} {attrgetter(field)(stats)}"


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")

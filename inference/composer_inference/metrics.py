"""Counters of the engine in Prometheus' text format (exposition format 0.0.4)."""

from collections import Counter
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager

from composer_inference.backends.base import GenerateChunk, Timings
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

    def render(self, *, num_running: int, num_waiting: int, num_loaded_models: int) -> str:
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

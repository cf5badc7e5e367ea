"""How long a call takes on a device, and how long a part of a check may go on."""

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import torch

_FLUSH_BYTES = 256 << 20
"""More than the L2 cache of any card: the next call reads its weights from memory."""


class Clock(Protocol):
    def median_us(self, run: Callable[[], object], *, graph: bool = True) -> float:
        """Median time of a call, compiled and warmed up before, with nothing of it in the L2 cache.

        `graph`: replay the call as a CUDA graph, so that launches from Python cost nothing; a call
        that cannot be captured is made as it is.
        """
        ...


class CudaClock:
    """CUDA events around each of some calls."""

    def __init__(self, num_calls: int) -> None:
        self._num_calls = num_calls
        self._flush = torch.empty(_FLUSH_BYTES, dtype=torch.uint8, device="cuda")
        self._cuda: Any = torch.cuda

    def median_us(self, run: Callable[[], object], *, graph: bool = True) -> float:
        run()
        call = self._captured(run) if graph else run
        events = [self._timed(call) for _ in range(self._num_calls)]
        self._cuda.synchronize()
        return statistics.median(start.elapsed_time(end) * 1e3 for start, end in events)

    def _timed(self, call: Callable[[], object]) -> tuple[Any, Any]:
        start, end = (self._cuda.Event(enable_timing=True) for _ in range(2))
        self._flush.zero_()
        start.record()
        call()
        end.record()
        return start, end

    def _captured(self, run: Callable[[], object]) -> Callable[[], object]:
        stream = self._cuda.Stream()
        stream.wait_stream(self._cuda.current_stream())
        with self._cuda.stream(stream):
            run()
        self._cuda.current_stream().wait_stream(stream)
        self._cuda.synchronize()
        captured = self._cuda.CUDAGraph()
        try:
            with self._cuda.graph(captured):
                run()
        except RuntimeError:
            self._cuda.synchronize()
            return run
        return captured.replay


class CpuClock:
    """For dry runs: the same calls, and times that mean little."""

    def __init__(self, num_calls: int) -> None:
        self._num_calls = num_calls

    def median_us(self, run: Callable[[], object], *, graph: bool = True) -> float:
        run()
        return statistics.median(self._once(run) for _ in range(self._num_calls))

    @staticmethod
    def _once(run: Callable[[], object]) -> float:
        start = time.perf_counter()
        run()
        return (time.perf_counter() - start) * 1e6


@dataclass(frozen=True, slots=True)
class Deadline:
    """A point in time, on `time.monotonic`'s clock."""

    at_s: float

    @classmethod
    def after(cls, seconds: float) -> "Deadline":
        return cls(time.monotonic() + seconds)

    def within(self, seconds: float) -> "Deadline":
        """The earlier of this and so many seconds from now."""
        return Deadline(min(self.at_s, time.monotonic() + seconds))

    @property
    def has_passed(self) -> bool:
        return time.monotonic() >= self.at_s

"""Exponential back-off, so that a server that is down costs neither CPU nor battery."""

import random
import time
from collections.abc import Callable


class Backoff:
    """When to try again after failures: `first_s`, then twice as long each time, up to `longest_s`,
    each wait shortened by a random part of up to a half so that windows do not try in step.

    It holds no timer: whoever asks too early is told how long to wait.
    """

    def __init__(
        self,
        *,
        first_s: float = 0.5,
        longest_s: float = 60.0,
        clock: Callable[[], float] = time.monotonic,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self._first_s = first_s
        self._longest_s = longest_s
        self._clock = clock
        self._jitter = jitter
        self._num_failures = 0
        self._ready_at = float("-inf")

    @property
    def remaining_s(self) -> float:
        """Seconds until the next try is due; 0 when it may be made now."""
        return max(0.0, self._ready_at - self._clock())

    def failed(self) -> None:
        """Count a failure."""
        wait_s = min(self._first_s * 2.0 ** min(self._num_failures, 30), self._longest_s)
        self._num_failures += 1
        self._ready_at = self._clock() + wait_s * (1 - self._jitter() / 2)

    def succeeded(self) -> None:
        """Forget all failures."""
        self._num_failures = 0
        self._ready_at = float("-inf")

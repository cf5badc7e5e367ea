"""How long to wait after a keystroke before the engine is asked."""

import time
from collections.abc import Callable

MAX_GROWTH = 10.0
"""The longest wait, as a multiple of the shortest."""

_FAST_GAP_S = 0.25
"""Keystrokes closer than this are a burst: 50 words a minute type a character each 0.24 s."""
_GROWTH = 1.5


class Debounce:
    """Adaptive wait of one document: each keystroke of a burst waits longer than the one before,
    so that a fast typist does not start and cancel a request a key; a pause resets it."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._last = float("-inf")
        self._factor = 1.0

    def wait_s(self, shortest_ms: int) -> float:
        """Count one keystroke now and return how long its request waits."""
        now = self._clock()
        is_burst = now - self._last < _FAST_GAP_S
        self._last = now
        self._factor = min(self._factor * _GROWTH, MAX_GROWTH) if is_burst else 1.0
        return shortest_ms * self._factor / 1000

"""Whether suggestions come in time on this machine, and what is given up where they do not.

First the text around the cursor that a prompt holds, where reading it is what takes long; then the model.
What was given up for the prompt comes back when there is time to spare.
"""

from collections import deque
from collections.abc import Mapping
from statistics import median

IN_TIME_MS = 800.0
"""Median of the time from the end of typing to the suggestion."""
_SPARE_MS = 400.0
_NUM_COUNTED = 20
"""Suggestions that a judgement takes; those from memory take no time and are not told of."""
_SHARES = (1.0, 0.5, 0.25)
"""Of the context's tokens, one after the other."""
_LEAST_READING = 0.3
"""Part of the time that goes into reading prompts where shorter ones help."""


class Timeliness:
    def __init__(self) -> None:
        self._seen: deque[tuple[float, float]] = deque(maxlen=_NUM_COUNTED)
        self._step = 0
        self.p50_ms: float | None = None
        """Of the last judgement; None before the first."""
        self.is_model_too_slow = False
        """Even with the shortest prompts, or because it is writing that takes long."""

    @property
    def context_share(self) -> float:
        """Part of the context's tokens that prompts may have."""
        return _SHARES[self._step]

    def observe(self, timings: Mapping[str, float]) -> bool:
        """Take a suggestion's stages in milliseconds (`prefill`, `debounce`, `total`); whether they were
        judged anew."""
        self._seen.append((timings["total"] - timings["debounce"], timings["prefill"]))
        if len(self._seen) < _NUM_COUNTED:
            return False
        self._judge()
        self._seen.clear()
        return True

    def forget(self) -> None:
        """Another model answers from now on."""
        self._seen.clear()
        self._step, self.p50_ms, self.is_model_too_slow = 0, None, False

    def _judge(self) -> None:
        self.p50_ms = median(total for total, _ in self._seen)
        reading_ms = median(prefill for _, prefill in self._seen)
        if self.p50_ms > IN_TIME_MS:
            is_reading = reading_ms >= _LEAST_READING * self.p50_ms
            if is_reading and self._step + 1 < len(_SHARES):
                self._step += 1
            else:
                self.is_model_too_slow = True
        elif self.p50_ms < _SPARE_MS:
            self._step = max(0, self._step - 1)
            self.is_model_too_slow = False

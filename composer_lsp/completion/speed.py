"""What a prompt may cost on this machine, by what the engine's answers told of their own time."""

import time
from collections.abc import Mapping

from composer_lsp.completion.templates import FimPrompt

FIRST_TOKEN_S = 0.8
"""Wait for the first token of a suggestion that still keeps who types in flow."""
STABLE_S = 10.0
"""What other files' text may take in the background, once each time that it changes."""
MAX_STABLE_TOKENS = 2048
"""More hardly makes a small model's answers better."""
MIN_NEW_TOKENS = 64
"""Less around the cursor says too little to any model."""

_MIN_MEASURED_TOKENS = 16
"""Of a prompt: the time of a few is mostly that of the round trip."""
_KEPT = 0.7
"""Weight of what was measured before, for each answer since."""


def unread_prompt() -> FimPrompt:
    """One of some hundred tokens that no engine has read yet, to measure its speed by."""
    lines = (f"value_{number} = {number}" for number in range(12))
    return FimPrompt(prefix="\n".join((f"# {time.time_ns()}", *lines)), suffix="")


class Speed:
    """Of reading prompts. A prompt's known beginning costs nothing and is not counted."""

    def __init__(self) -> None:
        self._tokens = 0.0
        self._ms = 0.0

    def observe(self, timings: Mapping[str, float]) -> None:
        """Take what an answer told: `num_prefill_tokens` and `prefill_ms`."""
        num_tokens = timings.get("num_prefill_tokens", 0.0)
        ms = timings.get("prefill_ms", 0.0)
        if num_tokens >= _MIN_MEASURED_TOKENS and ms > 0:
            self._tokens = _KEPT * self._tokens + num_tokens
            self._ms = _KEPT * self._ms + ms

    def forget(self) -> None:
        """Another model answers from now on."""
        self._tokens = self._ms = 0.0

    @property
    def tokens_per_s(self) -> float | None:
        """None before anything was measured."""
        return 1000 * self._tokens / self._ms if self._ms else None

    @property
    def new_tokens(self) -> int | None:
        """Tokens of a prompt that the engine reads while a keystroke waits; None where it is unknown, as
        of a server that tells nothing."""
        rate = self.tokens_per_s
        return None if rate is None else max(MIN_NEW_TOKENS, int(rate * FIRST_TOKEN_S))

    @property
    def stable_tokens(self) -> int:
        """Tokens of other files' text that a prompt may begin with; 0 before anything was measured."""
        rate = self.tokens_per_s
        return 0 if rate is None else min(MAX_STABLE_TOKENS, int(rate * STABLE_S))

"""How many tokens a step may have: as many as the machine computes while a keystroke may wait."""

STEP_S = 0.15
"""What a step is to take at most. A keystroke waits for the one under way."""


class Pace:
    """Learns from the steps. The number that it gives at most doubles or halves from one to the next."""

    def __init__(
        self, first: int, *, learns: bool = True, least: int = 16, most: int = 8192
    ) -> None:
        """`first`: tokens of a step before anything is known; of all steps where it does not learn."""
        self.num_tokens = first
        self._learns = learns
        self._least = least
        self._most = most

    def observe(self, num_tokens: int, seconds: float) -> None:
        """What a step of so many tokens took."""
        if not self._learns or 2 * num_tokens < self.num_tokens:
            return  # A small step says little: its time is that of reading the weights.
        fitting = int(num_tokens * STEP_S / max(seconds, 1e-6))
        bounded = min(max(fitting, self.num_tokens // 2), 2 * self.num_tokens)
        self.num_tokens = min(max(bounded, self._least), self._most)

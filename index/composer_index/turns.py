"""Who goes first where two cores and one interpreter are shared: questions, then indexing."""

import threading
import time
from collections.abc import Generator
from contextlib import contextmanager

MAX_WAIT_S = 3.0
"""How far indexing falls behind, at most. Questions without a pause get half of the time then."""


class Turns:
    """Safe to use from several threads; one of them indexes."""

    def __init__(self, max_wait_s: float = MAX_WAIT_S) -> None:
        self._max_wait_s = max_wait_s
        self._answered = threading.Condition()
        self._num_asking = 0
        self._behind_s = 0.0
        """How long indexing waited, less how long it worked since."""
        self._resumed_at = time.monotonic()

    @contextmanager
    def asking(self) -> Generator[None]:
        """While a question waits or is being answered."""
        with self._answered:
            self._num_asking += 1
        try:
            yield
        finally:
            with self._answered:
                self._num_asking -= 1
                self._answered.notify_all()

    def give_way(self) -> None:
        """Returns when nobody asks. For the thread that indexes, between two small pieces of work."""
        with self._answered:
            if not self._num_asking:
                return
            paused_at = time.monotonic()
            worked_s = paused_at - self._resumed_at
            self._behind_s = max(0.0, self._behind_s - worked_s)
            self._answered.wait_for(
                lambda: not self._num_asking, timeout=self._max_wait_s - self._behind_s
            )
            self._resumed_at = time.monotonic()
            self._behind_s = min(self._max_wait_s, self._behind_s + self._resumed_at - paused_at)

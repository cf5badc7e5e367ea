"""Which files somebody works with, by what the worker sees of it."""

import threading
from collections import Counter
from collections.abc import Iterable

MAX_NUM_PATHS = 1000

OPENED = 4
"""An editor shows it, or showed it with every pause in typing."""
CHANGED = 2
"""Something wrote it."""
FOUND = 1
"""A search gave it as a result."""


class Visits:
    """Counts, in this process alone: after a restart it begins anew, and what git says of recent
    commits decides until then. When there are too many files all counts are halved, so that what is
    long past is forgotten. Safe to use from several threads."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()
        self._lock = threading.Lock()

    def add(self, paths: Iterable[str], weight: int) -> None:
        """Each of `paths` was visited once; `weight` is one of the constants above."""
        with self._lock:
            for path in paths:
                self._counts[path] += weight
                if len(self._counts) > MAX_NUM_PATHS:
                    halved = {path: count // 2 for path, count in self._counts.most_common()}
                    most = list(halved.items())[: MAX_NUM_PATHS // 2]
                    self._counts = Counter({path: count for path, count in most if count})

    def most(self) -> list[str]:
        """The files, the most visited first; of equals, the one that was there first."""
        with self._lock:
            return [path for path, _ in self._counts.most_common()]

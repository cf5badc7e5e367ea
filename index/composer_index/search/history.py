"""Which files are edited together, by git's history."""

import logging
import threading
import time
from collections import defaultdict

from composer_index.ignores import git

logger = logging.getLogger(__name__)

_NUM_COMMITS = 1000
_MAX_FILES = 30
"""Of a commit: a larger one (a rename, a release) ties nothing together."""
_TIMEOUT_S = 10.0
_FRESH_S = 300.0


class History:
    """Reads the log when it is first asked, in a thread of its own, and again after a while; until
    then it knows nothing. Bounded: the last commits only. Never writes to the repository."""

    def __init__(self, root: str) -> None:
        self._root = root
        self._commits: list[tuple[str, ...]] = []
        self._until = 0.0
        self._reading: threading.Thread | None = None
        self._lock = threading.Lock()

    def together(self, path: str, limit: int) -> list[str]:
        """Returns the files that most often changed in one commit with `path`; small commits count
        more."""
        self._refresh()
        ties: defaultdict[str, float] = defaultdict(float)
        for paths in self._commits:
            if path in paths:
                for other in paths:
                    ties[other] += 1 / len(paths)
        ties.pop(path, None)
        return sorted(ties, key=lambda other: (-ties[other], other))[:limit]

    def wait(self) -> None:
        """Until what is known is fresh."""
        self._refresh()
        if self._reading is not None:
            self._reading.join()

    def _refresh(self) -> None:
        with self._lock:
            if time.monotonic() < self._until:
                return
            self._until = time.monotonic() + _FRESH_S
            self._reading = threading.Thread(target=self._read, name="history", daemon=True)
            self._reading.start()

    def _read(self) -> None:
        arguments = ("--name-only", "-z", "--format=%x01", "--relative", "--no-renames")
        command = ("log", f"--max-count={_NUM_COMMITS}", "--no-merges", "--no-ext-diff", *arguments)
        try:
            told = git.output(self._root, *command, timeout_s=_TIMEOUT_S)
        except git.GitError as error:
            logger.info("no history: %s", error)
            return
        self._commits = _small_commits(told)


def _small_commits(told: bytes) -> list[tuple[str, ...]]:
    commits: list[tuple[str, ...]] = []
    for commit in told.split(b"\x01"):
        names = [name.lstrip(b"\n") for name in commit.split(b"\0")]
        paths = tuple(name.decode("utf-8", "surrogateescape") for name in names if name)
        if 1 < len(paths) <= _MAX_FILES:
            commits.append(paths)
    return commits

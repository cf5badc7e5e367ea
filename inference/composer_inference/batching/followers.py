"""The processes that compute a model's other parts along, step by step.

The first rank decides what is computed and tells the others by a pipe each; they send nothing back but
what they were asked. Whatever fails in a step leaves the ranks at different sums, so that none of them
can go on: all are ended, and the model has to be loaded anew.
"""

import multiprocessing
import shutil
import tempfile
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from pathlib import Path
from typing import Any

from composer_inference.backends.base import BackendError, BackendLostError
from composer_inference.decoder.batch import Span

END_S = 10.0
"""In which a process ends by itself, or is killed."""
NOTICE_S = 1.0
"""In which one that has ended is noticed."""


class FollowersError(BackendLostError):
    """A process of the model's has failed or ended."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Loaded:
    """What a rank says when it has its part."""

    num_blocks: int
    """Of the cache, that it has memory for."""
    weights_bytes: int


@dataclass(frozen=True, slots=True)
class Begin:
    """Make a cache of so many blocks, and connect."""

    num_blocks: int


@dataclass(frozen=True, slots=True)
class Compute:
    spans: tuple[Span, ...]
    """Without logits."""


@dataclass(frozen=True, slots=True)
class Reload:
    path: Path


@dataclass(frozen=True, slots=True)
class Failed:
    message: str


Follow = Callable[[Any, int, Path, Connection], None]
"""A follower's whole life: the configuration, its rank, where the ranks meet, and its pipe."""


class Followers:
    """Used by one thread at a time."""

    def __init__(self, follow: Follow, config: Any, *, num_ranks: int) -> None:
        """Starts a process for each rank but the first. `follow` and `config` are pickled."""
        self._folder = Path(tempfile.mkdtemp(prefix="composer-ranks-"))
        self._failure: FollowersError | None = None
        self._pipes: list[Connection] = []
        self._processes: list[SpawnProcess] = []
        context = multiprocessing.get_context("spawn")
        for rank in range(1, num_ranks):
            ours, theirs = context.Pipe()
            args = (config, rank, self.meeting_point, theirs)
            process = context.Process(target=follow, args=args, daemon=True, name=f"rank {rank}")
            process.start()
            theirs.close()  # So that its end is noticed.
            self._pipes.append(ours)
            self._processes.append(process)

    @property
    def meeting_point(self) -> Path:
        """For `RankGroup`."""
        return self._folder / "ranks"

    def loaded(self) -> list[Loaded]:
        """Waits until all have their parts. Raises: FollowersError."""
        replies = self._receive()
        for process, reply in zip(self._processes, replies, strict=True):
            if isinstance(reply, Failed):
                raise self._fail(f"{process.name}: {reply.message}")
        return replies

    def begin(self, num_blocks: int) -> None:
        """Raises: FollowersError."""
        self._send(Begin(num_blocks))

    @contextmanager
    def computing(self, spans: Sequence[Span]) -> Generator[None]:
        """Around the first rank's part of a step. Raises: FollowersError."""
        self._send(Compute(tuple(replace(span, num_logits=0) for span in spans)))
        try:
            yield
        except (RuntimeError, MemoryError) as error:
            raise self._fail(f"a step failed: {error}") from error

    @contextmanager
    def reloading(self, path: Path) -> Generator[None]:
        """Around the first rank's loading of other weights. Raises: FollowersError where some have them
        and others not; what the first raises, where all have refused them."""
        self._send(Reload(path))
        try:
            yield
        except BackendError:
            if all(isinstance(reply, Failed) for reply in self._receive()):
                raise
            raise self._fail(f"only some ranks could load {path}") from None
        for reply in self._receive():
            if isinstance(reply, Failed):
                raise self._fail(f"only some ranks could load {path}: {reply.message}")

    def kill(self) -> None:
        """`close`, without waiting for what they are doing."""
        for process in self._processes:
            process.kill()
        self.close()

    def close(self) -> None:
        """Ends the processes. Idempotent."""
        for pipe in self._pipes:
            pipe.close()
        for process in self._processes:
            process.join(END_S)
            if process.is_alive():
                process.kill()
                process.join()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _send(self, message: Begin | Compute | Reload) -> None:
        if self._failure is not None:
            raise self._failure
        for pipe in self._pipes:
            try:
                pipe.send(message)
            except OSError as error:
                raise self._fail("a process has ended") from error

    def _receive(self) -> list[Any]:
        replies: list[Any] = []
        for pipe in self._pipes:
            try:
                replies.append(pipe.recv())
            except (EOFError, OSError) as error:
                raise self._fail("a process has ended") from error
        return replies

    def _fail(self, why: str) -> FollowersError:
        """Ends all, since they may wait for each other."""
        # Its connection breaks before it can be seen to have ended.
        sentinels = wait([process.sentinel for process in self._processes], NOTICE_S)
        ended = [process for process in self._processes if process.sentinel in sentinels]
        for process in ended:
            process.join()
        told = [f"{process.name} ended with {process.exitcode}" for process in ended]
        self.kill()
        self._failure = FollowersError("; ".join([why, *told]))
        return self._failure

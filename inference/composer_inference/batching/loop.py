"""The thread that computes: it takes sequences in, steps until all have ended, and gives chunks out.

Everything that touches the model, the cache or a sequence happens in this one thread, between two steps
or in one. Others hand over what they want: a sequence, its cancellation, an action.
"""

import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, Generic, TypeVar

from composer_inference.backends.base import BackendError, BackendLostError
from composer_inference.batching.batcher import Batcher, Work
from composer_inference.batching.pace import Pace
from composer_inference.batching.sequence import Sequence
from composer_inference.batching.step import Stepper

logger = logging.getLogger(__name__)

T = TypeVar("T")


class LoopClosedError(BackendLostError):
    """The thread has ended."""


class _Action(Generic[T]):
    """What somebody wants done between two steps."""

    def __init__(self, action: Callable[[], T]) -> None:
        self._action = action
        self.future: Future[T] = Future()

    def run(self) -> None:
        """Raises: BackendLostError, after which nothing can be computed."""
        if not self.future.set_running_or_notify_cancel():
            return  # Whoever wanted it has gone.
        try:
            self.future.set_result(self._action())
        except BackendLostError as error:
            self.future.set_exception(error)
            raise  # Those who wait are told as well.
        except Exception as error:  # Carried over to whoever waits for it.
            self.future.set_exception(error)

    def refuse(self, error: Exception) -> None:
        if self.future.set_running_or_notify_cancel():
            self.future.set_exception(error)


class DecodeLoop:
    """Starts with the constructor, ends with `close`."""

    def __init__(self, stepper: Stepper, batcher: Batcher, pace: Pace) -> None:
        self._stepper = stepper
        self._batcher = batcher
        self._pace = pace
        self._changed = threading.Condition()
        self._arrived: deque[Sequence] = deque()
        self._actions: deque[_Action[Any]] = deque()
        self._is_closed = False
        self._thread = threading.Thread(target=self._run, name="decode", daemon=True)
        self._thread.start()

    @property
    def num_running(self) -> int:
        return len(self._batcher.running)

    @property
    def num_waiting(self) -> int:
        return len(self._arrived) + self._batcher.num_waiting

    def submit(self, sequence: Sequence) -> None:
        """Raises: LoopClosedError."""
        with self._changed:
            if self._is_closed:
                raise LoopClosedError("the model is being freed")
            self._arrived.append(sequence)
            self._changed.notify()

    def cancel(self, sequence: Sequence) -> None:
        """Nothing more is delivered after the step under way, and its memory is free then."""
        with self._changed:
            sequence.is_cancelled = True
            self._changed.notify()

    def when_idle(self, action: Callable[[], T]) -> "Future[T]":
        """Runs `action` in the loop's thread once what runs has ended; what waits goes on after it.
        Raises: LoopClosedError."""
        wanted: _Action[T] = _Action(action)
        with self._changed:
            if self._is_closed:
                raise LoopClosedError("the model is being freed")
            self._actions.append(wanted)
            self._changed.notify()
        return wanted.future

    def close(self) -> None:
        """Ends the sequences that are left with LoopClosedError. Returns when the thread has ended."""
        with self._changed:
            self._is_closed = True
            self._changed.notify()
        self._thread.join()

    def _run(self) -> None:
        error = LoopClosedError("the model was freed meanwhile")
        try:
            while self._take_in():
                self._advance()
        except BackendLostError as lost:
            logger.error("the model is lost: %s", lost)
            error = LoopClosedError(str(lost))
        except Exception as failure:  # Nobody above would tell those who wait.
            logger.exception("the decoder's thread failed")
            error = LoopClosedError(f"the decoder failed: {failure!r}; the engine's log says where")
        with self._changed:
            self._is_closed = True
        for wanted in self._actions:
            wanted.refuse(error)
        for sequence in (*self._arrived, *self._batcher.sequences):
            self._end(sequence, error)

    def _advance(self) -> None:
        if self._actions and not self._batcher.running:
            self._actions.popleft().run()
            return
        self._batcher.is_admitting = not self._actions
        if works := self._batcher.plan(self._pace.num_tokens):
            self._step(works)

    def _take_in(self) -> bool:
        """Waits while there is nothing to do; False: closed."""
        with self._changed:
            self._changed.wait_for(
                lambda: self._is_closed or self._arrived or self._actions or self._batcher.sequences
            )
            while self._arrived:
                self._batcher.add(self._arrived.popleft())
        for sequence in self._batcher.sequences:
            if sequence.is_cancelled:
                self._batcher.remove(sequence)
        return not self._is_closed

    def _step(self, works: list[Work]) -> None:
        began = time.monotonic()
        try:
            chunks = self._stepper.run(works)
        except (RuntimeError, MemoryError) as error:
            # The step's sequences are lost, not the process: others may want less.
            logger.exception("a step failed")
            for work in works:
                self._end(work.sequence, BackendError(f"the model failed: {error}"))
            return
        num_tokens = sum(work.num_tokens + len(work.draft) for work in works)
        self._pace.observe(num_tokens, time.monotonic() - began)
        for work, chunk in zip(works, chunks, strict=True):
            if isinstance(chunk, BackendError):
                self._end(work.sequence, chunk)
            elif not work.sequence.is_cancelled:
                work.sequence.deliver(chunk)
                if chunk.finish_reason is not None:
                    self._batcher.remove(work.sequence)

    def _end(self, sequence: Sequence, error: BackendError) -> None:
        self._batcher.remove(sequence)
        if not sequence.is_cancelled:
            sequence.deliver(error)

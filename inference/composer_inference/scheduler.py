"""Who may compute: one request at a time on this machine, keystrokes first.

Two generations at once share the machine's arithmetic and each takes about twice its time, so a
request waits for its turn, and one of a higher priority takes the turn over: the running one is
stopped at once (the backend ends the token or the slice of prefill that it is computing), waits,
and goes on from the prompt cache where it was. Its reader sees one unbroken stream.

A request that cannot be stopped and resumed (its text is constrained by a grammar, or the backend
lacks the capability) keeps running beside the higher one. Work in steps (embedding and ranking, a
text each) runs beside it to the end of the step. Requests of one priority take turns of
`QUANTUM_S`, but for tab requests, which are short.
"""

import asyncio
import time
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterable
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from itertools import count
from typing import TypeVar

from composer_inference.backends.base import (
    Backend,
    Capability,
    FinishReason,
    GenerateChunk,
    GenerateRequest,
    Timings,
)
from composer_inference.priority import Priority

T = TypeVar("T")

QUANTUM_S = 2.0


@dataclass(eq=False, slots=True)
class _Ticket:
    priority: Priority
    can_yield: bool
    """Whether its work can be stopped and resumed at all."""
    admitted: asyncio.Event = field(default_factory=asyncio.Event)
    order: int = 0
    started_at: float = 0.0
    yields: bool = False
    """Whether it can be stopped now."""
    outranked: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when something more urgent waits for its turn."""


class Scheduler:
    """Shared by all models of the process. Not thread-safe: one event loop."""

    def __init__(self) -> None:
        self._waiting: list[_Ticket] = []
        self._running: list[_Ticket] = []
        self._order = count()

    @property
    def num_waiting(self) -> int:
        return len(self._waiting)

    @property
    def num_running(self) -> int:
        return len(self._running)

    async def in_turns(
        self, priority: Priority, steps: Iterable[Callable[[], Awaitable[T]]]
    ) -> list[T]:
        """The results of the steps, taken in order, each of them short. Between two of them the
        turn goes to whatever is more urgent, or has waited for as long as a turn lasts.

        Raises: what a step raises.
        """
        ticket = _Ticket(priority, can_yield=False)
        results: list[T] = []
        left = deque(steps)
        while left:
            await self._acquire(ticket)
            try:
                while left:
                    results.append(await left.popleft()())
                    if self._runs_beside_urgent(ticket) or self._has_used_quantum(ticket):
                        break
            finally:
                self._release(ticket)
        return results

    async def generate(
        self, backend: Backend, request: GenerateRequest, priority: Priority
    ) -> AsyncGenerator[GenerateChunk, None]:
        """`backend.generate` in turns. Closing the iterator frees the machine at once.

        A slow reader does not hold the turn: chunks are queued for it (at most `max_tokens`).
        Raises: what the backend raises.
        """
        chunks: asyncio.Queue[GenerateChunk | Exception] = asyncio.Queue()
        task = asyncio.create_task(self._drive(backend, request, priority, chunks))
        try:
            while True:
                chunk = await chunks.get()
                if isinstance(chunk, Exception):
                    raise chunk
                yield chunk
                if chunk.finish_reason is not None:
                    return
        finally:
            task.cancel()
            await asyncio.wait([task])

    async def _drive(
        self,
        backend: Backend,
        request: GenerateRequest,
        priority: Priority,
        chunks: "asyncio.Queue[GenerateChunk | Exception]",
    ) -> None:
        ticket = _Ticket(priority, can_yield=Capability.STEPWISE_PREEMPTION in backend.capabilities)
        progress = _Progress(request)
        try:
            while not progress.finished:
                waited_from = time.monotonic()
                await self._acquire(ticket)
                progress.waited(time.monotonic() - waited_from)
                try:
                    await self._run_turn(backend, progress, ticket, chunks)
                finally:
                    self._release(ticket)
        except Exception as error:  # Carried over to the reader's task, which raises it.
            chunks.put_nowait(error)

    async def _run_turn(
        self,
        backend: Backend,
        progress: "_Progress",
        ticket: _Ticket,
        chunks: "asyncio.Queue[GenerateChunk | Exception]",
    ) -> None:
        stream = backend.generate(progress.remaining())
        async with aclosing(stream) as parts:
            while (part := await _next_unless(ticket.outranked, parts)) is not None:
                chunks.put_nowait(progress.add(part))
                if progress.finished:
                    return
                self._set_yields(ticket, ticket.can_yield and part.resumable)
                if self._turn_is_over(ticket):
                    break
        progress.preempted()

    async def _acquire(self, ticket: _Ticket) -> None:
        ticket.admitted.clear()
        ticket.outranked.clear()
        # A pre-empted ticket goes behind those of its own priority, not to the front.
        ticket.order = next(self._order)
        self._waiting.append(ticket)
        self._admit()
        try:
            await ticket.admitted.wait()
        except asyncio.CancelledError:
            if ticket in self._waiting:
                self._waiting.remove(ticket)
            else:
                self._release(ticket)
            raise

    def _release(self, ticket: _Ticket) -> None:
        self._running.remove(ticket)
        self._admit()

    def _admit(self) -> None:
        while (best := self._next_waiting()) is not None and self._may_start(best):
            self._waiting.remove(best)
            self._running.append(best)
            best.started_at = time.monotonic()
            best.yields = best.can_yield  # Until a chunk says otherwise: prefill may always stop.
            best.admitted.set()
        for running in self._running:
            if best is not None and running.yields and running.priority < best.priority:
                running.outranked.set()

    def _next_waiting(self) -> _Ticket | None:
        return min(self._waiting, key=lambda t: (-t.priority, t.order), default=None)

    def _may_start(self, ticket: _Ticket) -> bool:
        # Beside what cannot give way, but never beside an equal, and not before what can.
        return all(
            running.priority < ticket.priority and not running.yields for running in self._running
        )

    def _set_yields(self, ticket: _Ticket, yields: bool) -> None:
        if yields != ticket.yields:
            ticket.yields = yields
            if not yields:  # It was outranked while it could be stopped; now it runs beside.
                ticket.outranked.clear()
            self._admit()

    def _turn_is_over(self, ticket: _Ticket) -> bool:
        return ticket.yields and self._has_used_quantum(ticket)

    def _runs_beside_urgent(self, ticket: _Ticket) -> bool:
        return any(running.priority > ticket.priority for running in self._running)

    def _has_used_quantum(self, ticket: _Ticket) -> bool:
        """Whether an equal waits, and this one has had its time."""
        best = self._next_waiting()
        if best is None or best.priority != ticket.priority:
            return False
        used_s = time.monotonic() - ticket.started_at
        return ticket.priority < Priority.TAB and used_s >= QUANTUM_S


async def _next_unless(
    event: asyncio.Event, chunks: AsyncIterator[GenerateChunk]
) -> GenerateChunk | None:
    """The next chunk; None as soon as the event is set, the one being computed then given up."""
    if event.is_set():
        return None
    chunk = asyncio.ensure_future(anext(chunks))
    waiter = asyncio.ensure_future(event.wait())
    try:
        await asyncio.wait([chunk, waiter], return_when=asyncio.FIRST_COMPLETED)
        return chunk.result() if chunk.done() else None
    finally:
        waiter.cancel()
        chunk.cancel()
        await asyncio.wait([chunk])


class _Progress:
    """A request across its turns: what was decoded, what remains, where the time went."""

    def __init__(self, request: GenerateRequest) -> None:
        self._request = request
        self._token_ids: list[int] = []
        self._finish_reason: FinishReason | None = None
        self._done = Timings()  # Of the turns before this one.
        self._turn = Timings()
        self._turn_started = self._first_token = 0.0

    @property
    def finished(self) -> bool:
        return self._finish_reason is not None

    def remaining(self) -> GenerateRequest:
        """The request that goes on from here."""
        self._turn = Timings()
        self._turn_started = time.monotonic()
        self._first_token = 0.0
        if not self._token_ids:
            return self._request
        sampling = self._request.sampling
        return replace(
            self._request,
            prompt=(*self._request.prompt, *self._token_ids),
            sampling=replace(sampling, max_tokens=sampling.max_tokens - len(self._token_ids)),
        )

    def waited(self, seconds: float) -> None:
        self._done = replace(self._done, queue_ms=self._done.queue_ms + 1000 * seconds)

    def add(self, chunk: GenerateChunk) -> GenerateChunk:
        """The chunk as the reader sees it: with the timings of the whole request."""
        if chunk.token_ids and not self._first_token:
            self._first_token = time.monotonic()
        self._token_ids.extend(chunk.token_ids)
        self._finish_reason = chunk.finish_reason
        self._turn = self._measured(chunk.timings)
        return replace(chunk, timings=self._total)

    def preempted(self) -> None:
        self._done = replace(self._total, num_preemptions=self._done.num_preemptions + 1)

    @property
    def _total(self) -> Timings:
        # Tokens found in the cache are those of the first turn: later ones find what was computed here.
        first = self._turn if self._done.num_preemptions == 0 else self._done
        return replace(self._done + self._turn, num_cached_tokens=first.num_cached_tokens)

    def _measured(self, timings: Timings) -> Timings:
        if timings.prefill_ms or timings.decode_ms:
            return timings
        # A backend times a call when it ends; a pre-empted one never does.
        now = time.monotonic()
        first_token = self._first_token or now
        return replace(
            timings,
            prefill_ms=1000 * (first_token - self._turn_started),
            decode_ms=1000 * (now - first_token),
        )

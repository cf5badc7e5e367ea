"""The scheduler over a backend whose every step the test releases by hand."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing
from dataclasses import dataclass, field
from functools import partial

import pytest

from composer_inference import scheduler as scheduler_module
from composer_inference.backends.base import (
    BackendError,
    Capability,
    GenerateChunk,
    GenerateRequest,
    SamplingParams,
)
from composer_inference.priority import Priority
from composer_inference.scheduler import Scheduler

LIMIT_S = 30


@dataclass
class StepBackend:
    """Decodes the token 100 + n at its n-th step; each step waits for the test's permission."""

    can_resume: bool = True
    resumable: bool = True
    fail_at: int | None = None
    steps: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(0))
    requests: list[GenerateRequest] = field(default_factory=list)
    num_open: int = 0

    @property
    def capabilities(self) -> frozenset[Capability]:
        return frozenset({Capability.STEPWISE_PREEMPTION} if self.can_resume else ())

    async def generate(self, request: GenerateRequest) -> AsyncIterator[GenerateChunk]:
        self.requests.append(request)
        self.num_open += 1
        done = sum(isinstance(piece, int) for piece in request.prompt)
        try:
            for step in range(done, done + request.sampling.max_tokens):
                await self.steps.acquire()
                if step == self.fail_at:
                    raise BackendError("out of luck")
                yield GenerateChunk(
                    text=f"{step} ", token_ids=(100 + step,), resumable=self.resumable
                )
            yield GenerateChunk(finish_reason="length")
        finally:
            self.num_open -= 1


def request(name: str, max_tokens: int = 4) -> GenerateRequest:
    return GenerateRequest(prompt=(name,), sampling=SamplingParams(max_tokens=max_tokens))


class Reader:
    """Reads a stream in the background and keeps what came."""

    def __init__(self, scheduler: Scheduler, backend, request: GenerateRequest, priority) -> None:
        self.chunks: list[GenerateChunk] = []
        self._stream = scheduler.generate(backend, request, priority)
        self.task = asyncio.create_task(self._read())

    async def _read(self) -> None:
        async with aclosing(self._stream) as chunks:
            async for chunk in chunks:
                self.chunks.append(chunk)

    @property
    def text(self) -> str:
        return "".join(chunk.text for chunk in self.chunks)


class Steps:
    """Steps that tell their number when the test permits it."""

    def __init__(self, num_steps: int) -> None:
        self.permits = asyncio.Semaphore(0)
        self.begun: list[int] = []
        self.steps = [partial(self._step, number) for number in range(num_steps)]

    async def _step(self, number: int) -> int:
        self.begun.append(number)
        await self.permits.acquire()
        return number


async def until(condition) -> None:
    async with asyncio.timeout(LIMIT_S):
        while not condition():
            await asyncio.sleep(0)


async def test_a_keystroke_takes_the_turn_and_the_agent_goes_on_where_it_was():
    scheduler, slow, quick = Scheduler(), StepBackend(), StepBackend()
    agent = Reader(scheduler, slow, request("agent"), Priority.AGENT)
    slow.steps.release()
    await until(lambda: agent.text == "0 ")
    tab = Reader(scheduler, quick, request("tab", 2), Priority.TAB)
    await until(lambda: scheduler.num_waiting == 1)
    slow.steps.release()  # The step under way ends, and the agent gives its turn up.
    await until(lambda: scheduler.num_running == 1 and len(quick.requests) == 1)
    assert slow.num_open == 0
    for _ in range(2):
        quick.steps.release()
    await until(tab.task.done)
    assert tab.text == "0 1 "
    for _ in range(2):
        slow.steps.release()
    await until(agent.task.done)
    assert agent.text == "0 1 2 3 "
    resumed = slow.requests[1]
    assert resumed.prompt == ("agent", 100, 101)
    assert resumed.sampling.max_tokens == 2
    assert agent.chunks[-1].timings.num_preemptions == 1
    assert tab.chunks[-1].timings.num_preemptions == 0


@pytest.mark.parametrize(
    ("can_resume", "resumable"),
    [
        pytest.param(False, True, id="backend-cannot"),
        pytest.param(True, False, id="constrained-text"),
    ],
)
async def test_what_cannot_be_resumed_runs_beside_the_keystroke(can_resume: bool, resumable: bool):
    scheduler, quick = Scheduler(), StepBackend()
    slow = StepBackend(can_resume=can_resume, resumable=resumable)
    agent = Reader(scheduler, slow, request("agent", 2), Priority.AGENT)
    slow.steps.release()
    await until(lambda: agent.text == "0 ")
    tab = Reader(scheduler, quick, request("tab", 1), Priority.TAB)
    quick.steps.release()
    await until(tab.task.done)
    assert tab.text == "0 "
    slow.steps.release()
    await until(agent.task.done)
    assert agent.text == "0 1 "
    assert len(slow.requests) == 1


async def test_one_priority_is_served_in_order_of_arrival():
    scheduler, backend = Scheduler(), StepBackend()
    readers = [
        Reader(scheduler, backend, request(name, 1), Priority.TAB) for name in ("a", "b", "c")
    ]
    for _ in readers:
        backend.steps.release()
    await until(lambda: all(reader.task.done() for reader in readers))
    assert [done.prompt for done in backend.requests] == [("a",), ("b",), ("c",)]


async def test_agents_of_two_windows_take_turns(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(scheduler_module, "QUANTUM_S", 0.0)
    scheduler, backend = Scheduler(), StepBackend()
    readers = [Reader(scheduler, backend, request(name, 2), Priority.AGENT) for name in ("a", "b")]
    await until(lambda: scheduler.num_waiting == 1)
    for _ in range(4):
        backend.steps.release()
    await until(lambda: all(reader.task.done() for reader in readers))
    assert [done.prompt for done in backend.requests][:4] == [
        ("a",),
        ("b",),
        ("a", 100),
        ("b", 100),
    ]
    assert [reader.text for reader in readers] == ["0 1 ", "0 1 "]


@pytest.mark.parametrize("num_steps", [0, 1], ids=["before-the-first-token", "while-decoding"])
async def test_closing_the_stream_frees_the_machine(num_steps: int):
    scheduler, backend = Scheduler(), StepBackend()
    reader = Reader(scheduler, backend, request("gone"), Priority.AGENT)
    for _ in range(num_steps):
        backend.steps.release()
    await until(lambda: backend.num_open == 1 and len(reader.chunks) == num_steps)
    reader.task.cancel()
    await asyncio.wait([reader.task])
    assert backend.num_open == 0
    assert scheduler.num_running == scheduler.num_waiting == 0


async def test_cancelling_a_waiting_request_leaves_the_queue_whole():
    scheduler, backend = Scheduler(), StepBackend()
    running = Reader(scheduler, backend, request("a", 1), Priority.TAB)
    waiting = Reader(scheduler, backend, request("b", 1), Priority.TAB)
    last = Reader(scheduler, backend, request("c", 1), Priority.TAB)
    await until(lambda: scheduler.num_waiting == 2)
    waiting.task.cancel()
    await asyncio.wait([waiting.task])
    for _ in range(2):
        backend.steps.release()
    await until(lambda: running.task.done() and last.task.done())
    assert [done.prompt for done in backend.requests] == [("a",), ("c",)]


async def test_a_failure_reaches_the_reader_and_frees_the_machine():
    scheduler, backend = Scheduler(), StepBackend(fail_at=1)
    reader = Reader(scheduler, backend, request("a"), Priority.AGENT)
    for _ in range(2):
        backend.steps.release()
    with pytest.raises(BackendError, match="out of luck"):
        await asyncio.wait_for(reader.task, LIMIT_S)
    assert reader.text == "0 "
    assert scheduler.num_running == 0


async def test_an_embedding_waits_for_the_keystroke_and_keeps_its_turn():
    scheduler, backend = Scheduler(), StepBackend()
    tab = Reader(scheduler, backend, request("tab", 1), Priority.TAB)
    await until(lambda: backend.num_open == 1)
    work = Steps(2)
    work.permits.release()
    embedding = asyncio.create_task(scheduler.in_turns(Priority.BACKGROUND, work.steps))
    await until(lambda: scheduler.num_waiting == 1)
    assert work.begun == []
    backend.steps.release()
    await until(tab.task.done)
    work.permits.release()
    assert await asyncio.wait_for(embedding, LIMIT_S) == [0, 1]
    assert scheduler.num_running == scheduler.num_waiting == 0


@pytest.mark.parametrize("urgent", [Priority.AGENT, Priority.TAB])
async def test_a_generation_runs_beside_one_step_and_before_the_next(urgent: Priority):
    scheduler, backend, work = Scheduler(), StepBackend(), Steps(2)
    embedding = asyncio.create_task(scheduler.in_turns(Priority.BACKGROUND, work.steps))
    await until(lambda: work.begun == [0])
    reader = Reader(scheduler, backend, request("urgent", 2), urgent)
    backend.steps.release()
    await until(lambda: reader.text == "0 ")  # While the first step is still under way.
    for _ in range(2):
        work.permits.release()
    await until(lambda: scheduler.num_waiting == 1)
    assert work.begun == [0]
    backend.steps.release()
    await until(reader.task.done)
    assert await asyncio.wait_for(embedding, LIMIT_S) == [0, 1]


async def test_steps_keep_their_turn_from_an_equal_until_their_time_is_over(
    monkeypatch: pytest.MonkeyPatch,
):
    scheduler, backend, work = Scheduler(), StepBackend(), Steps(4)
    ranking = asyncio.create_task(scheduler.in_turns(Priority.AGENT, work.steps))
    await until(lambda: work.begun == [0])
    reader = Reader(scheduler, backend, request("agent", 1), Priority.AGENT)
    await until(lambda: scheduler.num_waiting == 1)
    work.permits.release()
    await until(lambda: work.begun == [0, 1])
    assert backend.num_open == 0
    monkeypatch.setattr(scheduler_module, "QUANTUM_S", 0.0)
    for _ in range(3):
        work.permits.release()
    await until(lambda: backend.num_open == 1)
    assert work.begun == [0, 1]
    backend.steps.release()
    await until(reader.task.done)
    assert await asyncio.wait_for(ranking, LIMIT_S) == [0, 1, 2, 3]


async def test_work_that_nobody_waits_for_begins_no_further_step():
    scheduler, work = Scheduler(), Steps(3)
    embedding = asyncio.create_task(scheduler.in_turns(Priority.BACKGROUND, work.steps))
    await until(lambda: work.begun == [0])
    embedding.cancel()
    for _ in range(3):
        work.permits.release()
    await asyncio.wait([embedding])
    assert work.begun == [0]
    assert scheduler.num_running == scheduler.num_waiting == 0


async def test_a_step_that_fails_frees_the_machine():
    scheduler = Scheduler()

    async def fail() -> int:
        raise BackendError("out of luck")

    with pytest.raises(BackendError, match="out of luck"):
        await scheduler.in_turns(Priority.AGENT, [fail])
    assert scheduler.num_running == scheduler.num_waiting == 0


class ConstrainedBackend(StepBackend):
    """May be stopped during prefill, and no more once it has decoded."""

    async def generate(self, request: GenerateRequest) -> AsyncIterator[GenerateChunk]:
        yield GenerateChunk(resumable=True)
        async for chunk in super().generate(request):
            yield chunk


async def test_what_has_become_unstoppable_is_not_stopped_by_an_earlier_call():
    scheduler, quick = Scheduler(), StepBackend()
    slow = ConstrainedBackend(resumable=False)
    agent = Reader(scheduler, slow, request("agent", 2), Priority.AGENT)
    await until(lambda: slow.num_open == 1)
    # The first token and the keystroke come at the same moment.
    slow.steps.release()
    tab = Reader(scheduler, quick, request("tab", 1), Priority.TAB)
    quick.steps.release()
    await until(tab.task.done)
    slow.steps.release()
    await until(agent.task.done)
    assert agent.text == "0 1 "
    assert [done.prompt for done in slow.requests] in ([("agent",)], [("agent",), ("agent",)])

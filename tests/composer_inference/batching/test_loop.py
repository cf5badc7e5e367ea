"""The thread: what comes in, what goes out, and what happens when something fails."""

import threading
from collections.abc import Iterator

import pytest

from composer_inference.backends.base import BackendError, GenerateChunk
from composer_inference.batching.loop import DecodeLoop, LoopClosedError
from composer_inference.decoder.model import Decoder
from tests.composer_inference.batching.tiny import (
    Machine,
    Received,
    greedy,
    loop_of,
    sequence_of,
    tiny_decoder,
)

LIMIT_S = 60.0


class Waited(Received):
    """Lets the test wait for the end."""

    def __init__(self) -> None:
        super().__init__()
        self.first = threading.Event()
        self.ended = threading.Event()

    def __call__(self, chunk: GenerateChunk | Exception) -> None:
        super().__call__(chunk)
        self.first.set()
        if self.error is not None or self.is_finished:
            self.ended.set()

    def wait(self) -> "Waited":
        assert self.ended.wait(LIMIT_S)
        return self


@pytest.fixture
def machine(decoder: Decoder) -> Machine:
    return Machine.of(decoder)


@pytest.fixture
def loop(machine: Machine) -> Iterator[DecodeLoop]:
    made = loop_of(machine)
    yield made
    made.close()


def test_requests_are_answered_together(decoder: Decoder, loop: DecodeLoop) -> None:
    received = [Waited() for _ in range(6)]
    for number, each in enumerate(received):
        loop.submit(sequence_of([number, 2, 3], each, max_tokens=30))
    for number, each in enumerate(received):
        assert each.wait().token_ids == greedy(decoder, [number, 2, 3], 30)


def test_a_cancelled_one_is_gone_after_the_step(machine: Machine, loop: DecodeLoop) -> None:
    received, other = Waited(), Waited()
    sequence = sequence_of([1, 2, 3], received, max_tokens=400, ignore_eos=True)
    loop.submit(sequence)
    assert received.first.wait(LIMIT_S)
    loop.cancel(sequence)
    loop.submit(sequence_of([4], other))
    other.wait()
    assert not received.is_finished
    assert loop.when_idle(lambda: machine.cache.num_held).result(LIMIT_S) == 0


def test_a_step_that_fails_ends_its_requests_alone(
    machine: Machine, loop: DecodeLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*args: object, **kwargs: object) -> object:
        raise RuntimeError("not enough memory")

    with monkeypatch.context() as patch:
        patch.setattr(machine.stepper, "decoder", fail)
        failed = Waited()
        loop.submit(sequence_of([1, 2], failed))
        failed.wait()
    assert isinstance(failed.error, BackendError)
    assert "not enough memory" in str(failed.error)
    later = Waited()
    loop.submit(sequence_of([1, 2], later))
    assert later.wait().is_finished


def test_a_fault_of_ours_ends_all_that_wait(
    machine: Machine, loop: DecodeLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(max_tokens: int) -> object:
        raise AssertionError("an invariant")

    monkeypatch.setattr(machine.batcher, "plan", fail)
    received = Waited()
    loop.submit(sequence_of([1, 2], received))
    assert "an invariant" in str(received.wait().error)
    with pytest.raises(LoopClosedError):
        loop.submit(sequence_of([1, 2], Waited()))


def test_closing_refuses_what_is_still_wanted(machine: Machine) -> None:
    loop = loop_of(machine)
    received = Waited()
    loop.submit(sequence_of([1, 2], received, max_tokens=400, ignore_eos=True))
    assert received.first.wait(LIMIT_S)
    wanted = loop.when_idle(lambda: 1)
    loop.close()
    with pytest.raises(LoopClosedError):
        wanted.result(LIMIT_S)


def test_closing_ends_what_is_left(machine: Machine) -> None:
    loop = loop_of(machine)
    received = Waited()
    loop.submit(sequence_of([1, 2], received, max_tokens=400, ignore_eos=True))
    assert received.first.wait(LIMIT_S)
    loop.close()
    assert isinstance(received.wait().error, LoopClosedError)
    assert machine.cache.num_held == 0


def test_weights_are_put_in_place_between_requests() -> None:
    decoder = tiny_decoder(1)
    machine = Machine.of(decoder)
    other = tiny_decoder(2)
    loop = loop_of(machine)

    def put_in_place() -> None:
        decoder.load_state_dict(other.state_dict())
        machine.cache.clear()
        machine.stepper.weights_version += 1

    try:
        before, after = Waited(), Waited()
        loop.submit(sequence_of([1, 2, 3, 4, 5], before, max_tokens=100, ignore_eos=True))
        assert before.first.wait(LIMIT_S)
        changed = loop.when_idle(put_in_place)
        loop.submit(sequence_of([1, 2, 3, 4, 5], after, max_tokens=10, ignore_eos=True))
        changed.result(LIMIT_S)
        assert before.wait().token_ids != after.wait().token_ids
        assert {chunk.weights_version for chunk in before.chunks} == {0}
        assert {chunk.weights_version for chunk in after.chunks} == {1}
        assert after.chunks[-1].timings.num_cached_tokens == 0
        assert len(before.token_ids) == 100
    finally:
        loop.close()


def test_an_action_that_nobody_waits_for_any_more(loop: DecodeLoop) -> None:
    running, later = Waited(), Waited()
    loop.submit(sequence_of([1, 2, 3], running, max_tokens=100, ignore_eos=True))
    assert running.first.wait(LIMIT_S)
    done: list[str] = []
    future = loop.when_idle(lambda: done.append("done"))
    assert future.cancel()
    loop.submit(sequence_of([4], later))
    assert later.wait().is_finished
    assert done == []

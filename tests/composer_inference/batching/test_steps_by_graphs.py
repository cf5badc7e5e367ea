"""Whole texts, their decode steps computed with static inputs."""

import random
from collections.abc import Callable

import pytest
import torch

from composer_inference.batching.batcher import Batcher, BatchLimits
from composer_inference.batching.step import Stepper
from composer_inference.decoder.graphs import DecodeGraphs, Outputs, Run
from composer_inference.decoder.model import Decoder
from composer_inference.kv.pool import KVPool
from composer_inference.kv.prefix_cache import PrefixCache
from tests.composer_inference.batching.tiny import (
    BLOCK_SIZE,
    CPU,
    ByteVocabulary,
    Machine,
    Received,
    sequence_of,
    tiny_decoder,
)
from tests.composer_inference.decoder.tiny import MemoryCheckpoint

NUM_BLOCKS = 64


class Replays:
    """In place of CUDA's."""

    def __init__(self) -> None:
        self.num_runs = 0

    def __call__(self, run: Run) -> Callable[[], Outputs]:
        def replay() -> Outputs:
            self.num_runs += 1
            return run()

        return replay


def machine(decoder: Decoder, capture: Replays | None) -> Machine:
    cache = PrefixCache(num_blocks=NUM_BLOCKS, block_size=BLOCK_SIZE)
    pool = KVPool(
        decoder.cache_shapes,
        num_blocks=NUM_BLOCKS,
        block_size=BLOCK_SIZE,
        dtype=torch.float32,
        device=CPU,
    )
    graphs = None if capture is None else DecodeGraphs(decoder, pool, capture)
    stepper = Stepper(decoder, pool, ByteVocabulary(), graphs=graphs)
    limits = BatchLimits(max_sequences=6, decodes_along=True)
    return Machine(decoder, cache, stepper, Batcher(cache, limits), 16)


def texts(computed: Machine) -> list[list[int]]:
    draw = random.Random(5)
    received = [Received() for _ in range(9)]
    for each in received:
        prompt = [draw.randrange(64) for _ in range(draw.randint(1, 30))]
        computed.batcher.add(sequence_of(prompt, each, max_tokens=draw.randint(2, 12)))
    computed.run()
    assert all(each.is_finished for each in received)
    return [each.token_ids for each in received]


def test_texts_are_the_same_as_without() -> None:
    decoder = tiny_decoder().float()
    replays = Replays()
    assert texts(machine(decoder, replays)) == texts(machine(decoder, None))
    assert replays.num_runs > 5


def test_other_weights_drop_graphs_of_moved_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    decoder = tiny_decoder().float()
    computed = machine(decoder, Replays())
    texts(computed)
    graphs = computed.stepper._graphs
    assert graphs is not None and graphs.sizes

    def moves(decoder: Decoder, checkpoint: MemoryCheckpoint) -> None:
        decoder.norm.weight = torch.nn.Parameter(decoder.norm.weight.clone(), requires_grad=False)

    monkeypatch.setattr("composer_inference.batching.step.reload_decoder", moves)
    computed.stepper.reload(MemoryCheckpoint({}, {}), computed.cache)
    assert not graphs.sizes

"""Decode steps with static inputs: the same logits and cache as the plain way. What stands for a graph
here runs the step anew, on the same tensors."""

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

import pytest
import torch
from torch import Tensor

from composer_inference.decoder.batch import Batch, Span
from composer_inference.decoder.graphs import SIZES, DecodeGraphs, Run
from composer_inference.decoder.model import Decoder
from composer_inference.kv.pool import KVPool
from composer_inference.weights.loading import ExpertFormat, load_decoder, reload_decoder
from tests.composer_inference.decoder.test_parity import CASES
from tests.composer_inference.decoder.tiny import (
    CPU,
    VOCAB,
    MemoryCheckpoint,
    make_pool,
    save_reference,
)

NUM_BLOCKS = 64
FAMILIES = {kind: name for name, (kind, _) in reversed(CASES.items())}
"""The first case of each."""


@dataclass
class Captures:
    """In place of CUDA's: counts, and may fail."""

    num_captured: int = 0
    num_runs: int = 0
    fails: bool = False

    def __call__(self, run: Run) -> Run:
        if self.fails:
            raise RuntimeError("operation not permitted when stream is capturing")
        self.num_captured += 1

        def replay():
            self.num_runs += 1
            return run()

        return replay


@dataclass
class Decoding:
    """Sequences, computed once plainly and once by graphs, each with a pool of its own."""

    decoder: Decoder
    graphs: DecodeGraphs
    plain: KVPool
    ours: KVPool
    captures: Captures
    spans: list[Span] = field(default_factory=list)

    @classmethod
    def of(cls, decoder: Decoder) -> "Decoding":
        captures = Captures()
        plain, ours = (make_pool(decoder, num_blocks=NUM_BLOCKS) for _ in range(2))
        graphs = DecodeGraphs(decoder, ours, captures)
        return cls(decoder, graphs, plain, ours, captures)

    def prefill(self, lengths: Sequence[int]) -> None:
        """Blocks in a random order."""
        draw = random.Random(len(lengths))
        free = draw.sample(range(NUM_BLOCKS), NUM_BLOCKS)
        self.spans = []
        for length in lengths:
            blocks = [free.pop() for _ in range(length // 4 + 1)]
            tokens = [draw.randrange(VOCAB) for _ in range(length)]
            self.spans.append(Span(token_ids=tokens, num_cached=0, blocks=blocks))
        for pool in (self.plain, self.ours):
            self.forward(self.spans, pool)
        self.spans = [
            Span(token_ids=[draw.randrange(VOCAB)], num_cached=span.num_tokens, blocks=span.blocks)
            for span in self.spans
        ]

    def forward(
        self, spans: Sequence[Span], pool: KVPool, choices: list[Tensor] | None = None
    ) -> Tensor:
        batch = Batch.of(spans, block_size=4, device=CPU)
        with torch.inference_mode():
            return self.decoder(batch, pool, router_choices=choices)

    def check(self, spans: Sequence[Span]) -> None:
        expected_choices: list[Tensor] = []
        choices: list[Tensor] = []
        expected = self.forward(spans, self.plain, expected_choices)
        assert self.graphs.covers(spans)
        with torch.inference_mode():
            logits = self.graphs.forward(spans, router_choices=choices)
        torch.testing.assert_close(logits, expected, atol=2e-4, rtol=2e-4)
        torch.testing.assert_close(choices, expected_choices, atol=0, rtol=0)
        for layer in range(len(self.decoder.cache_shapes)):
            ours = self.ours.read_slots(layer, slice(None))
            plain = self.plain.read_slots(layer, slice(None))
            torch.testing.assert_close(ours, plain, atol=2e-4, rtol=2e-4)


@pytest.fixture
def checkpoint(tmp_path: Path) -> MemoryCheckpoint:
    return save_reference("llama", tmp_path)[1]


@pytest.fixture
def decoding(checkpoint: MemoryCheckpoint) -> Decoding:
    return Decoding.of(load_decoder(checkpoint, dtype=torch.float32, device=CPU))


@pytest.mark.parametrize("kind", FAMILIES)
def test_each_family(kind: str, tmp_path: Path) -> None:
    _, changes = CASES[FAMILIES[kind]]
    _, checkpoint = save_reference(kind, tmp_path, **changes)
    for experts in ("f32", "mxfp8") if "experts_per_tok" in str(changes) else (None,):
        found: ExpertFormat | None = experts
        decoder = load_decoder(checkpoint, dtype=torch.float32, device=CPU, experts=found)
        decoding = Decoding.of(decoder)
        decoding.prefill((5, 19, 3))
        decoding.check(decoding.spans)
        decoding.check(decoding.spans[1:])
        assert decoding.graphs.sizes == {2, 4}


def test_there_are_ten_families() -> None:
    assert len(FAMILIES) == 10


def test_any_number_of_sequences(decoding: Decoding) -> None:
    decoding.prefill([1 + place % 3 for place in range(NUM_BLOCKS)])
    for num_sequences in (1, 2, 3, 5, 8, 9, 17, 33, 64):
        decoding.check(decoding.spans[:num_sequences])
    assert decoding.graphs.sizes == set(SIZES)
    assert decoding.captures.num_captured == len(SIZES)
    assert decoding.captures.num_runs == 9


def test_step_after_step_on_the_same_graph(decoding: Decoding) -> None:
    """Sequences grow, leave and come, and what is left in the inputs from before is not read."""
    decoding.prefill((30, 2, 9))
    spans = decoding.spans
    for step in range(3):
        decoding.check(spans[: 3 - step])
        spans = [
            Span(token_ids=[step], num_cached=span.num_tokens, blocks=span.blocks)
            for span in spans
            if span.num_tokens % 4
        ]
    decoding.check(decoding.spans[1:])
    assert decoding.captures.num_captured == 3


def test_places_that_are_left_repeat_the_shortest(decoding: Decoding) -> None:
    decoding.prefill((5, 19, 3))
    decoding.check(decoding.spans)
    batch = decoding.graphs._batch(4)
    assert batch.block_table is not None
    assert batch.block_table.num_tokens_B.tolist() == [6, 20, 4, 4]
    assert batch.slots_T[2] == batch.slots_T[3]


def test_a_first_token_with_nothing_cached(decoding: Decoding) -> None:
    decoding.prefill((6,))
    first = Span(token_ids=[7], num_cached=0, blocks=[63 - decoding.spans[0].blocks[0]])
    decoding.check([decoding.spans[0], first])


def test_what_is_not_covered(decoding: Decoding) -> None:
    span = Span(token_ids=[1], num_cached=4, blocks=[0, 1])
    draft = Span(token_ids=[1, 2], num_cached=4, blocks=[0, 1], num_logits=2)
    part = Span(token_ids=[1], num_cached=4, blocks=[0, 1], num_logits=0)
    covers = decoding.graphs.covers
    assert covers([span] * 64)
    for spans in ([], [span] * 65, [span, draft], [span, part]):
        assert not covers(spans)
    # 64 sequences of a pool of 64 blocks that share all but the last, 4 times over and more.
    long = Span(token_ids=[1], num_cached=19, blocks=range(5))
    assert covers([long] * 51) and not covers([long] * 52)


def test_weights_in_place_keep_the_graphs(decoding: Decoding, checkpoint: MemoryCheckpoint) -> None:
    decoding.prefill((5, 3))
    decoding.check(decoding.spans)
    other = {name: tensor * 0.9 for name, tensor in checkpoint.tensors.items()}
    reload_decoder(decoding.decoder, MemoryCheckpoint(checkpoint.config, other))
    decoding.graphs.weights_changed()
    assert decoding.graphs.sizes == {2}
    decoding.prefill((5, 3))
    decoding.check(decoding.spans)


def test_weights_elsewhere_drop_them(decoding: Decoding) -> None:
    decoding.prefill((5, 3))
    decoding.check(decoding.spans)
    norm = decoding.decoder.norm
    norm.weight = torch.nn.Parameter(norm.weight.clone(), requires_grad=False)
    decoding.graphs.weights_changed()
    assert decoding.graphs.sizes == frozenset()
    decoding.check(decoding.spans)
    assert decoding.captures.num_captured == 2


def test_a_step_is_computed_though_it_cannot_be_captured(
    decoding: Decoding, caplog: pytest.LogCaptureFixture
) -> None:
    decoding.captures.fails = True
    decoding.prefill((5, 3))
    decoding.check(decoding.spans)
    assert "no CUDA graph of 2 sequences" in caplog.text
    assert not decoding.graphs.covers(decoding.spans)


def test_sizes_double() -> None:
    assert all(after == 2 * before for before, after in pairwise(SIZES))

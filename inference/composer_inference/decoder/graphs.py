"""Decode steps as CUDA graphs: launching a model's kernels one by one takes the host longer than the GPU
takes to run them for few tokens; a graph is one launch.

A graph is captured for each of a few numbers of sequences. Its inputs lie in one buffer, which is filled
in one copy a step; the places that are left in it repeat the shortest sequence: they write the same keys
and values to the same slots, choose the same experts, and their logits are dropped.

Dimensions: T tokens of a step, one a sequence, R rows of logits, V tokens of the vocabulary.
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float32, Int32
from torch import Tensor

from composer_inference.decoder.attention.block_table import used_blocks
from composer_inference.decoder.batch import Batch, Span, on_host
from composer_inference.decoder.model import Decoder
from composer_inference.kv.pool import KVPool
from composer_kernels import BlockTable

logger = logging.getLogger(__name__)

SIZES = (1, 2, 4, 8, 16, 32, 64)
"""Sequences of a graph."""
_NUM_COLUMNS = 5
_WARM_UPS = 2
"""Runs before a capture, which compile the kernels and make what is made once."""
_cuda: Any = torch.cuda


@dataclass(frozen=True, slots=True)
class Outputs:
    """Of one step, in memory that the next step writes over."""

    logits_TV: Float32[Tensor, "T V"]
    router_choices: tuple[Int32[Tensor, "T K"], ...]


Run = Callable[[], Outputs]
Capture = Callable[[Run], Run]
"""From a step to one that does the same on what its input tensors hold by then."""


class CudaCapture:
    """Graphs that share their memory, since one runs at a time."""

    def __init__(self) -> None:
        self._memory: Any = None

    def __call__(self, run: Run) -> Run:
        stream = _cuda.Stream()
        stream.wait_stream(_cuda.current_stream())
        with _cuda.stream(stream):
            for _ in range(_WARM_UPS):
                run()
        _cuda.current_stream().wait_stream(stream)
        graph = _cuda.CUDAGraph()
        # Other threads may use the GPU meanwhile.
        with _cuda.graph(graph, pool=self._memory, capture_error_mode="thread_local"):
            outputs = run()
        self._memory = graph.pool()

        def replay() -> Outputs:
            graph.replay()
            return outputs

        return replay


class DecodeGraphs:
    """Of one decoder and its pool; used by one thread."""

    def __init__(self, decoder: Decoder, pool: KVPool, capture: Capture) -> None:
        """Captures when a number of sequences comes first. A decoder of one rank."""
        self._decoder = decoder
        self._pool = pool
        self._capture = capture
        self._runs: dict[int, Run] = {}
        self._is_off = False
        self._addresses = self._weight_addresses()
        self._max_blocks = max(4 * pool.num_blocks, SIZES[-1])
        """Of all sequences of a step: more than the pool has, for prefixes that are shared."""
        num_inputs = _NUM_COLUMNS * SIZES[-1] + self._max_blocks
        self._inputs = torch.zeros(num_inputs, dtype=torch.int64, device=pool.device)
        self._places = torch.arange(SIZES[-1] + 1, device=pool.device)

    @property
    def sizes(self) -> frozenset[int]:
        """Numbers of sequences that graphs are there for."""
        return frozenset(self._runs)

    def covers(self, spans: Sequence[Span]) -> bool:
        """Whether a step is one for `forward`: sequences that decode a token each."""
        size = self._pool.block_size
        return (
            not self._is_off
            and 0 < len(spans) <= SIZES[-1]
            and all(len(span.token_ids) == span.num_logits == 1 for span in spans)
            and sum(-(-span.num_tokens // size) for span in spans) <= self._max_blocks
        )

    def forward(
        self, spans: Sequence[Span], *, router_choices: list[Tensor] | None = None
    ) -> Float32[Tensor, "R V"]:
        """As the decoder's, of spans that are covered; valid until the next call."""
        size = next(size for size in SIZES if size >= len(spans))
        self._fill(spans, size)
        outputs = self._run(size)()
        if router_choices is not None:
            router_choices += [ids_TK[: len(spans)] for ids_TK in outputs.router_choices]
        return outputs.logits_TV[: len(spans)]

    def weights_changed(self) -> None:
        """Drops the graphs, which hold the weights' addresses, where a weight has another by now."""
        addresses = self._weight_addresses()
        if addresses != self._addresses:
            self._addresses = addresses
            self._runs.clear()

    def _run(self, size: int) -> Run:
        if size not in self._runs:
            batch = self._batch(size)

            def run() -> Outputs:
                choices: list[Tensor] = []
                logits_TV = self._decoder(batch, self._pool, router_choices=choices)
                return Outputs(logits_TV, tuple(choices))

            try:
                self._runs[size] = self._capture(run)
            except RuntimeError as error:
                logger.warning("no CUDA graph of %d sequences, so none at all: %s", size, error)
                self._is_off = True
                self._runs.clear()
                return run
        return self._runs[size]

    def _batch(self, size: int) -> Batch:
        """Views of the inputs."""
        columns = self._inputs[: _NUM_COLUMNS * size].view(_NUM_COLUMNS, size)
        token_ids_T, positions_T, slots_T, num_tokens_T, block_starts_T = columns.unbind()
        table = BlockTable(
            blocks_X=self._inputs[_NUM_COLUMNS * size :],
            block_starts_B=block_starts_T,
            num_tokens_B=num_tokens_T,
            query_starts_C=self._places[: size + 1],
            max_queries=1,
            block_size=self._pool.block_size,
        )
        return Batch(
            spans=(),
            token_ids_T=token_ids_T,
            positions_T=positions_T,
            slots_T=slots_T,
            logits_rows_R=self._places[:size],
            block_table=table,
        )

    def _fill(self, spans: Sequence[Span], size: int) -> None:
        """In the order of `_batch`."""
        block_size = self._pool.block_size
        block_starts: list[int] = []
        blocks: list[int] = []
        for span in spans:
            block_starts.append(len(blocks))
            blocks += used_blocks(span, block_size)
        shortest = min(range(len(spans)), key=lambda row: spans[row].num_tokens)
        rows = [*range(len(spans)), *[shortest] * (size - len(spans))]
        columns = (
            [spans[row].token_ids[0] for row in rows],
            [spans[row].num_cached for row in rows],
            [spans[row].slot(spans[row].num_cached, block_size) for row in rows],
            [spans[row].num_tokens for row in rows],
            [block_starts[row] for row in rows],
            blocks,
        )
        numbers = [number for column in columns for number in column]
        given = on_host(numbers, self._pool.device)
        self._inputs[: len(numbers)].copy_(given, non_blocking=True)

    def _weight_addresses(self) -> tuple[int, ...]:
        return tuple(parameter.data_ptr() for parameter in self._decoder.parameters())

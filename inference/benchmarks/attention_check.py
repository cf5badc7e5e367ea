"""Attention of decodes and drafts on a GPU: the kernel against its twin, and its time beside a call of
torch's own attention for each sequence. A part of `gpu_check`."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from composer_inference.decoder.attention.block_table import TableAttention
from composer_inference.decoder.attention.paged import PagedAttention
from composer_inference.decoder.attention.rule import AttentionRule
from composer_inference.decoder.batch import Batch, Span
from composer_inference.kv.pool import CacheShape, KVPool
from composer_kernels import reference

BLOCK_SIZE = 16
_cuda: Any = torch.cuda


@dataclass(frozen=True, kw_only=True, slots=True)
class Heads:
    """Of a model's layer."""

    name: str
    num_heads: int
    shape: CacheShape
    window: int | None = None
    has_sinks: bool = False
    value_dim: int | None = None
    """Where the keys are the values too."""


CODER = Heads(
    name="Qwen3-Coder",
    num_heads=32,
    shape=CacheShape(num_kv_heads=4, key_dim=128, value_dim=128),
)
HEADS = (
    CODER,
    Heads(
        name="gpt-oss",
        num_heads=64,
        shape=CacheShape(num_kv_heads=8, key_dim=64, value_dim=64),
        window=128,
        has_sinks=True,
    ),
    Heads(
        name="DeepSeek-V3",
        num_heads=128,
        shape=CacheShape(num_kv_heads=1, key_dim=576, value_dim=0),
        value_dim=512,
    ),
)
LENGTHS = {
    "decodes": ((700, 1), (1, 1), (40, 1)),
    "drafts": ((700, 9), (30, 1), (5, 64)),
}
"""Cached and new tokens of each sequence."""


@dataclass(frozen=True, slots=True)
class Case:
    """One step's attention of one layer, with random queries, keys and values."""

    batch: Batch
    pool: KVPool
    q: Tensor
    k: Tensor
    v: Tensor | None
    rule: AttentionRule

    @classmethod
    def random(
        cls, heads: Heads, lengths: Sequence[tuple[int, int]], device: torch.device
    ) -> "Case":
        """The blocks of the sequences lie in turns."""
        generator = torch.Generator(device).manual_seed(3)

        def normal(*shape: int) -> Tensor:
            return torch.randn(
                shape, generator=generator, device=device, dtype=torch.float32
            ).bfloat16()

        most = max(-(-(cached + new) // BLOCK_SIZE) for cached, new in lengths)
        number = len(lengths)
        pool = KVPool(
            [heads.shape],
            num_blocks=number * most,
            block_size=BLOCK_SIZE,
            dtype=torch.bfloat16,
            device=device,
        )
        keys, all_values = pool.read_slots(0, slice(None))
        keys.copy_(normal(*keys.shape))
        all_values.copy_(normal(*all_values.shape))
        spans = [
            Span(
                token_ids=[0] * new,
                num_cached=cached,
                blocks=range(place, number * most, number),
            )
            for place, (cached, new) in enumerate(lengths)
        ]
        num_new, shape = sum(new for _, new in lengths), heads.shape
        sinks = normal(heads.num_heads) if heads.has_sinks else None
        has_values = heads.value_dim is None
        return cls(
            Batch.of(spans, block_size=BLOCK_SIZE, device=device),
            pool,
            normal(num_new, heads.num_heads, shape.key_dim),
            normal(num_new, shape.num_kv_heads, shape.key_dim),
            normal(num_new, shape.num_kv_heads, shape.value_dim) if has_values else None,
            AttentionRule(shape.key_dim**-0.5, heads.window, sinks, heads.value_dim),
        )

    def attend(self, attention: PagedAttention) -> Tensor:
        return attention.attend(0, self.q, self.k, self.v, self.rule)

    def attention(self, *, by_table: bool) -> PagedAttention:
        return PagedAttention(self.batch, self.pool, by_table=by_table)

    def twin(self) -> Tensor:
        """Of what is in the pool."""
        rule, device = self.rule, self.pool.device
        table = TableAttention.of(self.batch.spans, self.pool, device).table
        keys, all_values = self.pool.read_slots(0, slice(None))
        values = keys[..., : rule.value_dim] if self.v is None else all_values
        return reference.paged_attention(
            self.q,
            keys,
            values,
            table,
            scale=rule.scale,
            window=rule.window,
            sinks_N=rule.sinks_N,
        )


def compared(device: torch.device) -> Iterator[tuple[str, Tensor, Tensor]]:
    """Name, what is computed by table, and by the twin; each head's output by its size there, since means of
    many values are small."""
    for heads in HEADS:
        for name, lengths in LENGTHS.items():
            case = Case.random(heads, lengths, device)
            out = case.attend(case.attention(by_table=True))
            twin = case.twin().float()
            sizes = twin.square().sum(-1, keepdim=True).sqrt()
            yield f"attention of {heads.name}, {name}", out.float() / sizes, twin / sizes


def print_times(
    batches: Sequence[int], lengths: Sequence[int], device: torch.device, *, repeats: int = 20
) -> None:
    """Of one layer's attention of a token each."""
    print(f"{'attention, us':20}{'batch':>6}{'cached':>8}{'by table':>12}{'each':>12}")
    for num_cached in lengths:
        for batch in batches:
            case = Case.random(CODER, [(num_cached, 1)] * batch, device)
            by_table, each = (
                _seconds(case, by_table=by_table, repeats=repeats) for by_table in (True, False)
            )
            print(
                f"{CODER.name:20}{batch:6}{num_cached:8}{1e6 * by_table:12.1f}{1e6 * each:12.1f}",
                flush=True,
            )


def _seconds(case: Case, *, by_table: bool, repeats: int) -> float:
    """Of a call, the host's part included; what a step's layers share is made before."""
    attention = case.attention(by_table=by_table)
    case.attend(attention)
    _synchronize(case.pool.device)
    start = time.perf_counter()
    for _ in range(repeats):
        case.attend(attention)
    _synchronize(case.pool.device)
    return (time.perf_counter() - start) / repeats


def _synchronize(device: torch.device) -> None:
    if device.type == "cuda":
        _cuda.synchronize()

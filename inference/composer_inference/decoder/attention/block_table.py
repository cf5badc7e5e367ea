"""Attention of several sequences with few new tokens each, in one call on the pool itself: for a GPU.

Dimensions: T new tokens of the sequences, N query heads, H key-value heads, K and V dims of a key and a
value.
"""

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from composer_inference.decoder.attention.rule import AttentionRule
from composer_inference.decoder.batch import Span, to_device
from composer_inference.kv.pool import KVPool
from composer_kernels import BlockTable, paged_attention

MAX_QUERIES = 65
"""New tokens of a sequence that are computed so: one and a draft. Longer parts of prompts are worth a call
each."""


class TableAttention:
    """Of one step; its layers share the table."""

    def __init__(self, table: BlockTable, num_rows: int, pool: KVPool) -> None:
        """`num_rows`: new tokens of all sequences."""
        self.num_rows = num_rows
        self.table = table
        self._pool = pool

    @classmethod
    def of(cls, spans: Sequence[Span], pool: KVPool, device: torch.device) -> "TableAttention":
        """The table reaches the device in one copy."""
        lengths: list[int] = []
        query_starts = [0]
        block_starts: list[int] = []
        blocks: list[int] = []
        for span in spans:
            lengths.append(span.num_tokens)
            query_starts.append(query_starts[-1] + len(span.token_ids))
            block_starts.append(len(blocks))
            blocks += used_blocks(span, pool.block_size)
        columns = (lengths, query_starts, block_starts, blocks)
        lengths_B, query_starts_C, block_starts_B, blocks_X = to_device(columns, device)
        table = BlockTable(
            blocks_X=blocks_X,
            block_starts_B=block_starts_B,
            num_tokens_B=lengths_B,
            query_starts_C=query_starts_C,
            max_queries=max(len(span.token_ids) for span in spans),
            block_size=pool.block_size,
        )
        return cls(table, query_starts[-1], pool)

    def attend(
        self,
        layer: int,
        q_TNK: Float[Tensor, "T N K"],
        k_THK: Float[Tensor, "T H K"],
        v_THV: Float[Tensor, "T H V"] | None,
        rule: AttentionRule,
    ) -> Float[Tensor, "T N W"]:
        """The new keys and values must be in the pool, from where all are read. v None: the keys'
        first dims are the values, W of them as the rule says."""
        keys_SHK, values_SHV = self._pool.read_slots(layer, slice(None))
        return paged_attention(
            q_TNK,
            keys_SHK,
            None if v_THV is None else values_SHV,
            self.table,
            scale=rule.scale,
            window=rule.window,
            sinks_N=rule.sinks_N,
            value_dim=rule.value_dim if v_THV is None else None,
        )


def used_blocks(span: Span, block_size: int) -> Sequence[int]:
    """Those that hold the sequence's tokens; it may have more."""
    return span.blocks[: -(-span.num_tokens // block_size)]

"""Attention of a step's tokens over cached and new keys and values.

Dimensions: T new tokens of the step, N query heads, H key-value heads, K and V dims of a key and a value.
"""

from collections.abc import Iterator
from itertools import groupby

import torch
from jaxtyping import Float
from torch import Tensor

from composer_inference.decoder.attention.block_table import MAX_QUERIES, TableAttention
from composer_inference.decoder.attention.rule import AttentionRule
from composer_inference.decoder.attention.span import SpanAttention
from composer_inference.decoder.batch import Batch, Span
from composer_inference.kv.pool import KVPool


class PagedAttention:
    """Of one step, for all layers."""

    def __init__(self, batch: Batch, pool: KVPool, *, by_table: bool) -> None:
        """`by_table`: neighbouring sequences with something cached and few new tokens are computed in one
        call, which reads the pool through a table of blocks. Few launches, no copy; without a
        gradient. Else each sequence is a call of torch's own attention, which is faster on a CPU."""
        self._slots_T = batch.slots_T
        self._pool = pool
        self._parts = tuple(_parts(batch, pool, by_table=by_table))

    def attend(
        self,
        layer: int,
        q_TNK: Float[Tensor, "T N K"],
        k_THK: Float[Tensor, "T H K"],
        v_THV: Float[Tensor, "T H V"] | None,
        rule: AttentionRule,
    ) -> Float[Tensor, "T N V"]:
        """Write the new keys and values, and attend causally to all that each sequence has. v
        None: the keys are the values too (V = K, or more than `rule.value_dim` says)."""
        values = None if v_THV is None else v_THV.detach()
        self._pool.write(layer, self._slots_T, k_THK.detach(), values)
        if len(self._parts) == 1:
            return self._parts[0].attend(layer, q_TNK, k_THK, v_THV, rule)
        outputs: list[Tensor] = []
        end = 0
        for part in self._parts:
            rows = slice(end, end := end + part.num_rows)
            v = None if v_THV is None else v_THV[rows]
            out = part.attend(layer, q_TNK[rows], k_THK[rows], v, rule)
            outputs.append(out[..., : rule.value_dim])
        return torch.cat(outputs)


def _parts(
    batch: Batch, pool: KVPool, *, by_table: bool
) -> Iterator[SpanAttention | TableAttention]:
    if batch.block_table is not None:
        yield TableAttention(batch.block_table, len(batch.slots_T), pool)
        return
    device = batch.positions_T.device
    for in_table, run in groupby(batch.spans, lambda span: by_table and _is_short(span)):
        if in_table:
            yield TableAttention.of(tuple(run), pool, device)
        else:
            yield from (SpanAttention(span, pool) for span in run)


def _is_short(span: Span) -> bool:
    return span.num_cached > 0 and len(span.token_ids) <= MAX_QUERIES

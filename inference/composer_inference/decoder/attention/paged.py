"""Attention of a step's tokens over cached and new keys and values.

Dimensions: T new tokens of the step, N query heads, H key-value heads, K and V dims of a key and a value.
"""

from collections.abc import Iterator
from itertools import groupby

import torch
from jaxtyping import Float
from torch import Tensor

from composer_inference.decoder.attention.block_table import MAX_QUERIES, TableAttention
from composer_inference.decoder.attention.gathered import GatheredAttention, alike
from composer_inference.decoder.attention.rule import AttentionRule
from composer_inference.decoder.attention.span import SpanAttention
from composer_inference.decoder.batch import Batch, Span
from composer_inference.kv.pool import KVPool


class PagedAttention:
    """Of one step, for all layers."""

    def __init__(self, batch: Batch, pool: KVPool, *, by_table: bool) -> None:
        """`by_table`: neighbouring sequences with something cached and few new tokens are computed in one
        call, which reads the pool through a table of blocks. Few launches, no copy; without a
        gradient. Else torch's own attention is called, which is faster on a CPU: for neighbouring
        sequences that decode a token each and are short, and for every other one."""
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
) -> Iterator[SpanAttention | TableAttention | GatheredAttention]:
    if batch.block_table is not None:
        yield TableAttention(batch.block_table, len(batch.slots_T), pool)
        return
    device = batch.positions_T.device
    max_queries = MAX_QUERIES if by_table else 1
    for is_together, run in groupby(batch.spans, lambda span: _has_few(span, max_queries)):
        spans = tuple(run)
        if not is_together:
            yield from (SpanAttention(span, pool) for span in spans)
        elif by_table:
            yield TableAttention.of(spans, pool, device)
        else:
            for some in alike(spans, pool):
                yield (
                    SpanAttention(some[0], pool)
                    if len(some) == 1
                    else GatheredAttention(some, pool)
                )


def _has_few(span: Span, max_queries: int) -> bool:
    return span.num_cached > 0 and len(span.token_ids) <= max_queries

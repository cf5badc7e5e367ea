"""Attention of several sequences with one new token each, in one call: a copy of their keys and
values, padded to the longest.

Dimensions: B sequences, L tokens of the longest's blocks, N query heads, H key-value heads, K and V dims of
a key and a value.
"""

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from composer_inference.decoder.attention.rule import AttentionRule, attend
from composer_inference.decoder.batch import Span
from composer_inference.kv.pool import KVPool


class PaddedAttention:
    """Of one step: what its layers share is made once."""

    def __init__(self, spans: Sequence[Span], pool: KVPool, device: torch.device) -> None:
        """`spans`: with one new token each."""
        self.num_rows = len(spans)
        self._spans = spans
        self._pool = pool
        self._device = device
        self._plans: dict[int | None, tuple[Tensor, Tensor]] = {}

    def attend(
        self,
        layer: int,
        q_BNK: Float[Tensor, "B N K"],
        k_BHK: Float[Tensor, "B H K"],
        v_BHV: Float[Tensor, "B H V"] | None,
        rule: AttentionRule,
    ) -> Float[Tensor, "B N V"]:
        """The new keys and values must be in the pool, from where all are read. v None: the keys
        are the values too."""
        if rule.window not in self._plans:
            self._plans[rule.window] = self._plan(rule)
        slots_BL, mask_B11L = self._plans[rule.window]
        k_BLHK, v_BLHV = self._pool.read_slots(layer, slots_BL)
        values = k_BLHK if v_BHV is None else v_BLHV
        out_BN1V = attend(
            q_BNK[:, :, None], k_BLHK.transpose(1, 2), values.transpose(1, 2), rule, mask=mask_B11L
        )
        return out_BN1V[:, :, 0]

    def _plan(self, rule: AttentionRule) -> tuple[Tensor, Tensor]:
        """Slots [B, L], and which of them are seen [B, 1, 1, L]."""
        size = self._pool.block_size
        rows: list[list[int]] = []
        bounds: list[tuple[int, int]] = []
        for span in self._spans:
            first = rule.first_seen(span.num_cached)
            first_block = first // size
            rows.append(list(span.blocks[first_block : -(-span.num_tokens // size)]))
            bounds.append((first - first_block * size, span.num_tokens - first_block * size))
        num_blocks = max(map(len, rows))
        host = [
            [*row, *[row[0]] * (num_blocks - len(row)), *bound]
            for row, bound in zip(rows, bounds, strict=True)
        ]
        table = torch.tensor(host).to(self._device, non_blocking=True)
        place_L = torch.arange(num_blocks * size, device=self._device)
        slots_BL = (table[:, :num_blocks, None] * size + place_L[:size]).flatten(1)
        seen_BL = (place_L >= table[:, -2:-1]) & (place_L < table[:, -1:])
        return slots_BL, seen_BL[:, None, None]

"""Attention of a step's tokens over cached and new keys and values.

Dimensions: T new tokens of the step, N query heads, H key-value heads, K and V dims of a key and a value.
"""

from collections.abc import Iterable, Iterator
from itertools import groupby

import torch
from jaxtyping import Float
from torch import Tensor

from composer_inference.decoder.attention.padded import PaddedAttention
from composer_inference.decoder.attention.rule import AttentionRule
from composer_inference.decoder.attention.span import SpanAttention
from composer_inference.decoder.batch import Batch, Span
from composer_inference.kv.pool import KVPool

_SHORT = 512
"""Tokens up to which padding costs less than another call."""


class PagedAttention:
    """Of one step, for all layers."""

    def __init__(self, batch: Batch, pool: KVPool, *, pad_decodes: bool) -> None:
        """`pad_decodes`: neighbouring sequences with one new token, and of similar lengths, are computed
        in one call. Few launches, but a copy of all that they have cached; else each is read in
        place, which is faster on a CPU."""
        self._slots_T = batch.slots_T
        self._pool = pool
        self._parts = tuple(_parts(batch, pool, pad_decodes=pad_decodes))

    def attend(
        self,
        layer: int,
        q_TNK: Float[Tensor, "T N K"],
        k_THK: Float[Tensor, "T H K"],
        v_THV: Float[Tensor, "T H V"] | None,
        rule: AttentionRule,
    ) -> Float[Tensor, "T N V"]:
        """Write the new keys and values, and attend causally to all that each sequence has. v
        None: the keys are the values too (V = K)."""
        values = None if v_THV is None else v_THV.detach()
        self._pool.write(layer, self._slots_T, k_THK.detach(), values)
        if len(self._parts) == 1:
            return self._parts[0].attend(layer, q_TNK, k_THK, v_THV, rule)
        outputs: list[Tensor] = []
        end = 0
        for part in self._parts:
            rows = slice(end, end := end + part.num_rows)
            v = None if v_THV is None else v_THV[rows]
            outputs.append(part.attend(layer, q_TNK[rows], k_THK[rows], v, rule))
        return torch.cat(outputs)


def _parts(
    batch: Batch, pool: KVPool, *, pad_decodes: bool
) -> Iterator[SpanAttention | PaddedAttention]:
    device = batch.positions_T.device
    for is_decode, run in groupby(batch.spans, lambda span: len(span.token_ids) == 1):
        for spans in _alike(run) if is_decode and pad_decodes else ((span,) for span in run):
            if len(spans) == 1:
                yield SpanAttention(spans[0], pool, device)
            else:
                yield PaddedAttention(spans, pool, device)


def _alike(spans: Iterable[Span]) -> Iterator[tuple[Span, ...]]:
    """Neighbours whose lengths differ by a factor of 2 at most, or by little."""
    run: list[Span] = []
    for span in spans:
        lengths = [each.num_tokens for each in (*run, span)]
        if max(lengths) > max(2 * min(lengths), _SHORT):
            yield tuple(run)
            run = []
        run.append(span)
    yield tuple(run)

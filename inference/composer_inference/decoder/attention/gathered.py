"""Attention of several sequences that decode a token each, their keys and values gathered side by side and
computed in one call: for a CPU, where a call costs more than the copy while that stays in the caches.

Dimensions: B sequences, which are as many new tokens, L keys of the longest, N query heads, H key-value heads,
K and V dims of a key and a value.
"""

from collections.abc import Iterator, Sequence

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from composer_inference.decoder.attention.rule import AttentionRule, attend
from composer_inference.decoder.batch import Span
from composer_inference.kv.pool import KVPool

_MAX_BYTES = 8 << 20
"""Gathered at a time; more leaves the caches."""
_MAX_PADDED = 1.5
"""Times what the sequences have: shorter ones are filled up to the longest."""


class GatheredAttention:
    """Of one step: what its layers share is made once."""

    def __init__(self, spans: Sequence[Span], pool: KVPool) -> None:
        self.num_rows = len(spans)
        self._spans = spans
        self._pool = pool
        self._places: dict[int | None, tuple[Tensor, Tensor | None]] = {}

    def attend(
        self,
        layer: int,
        q_BNK: Float[Tensor, "B N K"],
        k_BHK: Float[Tensor, "B H K"],
        v_BHV: Float[Tensor, "B H V"] | None,
        rule: AttentionRule,
    ) -> Float[Tensor, "B N V"]:
        """The new keys and values must be in the pool, from where all are read. v None: the keys are
        the values too."""
        slots_BL, mask = self._gathered(rule.window, q_BNK)
        k_XHK, v_XHV = self._pool.read_slots(layer, slots_BL.flatten())
        k_BHLK = k_XHK.view(*slots_BL.shape, *k_XHK.shape[1:]).transpose(1, 2)
        v_BHLV = k_BHLK
        if v_BHV is not None:
            v_BHLV = v_XHV.view(*slots_BL.shape, *v_XHV.shape[1:]).transpose(1, 2)
        return attend(q_BNK[:, :, None], k_BHLK, v_BHLV, rule, mask=mask)[:, :, 0]

    def _gathered(
        self, window: int | None, like: Tensor
    ) -> tuple[Int64[Tensor, "B L"], Float[Tensor, "B 1 1 L"] | None]:
        """Where each sequence's keys lie, and what hides those that fill it up; None: nothing does."""
        if window not in self._places:
            lengths = [min(span.num_tokens, window or span.num_tokens) for span in self._spans]
            slots_BL = torch.empty((self.num_rows, max(lengths)), dtype=torch.int64)
            for slots_L, span, length in zip(slots_BL, self._spans, lengths, strict=True):
                first = span.num_tokens - length
                slots = self._pool.slots(span.blocks, span.num_tokens, first=first)
                if isinstance(slots, slice):
                    slots = torch.arange(slots.start, slots.stop)
                slots_L[:length] = slots
                # Its own, so that no other sequence's values can reach it.
                slots_L[length:] = slots[-1]
            mask = None
            if min(lengths) < max(lengths):
                is_filling = torch.arange(max(lengths)) >= torch.tensor(lengths)[:, None]
                mask = torch.zeros(is_filling.shape, dtype=like.dtype)
                mask = mask.masked_fill_(is_filling, -torch.inf)[:, None, None]
            self._places[window] = slots_BL, mask
        return self._places[window]


def alike(spans: Sequence[Span], pool: KVPool) -> Iterator[Sequence[Span]]:
    """Neighbours that are worth gathering together, of sequences that decode a token each."""
    max_tokens = _MAX_BYTES // pool.layer_bytes_per_token
    run: list[Span] = []
    for span in spans:
        lengths = [each.num_tokens for each in (*run, span)]
        padded = max(lengths) * len(lengths)
        if run and padded > min(max_tokens, _MAX_PADDED * sum(lengths)):
            yield run
            run = []
        run.append(span)
    if run:
        yield run

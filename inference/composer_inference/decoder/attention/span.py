"""Attention of one sequence's new tokens, its keys and values read where they lie.

Dimensions: M new tokens of the sequence, L tokens that they see, N query heads, H key-value heads, K and V
dims of a key and a value.
"""

from jaxtyping import Float
from torch import Tensor

from composer_inference.decoder.attention.rule import AttentionRule, attend, causal_mask
from composer_inference.decoder.batch import Span
from composer_inference.kv.pool import KVPool


class SpanAttention:
    """Of one step: what its layers share is made once."""

    def __init__(self, span: Span, pool: KVPool) -> None:
        self.num_rows = len(span.token_ids)
        self._span = span
        self._pool = pool
        self._slots: dict[int, slice | Tensor] = {}
        self._masks: dict[int | None, Tensor] = {}

    def attend(
        self,
        layer: int,
        q_MNK: Float[Tensor, "M N K"],
        k_MHK: Float[Tensor, "M H K"],
        v_MHV: Float[Tensor, "M H V"] | None,
        rule: AttentionRule,
    ) -> Float[Tensor, "M N V"]:
        """The new keys and values must be in the pool. v None: the keys are the values too.

        With nothing cached, the keys and values given are used themselves, with their gradients.
        """
        k_LHK, v_LHV = k_MHK, v_MHV
        if self._span.num_cached:
            k_LHK, v_LHV = self._pool.read_slots(layer, self._slots_from(rule))
        keys_HLK = k_LHK.transpose(0, 1)[None]
        values_HLV = keys_HLK if v_MHV is None or v_LHV is None else v_LHV.transpose(0, 1)[None]
        mask = self._mask(rule.window, q_MNK)
        out = attend(
            q_MNK.transpose(0, 1)[None],
            keys_HLK,
            values_HLV,
            rule,
            mask=mask,
            causal=mask is None and self.num_rows > 1,
        )
        return out[0].transpose(0, 1)

    def _slots_from(self, rule: AttentionRule) -> slice | Tensor:
        first = rule.first_seen(self._span.num_cached)
        if first not in self._slots:
            span = self._span
            self._slots[first] = self._pool.slots(span.blocks, span.num_tokens, first=first)
        return self._slots[first]

    def _mask(self, window: int | None, q_MNK: Tensor) -> Tensor | None:
        """[M, L]; None where plain causal attention is the same."""
        span = self._span
        cut = window is not None and span.num_tokens > window
        if self.num_rows == 1 or (span.num_cached == 0 and not cut):
            return None
        if window not in self._masks:
            first = 0 if window is None else max(0, span.num_cached + 1 - window)
            num_keys = span.num_tokens - first
            self._masks[window] = causal_mask(self.num_rows, num_keys, like=q_MNK, window=window)
        return self._masks[window]

"""What a layer asks of its attention, and the ways to compute it.

Dimensions: B sequences, M queries of a sequence, L keys, N query heads, H key-value heads, G = N / H, K
and V dims of a key and a value.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional

from composer_inference.decoder.layers.packed import can_pack

_MAX_SCORES = 1 << 26
"""Attention weights that `_with_sinks` holds at a time, f32."""
_MAX_PRODUCT_SCORES = 1 << 21
"""Attention weights that `_by_products` holds at a time: they stay in the caches."""
_LEAST_PRODUCT_QUERIES = 8
"""Of a sequence, from which on `_by_products` takes less time than SDPA."""


@dataclass(frozen=True, slots=True)
class AttentionRule:
    scale: float
    """Factor on the logits."""
    window: int | None = None
    """Tokens that a token sees, itself included. None: all before it."""
    sinks_N: Float[Tensor, " N"] | None = None
    """A logit of each head that takes part in the softmax and has no value (gpt-oss)."""
    value_dim: int | None = None
    """Where the keys are the values too: their first dims that are asked for. None: all."""

    def first_seen(self, position: int) -> int:
        """The first position that a token sees."""
        return 0 if self.window is None else max(0, position + 1 - self.window)


def attend(
    q_BNMK: Float[Tensor, "B N M K"],
    k_BHLK: Float[Tensor, "B H L K"],
    v_BHLV: Float[Tensor, "B H L V"],
    rule: AttentionRule,
    *,
    mask: Float[Tensor, "M L"] | Float[Tensor, "B 1 1 L"] | None,
    causal: bool = False,
) -> Float[Tensor, "B N M V"]:
    """`mask`: added to the logits, 0 where a query sees a key and else minus infinity, in q's dtype; one a
    sequence only for one query each; None: it sees all, or with `causal` (M = L) as far as its own place. The rule's window must be in
    the mask already."""
    num_kv_heads = k_BHLK.shape[1]
    if rule.sinks_N is not None:
        return _with_sinks(q_BNMK, k_BHLK, v_BHLV, rule, rule.sinks_N, mask, causal=causal)
    if q_BNMK.shape[2] == 1:
        # The heads of a group as rows: nothing for SDPA to repeat.
        q_BHGK = q_BNMK.view(q_BNMK.shape[0], num_kv_heads, -1, q_BNMK.shape[3])
        out = functional.scaled_dot_product_attention(
            q_BHGK, k_BHLK, v_BHLV, attn_mask=mask, scale=rule.scale
        )
        return out.reshape(*q_BNMK.shape[:3], -1)
    if mask is not None and _is_faster_by_products(q_BNMK):
        return _by_products(q_BNMK, k_BHLK, v_BHLV, rule.scale, mask)
    return functional.scaled_dot_product_attention(
        q_BNMK,
        k_BHLK,
        v_BHLV,
        attn_mask=mask,
        is_causal=causal,
        scale=rule.scale,
        enable_gqa=q_BNMK.shape[1] != num_kv_heads,
    )


def causal_mask(
    num_queries: int, num_keys: int, *, like: Tensor, window: int | None = None
) -> Float[Tensor, "M L"]:
    """For the last of so many tokens as queries, as `attend` takes it; `window` as in the rule."""
    num_before = num_keys - num_queries
    seen = torch.ones((num_queries, num_keys), dtype=torch.bool, device=like.device)
    seen = seen.tril_(num_before)
    if window is not None:
        seen = seen.triu_(num_before + 1 - window)
    zeros = torch.zeros(seen.shape, dtype=like.dtype, device=like.device)
    return zeros.masked_fill_(~seen, -torch.inf)


def _is_faster_by_products(q_BNMK: Tensor) -> bool:
    """SDPA multiplies bf16 on a CPU at half the rate of oneDNN's products; f32 at the same."""
    is_bf16 = q_BNMK.dtype == torch.bfloat16 and can_pack(q_BNMK.dtype, q_BNMK.device)
    return is_bf16 and q_BNMK.shape[2] >= _LEAST_PRODUCT_QUERIES


def _by_products(
    q_BNMK: Tensor, k_BHLK: Tensor, v_BHLV: Tensor, scale: float, mask_ML: Tensor
) -> Tensor:
    """The heads of a group as rows. Logits are rounded to q's dtype."""
    num_sequences, num_heads = q_BNMK.shape[:2]
    num_kv_heads, num_keys = k_BHLK.shape[1:3]
    # Laid out anew, they are read much faster by both products.
    k_BHKL, v_BHLV = k_BHLK.contiguous().mT, v_BHLV.contiguous()
    rows = max(1, _MAX_PRODUCT_SCORES // (num_sequences * num_heads * num_keys))
    outputs: list[Tensor] = []
    for first in range(0, len(mask_ML), rows):
        q_BNRK = q_BNMK[:, :, first : first + rows]
        q_BHXK = (q_BNRK * scale).reshape(num_sequences, num_kv_heads, -1, q_BNRK.shape[-1])
        scores_BHXL = q_BHXK @ k_BHKL
        scores_BHXL.view(num_sequences, num_heads, -1, num_keys).add_(mask_ML[first : first + rows])
        out_BHXV = scores_BHXL.softmax(-1) @ v_BHLV
        outputs.append(out_BHXV.view(num_sequences, num_heads, -1, v_BHLV.shape[-1]))
    return outputs[0] if len(outputs) == 1 else torch.cat(outputs, dim=2)


def _with_sinks(
    q_BNMK: Tensor,
    k_BHLK: Tensor,
    v_BHLV: Tensor,
    rule: AttentionRule,
    sinks_N: Tensor,
    mask: Tensor | None,
    *,
    causal: bool,
) -> Tensor:
    """In f32; SDPA knows no sinks."""
    num_sequences, num_heads, num_queries, key_dim = q_BNMK.shape
    num_kv_heads, num_keys = k_BHLK.shape[1:3]
    if causal and num_queries > 1:
        mask = causal_mask(num_queries, num_keys, like=q_BNMK)
    if mask is not None and mask.dim() > 2:
        mask = mask.unsqueeze(2)
    q_BHGMK = q_BNMK.view(num_sequences, num_kv_heads, -1, num_queries, key_dim)
    sinks_HG11 = sinks_N.float().view(num_kv_heads, -1, 1, 1)
    k_BH1KL = k_BHLK.transpose(-1, -2)[:, :, None].float()
    v_BH1LV = v_BHLV[:, :, None].float()
    rows = max(1, _MAX_SCORES // (num_sequences * num_heads * num_keys))
    outputs: list[Tensor] = []
    for first in range(0, num_queries, rows):
        scores = q_BHGMK[..., first : first + rows, :].float() @ k_BH1KL * rule.scale
        if mask is not None:
            scores = scores + mask[..., first : first + rows, :]
        with_sink = torch.cat((scores, sinks_HG11.expand(*scores.shape[:-1], 1)), dim=-1)
        outputs.append(with_sink.softmax(-1)[..., :-1] @ v_BH1LV)
    out = outputs[0] if len(outputs) == 1 else torch.cat(outputs, dim=-2)
    return out.flatten(1, 2).to(q_BNMK.dtype)

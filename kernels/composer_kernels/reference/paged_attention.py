"""Attention over a paged cache, a sequence at a time."""

from typing import TYPE_CHECKING, cast

import torch
from jaxtyping import Float
from torch import Tensor

if TYPE_CHECKING:
    from composer_kernels.paged_attention import BlockTable


def paged_attention(
    q_TNK: Float[Tensor, "T N K"],
    keys_SHK: Float[Tensor, "S H K"],
    values_SHV: Float[Tensor, "S H V"],
    table: "BlockTable",
    *,
    scale: float,
    window: int | None = None,
    sinks_N: Float[Tensor, " N"] | None = None,
) -> Float[Tensor, "T N V"]:
    """As `composer_kernels.paged_attention`, in f32 and rounded once. Reads the table on the host."""
    num_kv_heads, key_dim = keys_SHK.shape[1:]
    group = q_TNK.shape[1] // num_kv_heads
    out_TNV = q_TNK.new_zeros(*q_TNK.shape[:2], values_SHV.shape[2])
    query_starts = _ints(table.query_starts_C)
    lengths, block_starts = _ints(table.num_tokens_B), _ints(table.block_starts_B)
    for number, (num_tokens, block_start) in enumerate(zip(lengths, block_starts, strict=True)):
        rows = slice(query_starts[number], query_starts[number + 1])
        place_L = torch.arange(num_tokens, device=q_TNK.device)
        blocks_L = table.blocks_X[block_start + place_L // table.block_size]
        slots_L = blocks_L * table.block_size + place_L % table.block_size
        k_LHK, v_LHV = keys_SHK[slots_L].float(), values_SHV[slots_L].float()
        q_MHGK = q_TNK[rows].float().reshape(-1, num_kv_heads, group, key_dim)
        logits_MHGL = torch.einsum("mhgk,lhk->mhgl", q_MHGK, k_LHK) * scale
        position_M = place_L[num_tokens - q_MHGK.shape[0] :]
        is_seen_ML = place_L <= position_M[:, None]
        if window is not None:
            is_seen_ML &= place_L > position_M[:, None] - window
        logits_MHGL.masked_fill_(~is_seen_ML[:, None, None], -torch.inf)
        weights_MHGL = _softmax(logits_MHGL, sinks_N)
        out_MHGV = torch.einsum("mhgl,lhv->mhgv", weights_MHGL, v_LHV)
        out_TNV[rows] = out_MHGV.flatten(1, 2).to(out_TNV.dtype)
    return out_TNV


def _ints(tensor: Tensor) -> list[int]:
    return cast(list[int], tensor.tolist())  # pyright: ignore[reportUnknownMemberType]


def _softmax(logits_MHGL: Tensor, sinks_N: Tensor | None) -> Tensor:
    if sinks_N is None:
        return logits_MHGL.softmax(-1)
    sinks_HG1 = sinks_N.float().view(*logits_MHGL.shape[1:3], 1)
    sinks_MHG1 = sinks_HG1.expand(*logits_MHGL.shape[:3], 1)
    return torch.cat((logits_MHGL, sinks_MHG1), dim=-1).softmax(-1)[..., :-1]

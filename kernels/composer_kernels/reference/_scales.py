"""Shared exponents, as the twins of MXFP8 and MXFP4 compute them."""

import torch
from torch import Tensor
from torch.nn import functional

from composer_kernels.formats import BLOCK, UE8M0_NAN, num_blocks

F32_INFINITY = 0x7F800000
"""Bits of f32's infinity: with the sign cleared, NaN and infinity are not below."""


def split_blocks(x: Tensor) -> Tensor:
    """`[..., K]` in f32 as `[..., ceil(K / 32), 32]`, the last block filled up with zeros."""
    k = x.shape[-1]
    missing = num_blocks(k) * BLOCK - k
    return functional.pad(x, (0, missing)).reshape(*x.shape[:-1], num_blocks(k), BLOCK)


def join_blocks(blocks: Tensor, k: int) -> Tensor:
    """The first `k` elements of each row of blocks."""
    return blocks.flatten(-2)[..., :k]


def block_scales(blocks: Tensor, *, emax: int, saturation_carry: int) -> Tensor:
    """The UE8M0 code of each block `[..., 32]` of f32, as int32 `[...]`.

    `emax`: exponent of the element format's largest power of two. `saturation_carry`: added to the
    f32 bits of the largest magnitude; it carries into their exponent where elements shall not
    saturate and would. 0: the floor rule.
    """
    amax_bits = blocks.abs().view(torch.int32).amax(-1)
    exponent = (amax_bits + saturation_carry) >> 23
    return torch.where(amax_bits < F32_INFINITY, (exponent - emax).clamp(min=0), UE8M0_NAN)


def scale_factors(scales: Tensor) -> Tensor:
    """f32 values of UE8M0 codes; 255 gives NaN."""
    return scales.view(torch.float8_e8m0fnu).float()


def inverse_factors(scales: Tensor) -> Tensor:
    """f32 1 / value of int32 UE8M0 codes up to 247, which is a normal number for each."""
    return ((254 - scales) << 23).view(torch.float32)

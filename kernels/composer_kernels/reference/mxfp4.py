"""MXFP4: E2M1 elements, two a byte, with a UE8M0 scale for each 32 along the last dimension.

Sources: OCP Microscaling Formats (MX) Specification v1.0, sections 5 and 6.3; the order of the two
elements in a byte is that of the published gpt-oss checkpoints, low four bits first.
"""

from itertools import pairwise

import torch
from jaxtyping import Float
from torch import Tensor

from composer_kernels.errors import ShapeError, check_member
from composer_kernels.formats import E2M1_EMAX, E2M1_VALUES, UE8M0_NAN, MXFP4Tensor, ScaleRule
from composer_kernels.reference._scales import (
    block_scales,
    inverse_factors,
    join_blocks,
    scale_factors,
    split_blocks,
)

E2M1_CARRY = 0x200000
"""Carries where `amax` is at least 7 / 4 times its power of two: 7 lies halfway between 6 and the 8
that E2M1 lacks, and would be rounded to even, which is 8."""


def mxfp4_quantize(x: Float[Tensor, "*rows K"], *, rule: ScaleRule = ScaleRule.CEIL) -> MXFP4Tensor:
    """Quantises along the last dimension, whose length is even. NaN, infinity and zero are treated
    as `mxfp8_quantize` does, but that E2M1 has no NaN: a block's NaN stands in its scale alone."""
    check_member("rule", rule, ScaleRule)
    if x.dim() == 0 or x.shape[-1] % 2:
        raise ShapeError("x", x.shape, "[*rows, K], K even,")
    blocks = split_blocks(x.float())
    carry = E2M1_CARRY if rule is ScaleRule.CEIL else 0
    scales = block_scales(blocks, emax=E2M1_EMAX, saturation_carry=carry)
    is_nan = scales == UE8M0_NAN
    inverse = inverse_factors(scales.masked_fill(is_nan, 0))
    codes = _to_e2m1(blocks * inverse[..., None]).masked_fill(is_nan[..., None], 0)
    codes = join_blocks(codes, x.shape[-1])
    return MXFP4Tensor(codes[..., ::2] | codes[..., 1::2] << 4, scales.to(torch.uint8))


def mxfp4_dequantize(
    x: MXFP4Tensor, *, dtype: torch.dtype = torch.float32
) -> Float[Tensor, "*rows K"]:
    """The values, rounded once to `dtype`."""
    table = torch.tensor([*E2M1_VALUES, *(-value for value in E2M1_VALUES)], device=x.codes.device)
    codes = torch.stack((x.codes & 0xF, x.codes >> 4), -1).flatten(-2)
    values = split_blocks(table[codes.int()]) * scale_factors(x.scales)[..., None]
    return join_blocks(values, codes.shape[-1]).to(dtype)


def _to_e2m1(y: Tensor) -> Tensor:
    """uint8 codes, nearest, ties to even, saturated. The codes of rising magnitudes rise by one, so
    a code is the number of midpoints below; a midpoint above an odd code counts when it is met."""
    magnitude = y.abs()
    code = torch.zeros_like(magnitude, dtype=torch.uint8)
    for below, (low, high) in enumerate(pairwise(E2M1_VALUES)):
        midpoint = (low + high) / 2
        code += magnitude >= midpoint if below % 2 else magnitude > midpoint
    return code | y.signbit().to(torch.uint8) << 3

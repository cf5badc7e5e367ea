"""MXFP8: E4M3 elements with a UE8M0 scale for each 32 along the last dimension.

    amax  = largest magnitude of the block
    scale = floor(log2(amax)) - 8, and at least -127; one more where `ScaleRule.CEIL` says so
    code  = x / 2 ** scale, rounded to E4M3: nearest, ties to even, saturated at 448

What MX v1.0 leaves open (section 6.3 defines the conversion of finite values):

- A block with NaN or infinity gets the scale NaN, which makes its 32 values NaN (section 5), and
  NaN for all its codes. Its products, which sum over the block, would be NaN anyway for NaN;
  infinity has no E4M3 code, and 448 in its place would hide an overflow.
- A block of zeros gets scale code 0, 2 ** -127, and codes that keep the zeros' signs. So does a
  block whose `amax` is so small that the rule asks for less.
- Subnormal inputs, and subnormal E4M3 results, are kept.

Source: OCP Microscaling Formats (MX) Specification v1.0, sections 5 and 6.3.
"""

from typing import Literal, overload

import torch
from jaxtyping import Float
from torch import Tensor

from composer_kernels.errors import check_member
from composer_kernels.formats import (
    E4M3_EMAX,
    E4M3_MAX,
    E4M3_NAN,
    UE8M0_NAN,
    MXFP8Tensor,
    ScaleRule,
)
from composer_kernels.reference._scales import (
    block_scales,
    inverse_factors,
    join_blocks,
    scale_factors,
    split_blocks,
)

E4M3_CARRY = 0x17FFFF
"""Carries where `amax` is above 464 / 256 times its power of two: 464 lies halfway between 448 and
the 480 that E4M3 lacks, and would be rounded to even, which is 448."""


def e4m3_carry(rule: ScaleRule) -> int:
    """`saturation_carry` of `block_scales`. Raises `KernelError` where the rule is no `ScaleRule`."""
    check_member("rule", rule, ScaleRule)
    return E4M3_CARRY if rule is ScaleRule.CEIL else 0


@overload
def mxfp8_quantize(
    x: Float[Tensor, "*lead K"],
    *,
    rule: ScaleRule = ...,
    columns: Literal[False] = ...,
) -> MXFP8Tensor: ...
@overload
def mxfp8_quantize(
    x: Float[Tensor, "*lead K"], *, rule: ScaleRule = ..., columns: Literal[True]
) -> tuple[MXFP8Tensor, MXFP8Tensor]: ...
def mxfp8_quantize(
    x: Float[Tensor, "*lead K"],
    *,
    rule: ScaleRule = ScaleRule.CEIL,
    columns: bool = False,
) -> MXFP8Tensor | tuple[MXFP8Tensor, MXFP8Tensor]:
    """Quantises along the last dimension and, with `columns`, also x's transpose `[*lead, K, M]`."""
    rows = _quantize_rows(x, rule)
    return (rows, _quantize_rows(x.mT, rule)) if columns else rows


def _quantize_rows(x: Tensor, rule: ScaleRule) -> MXFP8Tensor:
    blocks = split_blocks(x.float())
    scales = block_scales(blocks, emax=E4M3_EMAX, saturation_carry=e4m3_carry(rule))
    is_nan = scales == UE8M0_NAN
    inverse = inverse_factors(scales.masked_fill(is_nan, 0))
    # Torch's own cast rounds to nearest even; not in every release does it saturate.
    elements = (blocks * inverse[..., None]).clamp(-E4M3_MAX, E4M3_MAX).to(torch.float8_e4m3fn)
    codes = elements.view(torch.uint8).masked_fill(is_nan[..., None], E4M3_NAN)
    codes = join_blocks(codes, x.shape[-1]).contiguous()
    return MXFP8Tensor(codes.view(torch.float8_e4m3fn), scales.to(torch.uint8))


def mxfp8_dequantize(
    x: MXFP8Tensor, *, dtype: torch.dtype = torch.float32
) -> Float[Tensor, "*rows K"]:
    """The values, rounded once to `dtype` (f32 is exact, except that the largest scales overflow to
    infinity, which MX v1.0 section 5 leaves open)."""
    values = split_blocks(x.codes.float()) * scale_factors(x.scales)[..., None]
    return join_blocks(values, x.codes.shape[-1]).to(dtype)

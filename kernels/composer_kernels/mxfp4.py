"""MXFP4 weights, as gpt-oss publishes them, to bf16 and f32: `reference.mxfp4` has the formula."""

from typing import Any, cast

import torch
from jaxtyping import Float
from torch import Tensor

from composer_kernels import reference
from composer_kernels.formats import MXFP4Tensor
from composer_kernels.mx import check_mx, check_value_dtype, launch_dequantize
from composer_kernels.target_info import Target, target_of

BLOCK_M = 16
BLOCK_BYTES = 128
"""Tile of a program: 16 x 256 elements."""


def mxfp4_dequantize(
    x: MXFP4Tensor, *, dtype: torch.dtype = torch.float32
) -> Float[Tensor, "*lead K"]:
    """The values in bf16 or f32. f32 is exact, bf16 rounds what is below its smallest normal number;
    values of the largest scales overflow to infinity, which MX v1.0 section 5 leaves open.

    A checkpoint's `blocks` `[…, K / 32, 16]` are `codes` once their last two dimensions are one.
    Raises `DtypeError` or `ShapeError` where codes and scales do not belong together.
    """
    check_mx("x", x)
    check_value_dtype(dtype)
    target = target_of(x.codes)
    if target.capability == 0:
        return reference.mxfp4_dequantize(x, dtype=dtype)
    return _launch_dequantize(x, dtype=dtype, target=target)


# Tests launch on the CPU, with `target_info.INTERPRETER`. A grid of no programs is no launch. Triton is imported where the kernel is
# launched: a CPU's users do without it.


def _launch_dequantize(x: MXFP4Tensor, *, dtype: torch.dtype, target: Target) -> Tensor:
    from composer_kernels.mxfp4_details import _dequantize

    return launch_dequantize(
        cast(Any, _dequantize).dequantize_kernel,
        x,
        dtype=dtype,
        block=(BLOCK_M, BLOCK_BYTES),
        INTERPRETED=target.interpreted,
    )

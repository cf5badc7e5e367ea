"""MXFP8 quantisation: `reference.mxfp8` has the formula, and says what happens to NaN and zeros."""

from math import prod
from typing import Any, Literal, cast, overload

import torch
from jaxtyping import Float
from torch import Tensor

from composer_kernels import reference
from composer_kernels.errors import ShapeError, check_dtype
from composer_kernels.formats import VALUE_DTYPES, MXFP8Tensor, ScaleRule
from composer_kernels.mx import check_mx, check_value_dtype, launch_dequantize
from composer_kernels.reference.mxfp8 import e4m3_carry
from composer_kernels.target_info import Target, target_of

BLOCK_M = 64
BLOCK_K = 128
"""Tile of a program: rows of the transposed codes are then written in runs of 64 bytes, those of
the others in runs of 128."""


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
    """Quantises bf16 or f32 along the last dimension.

    With `columns`, x is `[*batch, M, K]`, and the second result is the quantisation of its
    transpose, `[*batch, K, M]` along M, from the same pass over x: what a backward pass contracts.
    Any strides are taken; results are contiguous, and carry no gradient.

    Raises `DtypeError` for other dtypes, `ShapeError` where `columns` wants a matrix and x is none.
    Source: OCP Microscaling Formats (MX) Specification v1.0, section 6.3.
    """
    check_dtype("x", x, VALUE_DTYPES)
    if x.dim() < 1 + columns:
        raise ShapeError("x", x.shape, "[*batch, M, K]" if columns else "[*lead, K]")
    target = target_of(x)
    if target.capability == 0:
        return (
            reference.mxfp8_quantize(x, rule=rule, columns=True)
            if columns
            else reference.mxfp8_quantize(x, rule=rule)
        )
    rows, transposed = _launch_quantize(x, rule=rule, columns=columns, target=target)
    return rows if transposed is None else (rows, transposed)


def mxfp8_dequantize(
    x: MXFP8Tensor, *, dtype: torch.dtype = torch.float32
) -> Float[Tensor, "*lead K"]:
    """The values in bf16 or f32. f32 is exact, bf16 rounds what is below its smallest normal number;
    values of the largest scales overflow to infinity, which MX v1.0 section 5 leaves open.

    Raises `DtypeError` or `ShapeError` where codes and scales do not belong together.
    """
    check_mx("x", x)
    check_value_dtype(dtype)
    target = target_of(x.codes)
    if target.capability == 0:
        return reference.mxfp8_dequantize(x, dtype=dtype)
    return _launch_dequantize(x, dtype=dtype, target=target)


# Tests launch on the CPU, with `target_info.INTERPRETER`. A grid of no programs is no launch. Triton is imported where kernels are
# launched: a CPU's users do without it.


def _launch_quantize(
    x: Tensor, *, rule: ScaleRule, columns: bool, target: Target
) -> tuple[MXFP8Tensor, MXFP8Tensor | None]:
    from composer_kernels.mxfp8_details import _quantize

    K = x.shape[-1]
    M = x.shape[-2] if columns else prod(x.shape[:-1])
    B = prod(x.shape[:-2]) if columns else 1
    x_BMK = x.reshape(B, M, K)
    rows = MXFP8Tensor.empty(x.shape, x.device)
    transposed = MXFP8Tensor.empty((*x.shape[:-2], K, M), x.device) if columns else None
    block_m = BLOCK_M if columns else min(BLOCK_M, _next_power_of_two(M))
    kernel = cast(Any, _quantize).quantize_kernel
    outputs = [*_bytes(rows), *_bytes(transposed or rows)]
    kernel[(-(-M // block_m), -(-K // BLOCK_K), B)](
        x_BMK,
        *outputs,
        M,
        K,
        *x_BMK.stride(),
        CARRY=e4m3_carry(rule),
        COLUMNS=columns,
        BLOCK_M=block_m,
        BLOCK_K=BLOCK_K,
        HAS_E4M3_CASTS=target.has_e4m3_casts,
        INTERPRETED=target.interpreted,
        num_warps=8 if columns else 4,
    )
    return rows, transposed


def _launch_dequantize(x: MXFP8Tensor, *, dtype: torch.dtype, target: Target) -> Tensor:
    from composer_kernels.mxfp8_details import _quantize

    block_m = min(BLOCK_M, _next_power_of_two(prod(x.shape[:-1])))
    return launch_dequantize(
        cast(Any, _quantize).dequantize_kernel,
        x,
        dtype=dtype,
        block=(block_m, BLOCK_K),
        HAS_E4M3_CASTS=target.has_e4m3_casts,
        INTERPRETED=target.interpreted,
    )


def _bytes(x: MXFP8Tensor) -> tuple[Tensor, Tensor]:
    return x.codes.view(torch.uint8), x.scales


def _next_power_of_two(number: int) -> int:
    return 1 << max(number - 1, 0).bit_length()

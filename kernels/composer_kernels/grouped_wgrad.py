"""Gradients of the experts' weights and biases: products and sums over the rows of each expert.

    grad_w[e] = sum_r grad[:, r] x[:, r]^T      grad_bias[e] = sum_r rows[r]

r runs over the rows of expert e in the permuted buffer. Both operands of the first have the rows as
their last dimension, which is the one contracted: in MXFP8 from `mxfp8_quantize(…, columns=True)`
of `[P, N]`, whose blocks of 32 then lie within one expert because its rows start at a multiple of
`dispatch.block_m`, a multiple of 32; in bf16 as views, `grad_PN.mT`.

CUDA tensors are computed by the kernels of `grouped_gemm_details/_wgrad.py`, CPU tensors by
`reference.training`. Nothing waits for the device; sums are f32, in a fixed order, rounded once.

Dimensions: P rows of the permuted buffer, E experts, N outputs, K inputs of the linear map. The
`_launch_*` functions run the kernels on any device that Triton takes; tests call them.
"""

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from composer_kernels import reference
from composer_kernels.errors import KernelError, ShapeError, check_device, check_dtype
from composer_kernels.formats import BLOCK, VALUE_DTYPES, MXFP8Tensor
from composer_kernels.mx import check_mx, check_value_dtype
from composer_kernels.routes import Dispatch
from composer_kernels.target_info import Target, num_multiprocessors, target_of
from composer_kernels.tiles import Kind, WgradTiles, choose_wgrad_tiles


def grouped_wgrad(
    grad_NP: Float[Tensor, "N P"] | MXFP8Tensor,
    x_KP: Float[Tensor, "K P"] | MXFP8Tensor,
    dispatch: Dispatch,
    *,
    out_dtype: torch.dtype = torch.float32,
    tiles: WgradTiles | None = None,
) -> Float[Tensor, "E N K"]:
    """The gradient of every expert's weights; zeros for experts without a row.

    Both operands are MXFP8, blocks along the rows, or both bf16 (on the CPU f32 too) with any
    strides. Rows of padding must be zeros, as all that writes a permuted buffer here leaves them;
    rows past the last block in use are not read. `tiles`: the saved choice by
    default.

    Raises a `KernelError` that names the tensor where shapes, dtypes or devices do not fit, or
    `dispatch.block_m` is no multiple of 32.
    """
    _check_operands(grad_NP, x_KP, dispatch)
    check_value_dtype(out_dtype)
    target = target_of(dispatch.token_of_row)
    if target.capability == 0:
        return reference.grouped_wgrad(grad_NP, x_KP, dispatch, out_dtype=out_dtype)
    kind = Kind.MXFP8_MXFP8 if isinstance(x_KP, MXFP8Tensor) else Kind.BF16_BF16
    num_programs = num_multiprocessors(dispatch.token_of_row.device)
    return _launch_wgrad(
        grad_NP,
        x_KP,
        dispatch,
        out_dtype=out_dtype,
        tiles=tiles or choose_wgrad_tiles(target, kind),
        target=target,
        num_programs=num_programs,
    )


def sum_by_expert(
    rows_PN: Float[Tensor, "P N"], dispatch: Dispatch, *, out_dtype: torch.dtype = torch.float32
) -> Float[Tensor, "E N"]:
    """Each expert's rows summed in f32, the gradient of its bias; zeros where it has none.

    Takes and raises what `grouped_wgrad` does for bf16, and f32 on every device.
    """
    check_dtype("rows", rows_PN, VALUE_DTYPES)
    check_value_dtype(out_dtype)
    if rows_PN.dim() != 2:
        raise ShapeError("rows", rows_PN.shape, "[P, N]")
    _check_dispatch("rows", rows_PN.mT.shape, rows_PN, dispatch)
    target = target_of(dispatch.token_of_row)
    if target.capability == 0:
        return reference.sum_by_expert(rows_PN, dispatch, out_dtype=out_dtype)
    return _launch_sum(rows_PN, dispatch, out_dtype=out_dtype, target=target)


def _check_operands(
    grad_NP: Tensor | MXFP8Tensor, x_KP: Tensor | MXFP8Tensor, dispatch: Dispatch
) -> None:
    if isinstance(grad_NP, MXFP8Tensor) != isinstance(x_KP, MXFP8Tensor):
        raise KernelError("one of grad and x is in MXFP8; both or neither are asked for")
    for name, operand in (("grad", grad_NP), ("x", x_KP)):
        if isinstance(operand, MXFP8Tensor):
            check_mx(name, operand)
            part = operand.codes
        else:
            on_cpu = operand.device.type == "cpu"
            check_dtype(name, operand, VALUE_DTYPES if on_cpu else [torch.bfloat16])
            part = operand
        _check_dispatch(name, operand.shape, part, dispatch)


def _check_dispatch(name: str, shape: torch.Size, part: Tensor, dispatch: Dispatch) -> None:
    if len(shape) != 2 or shape[1] != dispatch.num_rows:
        raise ShapeError(name, shape, f"[*, {dispatch.num_rows}], the dispatch's rows,")
    check_device(**{name: part, "dispatch": dispatch.token_of_row})
    if dispatch.block_m % BLOCK:
        raise KernelError(
            f"the dispatch's block_m is {dispatch.block_m}; a multiple of {BLOCK} is asked for, so "
            "that blocks of rows that share a scale belong to one expert"
        )


# Triton is imported where kernels are launched: a CPU's users do without it.


def _launch_wgrad(
    grad_NP: Tensor | MXFP8Tensor,
    x_KP: Tensor | MXFP8Tensor,
    dispatch: Dispatch,
    *,
    out_dtype: torch.dtype,
    tiles: WgradTiles,
    target: Target,
    num_programs: int,
) -> Tensor:
    from composer_kernels.grouped_gemm_details import _wgrad

    E = dispatch.num_tokens_per_expert.shape[0]
    N, K = grad_NP.shape[0], x_KP.shape[0]
    grad, grad_scales = _bytes(grad_NP)
    x, x_scales = _bytes(x_KP)
    out_ENK = torch.empty(E, N, K, dtype=out_dtype, device=grad.device)
    num_tiles = E * -(-N // tiles.block_n) * -(-K // tiles.block_k)
    if num_tiles == 0:
        return out_ENK
    details: Any = _wgrad
    details.wgrad_kernel[(min(num_programs, num_tiles),)](
        out_ENK,
        grad,
        grad_scales,
        x,
        x_scales,
        dispatch.block_offsets,
        dispatch.num_tokens_per_expert,
        E,
        N,
        K,
        *grad.stride(),
        0 if grad_scales is None else grad_scales.stride(0),
        *x.stride(),
        0 if x_scales is None else x_scales.stride(0),
        **wgrad_switches(
            quantized=x_scales is not None, target=target, tiles=tiles, block_m=dispatch.block_m
        ),
    )
    return out_ENK


def wgrad_switches(
    *, quantized: bool, target: Target, tiles: WgradTiles, block_m: int
) -> dict[str, object]:
    """The kernel's `tl.constexpr` arguments and its launch options, for a launch or for ahead-of-time
    compilation. `block_m` is the dispatch's."""
    return {
        "DOT_SCALED": target.has_dot_scaled and quantized,
        "ROWS_PER_BLOCK": block_m,
        "BLOCK_N": tiles.block_n,
        "BLOCK_K": tiles.block_k,
        "BLOCK_R": tiles.block_r,
        "GROUP_N": tiles.group_n,
        "HAS_E4M3_CASTS": target.has_e4m3_casts,
        "INTERPRETED": target.interpreted,
        "num_warps": tiles.num_warps,
        "num_stages": tiles.num_stages,
    }


def _launch_sum(
    rows_PN: Tensor, dispatch: Dispatch, *, out_dtype: torch.dtype, target: Target
) -> Tensor:
    from composer_kernels.grouped_gemm_details import _wgrad

    E, N = dispatch.num_tokens_per_expert.shape[0], rows_PN.shape[1]
    out_EN = torch.empty(E, N, dtype=out_dtype, device=rows_PN.device)
    block_n = 64
    details: Any = _wgrad
    details.sum_by_expert_kernel[(E, -(-N // block_n))](
        out_EN,
        rows_PN.contiguous(),
        dispatch.block_offsets,
        dispatch.num_tokens_per_expert,
        N,
        ROWS_PER_BLOCK=dispatch.block_m,
        BLOCK_R=64,
        BLOCK_N=block_n,
        INTERPRETED=target.interpreted,
    )
    return out_EN


def _bytes(operand: Tensor | MXFP8Tensor) -> tuple[Tensor, Tensor | None]:
    if isinstance(operand, MXFP8Tensor):
        return operand.codes.contiguous().view(torch.uint8), operand.scales.contiguous()
    return operand.detach(), None

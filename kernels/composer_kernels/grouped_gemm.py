"""Grouped GEMM: each row of a permuted buffer times the weights of its expert.

    y[r] = f(x[s(r)] w[e(r)]^T + bias[e(r)])

r a row of the permuted buffer, e(r) its expert, s(r) = r, or with `gather` the token at r; f the
identity or SwiGLU over interleaved rows of w (`composer_kernels.swiglu` has the formula and the
layout).

CUDA tensors are computed by one kernel in `grouped_gemm_details`, CPU tensors by
`reference.grouped_gemm`. Its blocks of rows come from `dispatch`, on the device: nothing waits
for it, and no row depends on which others there are. Sums are f32 and rounded once; no partial
sums are added across programs, so results are the same from run to run. Splitting K, which would
need that, gains little here: the few tokens of decoding still choose several experts each, and
their tiles of N are enough programs to ask for all the memory's speed.

With both operands in MXFP8, targets with `has_dot_scaled` multiply the codes; elsewhere, and for
bf16 activations everywhere, the kernel decodes to bf16, which is exact for E4M3 and E2M1 times a
power of two (down to bf16's smallest subnormal, 2^-133).

The gradient of x is the same product: `grouped_gemm(grad_y, w transposed to [E, K, N])`, in bf16
by a view, `w.mT`, and in MXFP8 from `mxfp8_quantize(w, columns=True)`, whose blocks lie along N.

Dimensions: P rows of the permuted buffer, R rows of x (P, or with `gather` the T tokens), E
experts, N outputs (2 F before SwiGLU), K contracted dim, O = N, or with SwiGLU N / 2. The
`_launch` function runs the kernel on any device that Triton takes, its interpreter included;
tests call it.
"""

from dataclasses import dataclass, replace
from typing import Any, TypedDict

import torch
from jaxtyping import Float
from torch import Tensor

from composer_kernels import reference
from composer_kernels.errors import (
    KernelError,
    ShapeError,
    check_device,
    check_dtype,
    check_shape,
)
from composer_kernels.formats import VALUE_DTYPES, MXFP4Tensor, MXFP8Tensor, ScaleRule
from composer_kernels.mx import check_mx, check_value_dtype
from composer_kernels.reference.mxfp8 import e4m3_carry
from composer_kernels.routes import Dispatch
from composer_kernels.swiglu import SwiGLU
from composer_kernels.target_info import Target, num_multiprocessors, target_of
from composer_kernels.tiles import Kind, Tiles, choose_tiles, mean_rows_per_expert


def grouped_gemm(
    x_RK: Float[Tensor, "R K"] | MXFP8Tensor,
    w_ENK: Float[Tensor, "E N K"] | MXFP8Tensor | MXFP4Tensor,
    dispatch: Dispatch,
    *,
    bias_EN: Float[Tensor, "E N"] | None = None,
    activation: SwiGLU | None = None,
    gather: bool = False,
    out_dtype: torch.dtype = torch.bfloat16,
    tiles: Tiles | None = None,
) -> Float[Tensor, "P O"]:
    """Multiply every row by its expert's weights; rows without a token become zeros.

    Pairs of operands: MXFP8 with MXFP8, and bf16 with MXFP8, MXFP4 or bf16; on the CPU f32 stands
    for bf16 too. `bias_EN` is bf16 or f32. Rows of x without a token are never read, so they may
    hold anything. `gather`: x has a row for each token, and the kernel picks them by
    `dispatch.token_of_row`, which saves `permute`. The contracted dimension lies in one piece in
    every tensor but a bf16 `w_ENK`, whose strides are free. `tiles`: the saved choice by default;
    without effect on the CPU.

    No gradient is kept on CUDA. Raises a `KernelError` that names the tensor where shapes,
    dtypes, devices or strides do not fit.
    """
    options = _Options(bias_EN=bias_EN, activation=activation, gather=gather)
    _check(x_RK, w_ENK, dispatch, **options)
    check_value_dtype(out_dtype)
    target = target_of(dispatch.token_of_row)
    if target.capability == 0:
        return reference.grouped_gemm(x_RK, w_ENK, dispatch, **options, out_dtype=out_dtype)
    shape = _out_shape(w_ENK, dispatch, activation)
    y_PO = torch.empty(shape, dtype=out_dtype, device=dispatch.token_of_row.device)
    tiles = tiles or _saved_tiles(target, x_RK, w_ENK, dispatch)
    _launch(x_RK, w_ENK, dispatch, **options, out=y_PO, tiles=tiles, target=target)
    return y_PO


def grouped_gemm_quantized(
    x_RK: Float[Tensor, "R K"] | MXFP8Tensor,
    w_ENK: Float[Tensor, "E N K"] | MXFP8Tensor | MXFP4Tensor,
    dispatch: Dispatch,
    *,
    bias_EN: Float[Tensor, "E N"] | None = None,
    activation: SwiGLU | None = None,
    gather: bool = False,
    rule: ScaleRule = ScaleRule.CEIL,
    tiles: Tiles | None = None,
) -> MXFP8Tensor:
    """`grouped_gemm` with an MXFP8 result `[P, O]`: `mxfp8_quantize` of its f32 sums.

    The sums never reach memory: what a next `grouped_gemm` reads is a quarter of f32.
    """
    options = _Options(bias_EN=bias_EN, activation=activation, gather=gather)
    _check(x_RK, w_ENK, dispatch, **options)
    target = target_of(dispatch.token_of_row)
    if target.capability == 0:
        return reference.grouped_gemm_quantized(x_RK, w_ENK, dispatch, **options, rule=rule)
    shape = _out_shape(w_ENK, dispatch, activation)
    y_PO = MXFP8Tensor.empty(shape, dispatch.token_of_row.device)
    tiles = tiles or _saved_tiles(target, x_RK, w_ENK, dispatch)
    _launch(x_RK, w_ENK, dispatch, **options, out=y_PO, rule=rule, tiles=tiles, target=target)
    return y_PO


def kind_of(x: Tensor | MXFP8Tensor, w: Tensor | MXFP8Tensor | MXFP4Tensor) -> Kind:
    """The pair of formats. Raises `KernelError` for MXFP8 activations with other weights."""
    match x, w:
        case MXFP8Tensor(), MXFP8Tensor():
            return Kind.MXFP8_MXFP8
        case Tensor(), MXFP8Tensor():
            return Kind.BF16_MXFP8
        case Tensor(), MXFP4Tensor():
            return Kind.BF16_MXFP4
        case Tensor(), Tensor():
            return Kind.BF16_BF16
        case _:
            raise KernelError("x is in MXFP8 and w is not; MXFP8 activations take MXFP8 weights")


class _Options(TypedDict):
    """What a launch, its twin and the checks take alike; see `grouped_gemm`."""

    bias_EN: Tensor | None
    activation: SwiGLU | None
    gather: bool


def _out_shape(
    w_ENK: Tensor | MXFP8Tensor | MXFP4Tensor, dispatch: Dispatch, activation: SwiGLU | None
) -> tuple[int, int]:
    return dispatch.num_rows, w_ENK.shape[1] if activation is None else w_ENK.shape[1] // 2


def _saved_tiles(
    target: Target,
    x_RK: Tensor | MXFP8Tensor,
    w_ENK: Tensor | MXFP8Tensor | MXFP4Tensor,
    dispatch: Dispatch,
) -> Tiles:
    num_tokens, top_k = dispatch.row_of_slot.shape
    E, N, K = w_ENK.shape
    rows_per_expert = mean_rows_per_expert(num_tokens, top_k, E)
    tiles = choose_tiles(target, kind_of(x_RK, w_ENK), rows_per_expert, N, K)
    return replace(tiles, block_m=min(tiles.block_m, dispatch.block_m))


def _check(
    x_RK: Tensor | MXFP8Tensor,
    w_ENK: Tensor | MXFP8Tensor | MXFP4Tensor,
    dispatch: Dispatch,
    *,
    bias_EN: Tensor | None,
    activation: SwiGLU | None,
    gather: bool,
) -> None:
    """Raises a `KernelError` unless the operands fit together."""
    kind = kind_of(x_RK, w_ENK)
    if len(w_ENK.shape) != 3:
        raise ShapeError("w", w_ENK.shape, "[E, N, K]")
    E, N, K = w_ENK.shape
    check_shape("dispatch.num_tokens_per_expert", dispatch.num_tokens_per_expert, [E])
    num_rows = dispatch.row_of_slot.shape[0] if gather else dispatch.num_rows
    if tuple(x_RK.shape) != (num_rows, K):
        raise ShapeError(
            "x", x_RK.shape, f"{[num_rows, K]}, {'tokens' if gather else 'rows'} by K,"
        )
    if activation is not None and N % 2:
        raise ShapeError("w", w_ENK.shape, "[E, 2 F, K], gate and up interleaved,")
    parts = _check_operand("x", x_RK) | _check_operand("w", w_ENK)
    if bias_EN is not None:
        check_shape("bias", bias_EN, [E, N])
        check_dtype("bias", bias_EN, VALUE_DTYPES)
        parts["bias"] = bias_EN
    check_device(**parts, **{"dispatch.token_of_row": dispatch.token_of_row})
    for name, part in parts.items():
        strides_are_free = name == "w" and kind is Kind.BF16_BF16
        if part.shape[-1] > 1 and part.stride(-1) != 1 and not strides_are_free:
            raise KernelError(
                f"{name} has stride {part.stride(-1)} along its last dimension, not 1"
            )


def _check_operand(name: str, operand: Tensor | MXFP8Tensor | MXFP4Tensor) -> dict[str, Tensor]:
    """The tensors that an operand is made of, by name."""
    if isinstance(operand, Tensor):
        on_cpu = operand.device.type == "cpu"
        check_dtype(name, operand, VALUE_DTYPES if on_cpu else [torch.bfloat16])
        return {name: operand}
    check_mx(name, operand)
    return {f"{name}.codes": operand.codes, f"{name}.scales": operand.scales}


# Triton is imported where kernels are launched: a CPU's users do without it.


@dataclass(frozen=True, slots=True)
class _Bytes:
    """An operand as the kernel takes it: codes as uint8."""

    elements: Tensor
    scales: Tensor | None
    format: str


def _launch(
    x_RK: Tensor | MXFP8Tensor,
    w_ENK: Tensor | MXFP8Tensor | MXFP4Tensor,
    dispatch: Dispatch,
    *,
    bias_EN: Tensor | None = None,
    activation: SwiGLU | None = None,
    gather: bool = False,
    out: Tensor | MXFP8Tensor,
    rule: ScaleRule = ScaleRule.CEIL,
    tiles: Tiles,
    target: Target,
    num_programs: int | None = None,
) -> None:
    """Write every element of `out`. `num_programs`: the grid; None: as `tiles` says."""
    from composer_kernels.grouped_gemm_details import _grouped_gemm

    if dispatch.block_m % tiles.block_m:
        raise KernelError(
            f"tiles.block_m is {tiles.block_m}; a divisor of the dispatch's {dispatch.block_m} "
            "is asked for"
        )
    _, N, K = w_ENK.shape
    x, w, y = _bytes(x_RK), _bytes(w_ENK), _bytes(out)
    num_row_tiles = dispatch.num_rows // tiles.block_m
    num_tiles = num_row_tiles * -(-N // tiles.block_n)
    if num_tiles == 0:
        return
    if num_programs is None:
        num_programs = num_multiprocessors(x.elements.device) * tiles.programs_per_sm
    details: Any = _grouped_gemm
    kernel = details.grouped_gemm_kernel
    kernel[(min(num_programs, num_tiles),)](
        y.elements,
        y.scales,
        x.elements,
        x.scales,
        w.elements,
        w.scales,
        bias_EN,
        dispatch.expert_of_block,
        dispatch.token_of_row,
        num_row_tiles,
        N,
        K,
        y.elements.stride(0),
        _stride(y.scales, 0),
        x.elements.stride(0),
        _stride(x.scales, 0),
        *w.elements.stride(),
        _stride(w.scales, 0),
        _stride(w.scales, 1),
        _stride(bias_EN, 0),
        **kernel_switches(
            x_format=x.format,
            w_format=w.format,
            target=target,
            tiles=tiles,
            k=K,
            block_m=dispatch.block_m,
            activation=activation,
            gather=gather,
            rule=rule,
        ),
    )


def kernel_switches(
    *,
    x_format: str,
    w_format: str,
    target: Target,
    tiles: Tiles,
    k: int,
    block_m: int,
    activation: SwiGLU | None,
    gather: bool,
    rule: ScaleRule = ScaleRule.CEIL,
) -> dict[str, object]:
    """The kernel's `tl.constexpr` arguments and its launch options, for a launch or for ahead-of-time
    compilation. Formats are `bf16`, `e4m3` or `e2m1`; `block_m` is the dispatch's."""
    constants = activation or SwiGLU()
    return {
        "X_FORMAT": x_format,
        "W_FORMAT": w_format,
        "DOT_SCALED": target.has_dot_scaled and x_format == "e4m3",
        "GATHER": gather,
        "SWIGLU": activation is not None,
        "ALPHA": constants.alpha,
        "LIMIT": constants.limit,
        "UP_OFFSET": constants.up_offset,
        "CARRY": e4m3_carry(rule),
        "ROWS_PER_BLOCK": block_m,
        "BLOCK_M": tiles.block_m,
        "BLOCK_N": tiles.block_n,
        "BLOCK_K": tiles.block_k,
        "GROUP_M": tiles.group_m,
        "SWAP": tiles.swap_operands,
        "WHOLE_K": k > 0 and k % tiles.block_k == 0,
        "HAS_E4M3_CASTS": target.has_e4m3_casts,
        "INTERPRETED": target.interpreted,
        "num_warps": tiles.num_warps,
        "num_stages": tiles.num_stages,
    }


def _bytes(operand: Tensor | MXFP8Tensor | MXFP4Tensor) -> _Bytes:
    match operand:
        case MXFP8Tensor(codes, scales):
            return _Bytes(codes.view(torch.uint8), scales, "e4m3")
        case MXFP4Tensor(codes, scales):
            return _Bytes(codes, scales, "e2m1")
        case Tensor():
            return _Bytes(operand.detach(), None, "bf16")


def _stride(tensor: Tensor | None, dim: int) -> int:
    return 0 if tensor is None else tensor.stride(dim)

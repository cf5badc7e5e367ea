"""Grouped GEMM in plain PyTorch: what the kernels of `composer_kernels.grouped_gemm` are measured
against.

    y[r] = f(x[s(r)] w[e(r)]^T + bias[e(r)])

r a row of the permuted buffer, e(r) its expert, s(r) = r, or with `gather` its token; f the
identity or SwiGLU. Operands are dequantised to f32, products and sums are f32, and the result is
rounded once.

Dimensions: P rows of the permuted buffer, R rows of x (P, or with `gather` the T tokens), E
experts, N outputs (2 F before SwiGLU), K contracted dim, O = N, or with SwiGLU N / 2.
"""

import torch
from jaxtyping import Float
from torch import Tensor

from composer_kernels.formats import MXFP4Tensor, MXFP8Tensor, ScaleRule
from composer_kernels.reference._products import product
from composer_kernels.reference.mxfp4 import mxfp4_dequantize
from composer_kernels.reference.mxfp8 import mxfp8_dequantize, mxfp8_quantize
from composer_kernels.routes import Dispatch
from composer_kernels.swiglu import SwiGLU


def swiglu(gate_up: Float[Tensor, "*rows G"], activation: SwiGLU) -> Float[Tensor, "*rows F"]:
    """SwiGLU of interleaved columns, gate first, in the input's dtype; differentiable."""
    gate, up = gate_up[..., 0::2], gate_up[..., 1::2]
    if activation.limit is not None:
        gate = gate.clamp(max=activation.limit)
        up = up.clamp(-activation.limit, activation.limit)
    return gate * torch.sigmoid(activation.alpha * gate) * (up + activation.up_offset)


def grouped_gemm(
    x_RK: Float[Tensor, "R K"] | MXFP8Tensor,
    w_ENK: Float[Tensor, "E N K"] | MXFP8Tensor | MXFP4Tensor,
    dispatch: Dispatch,
    *,
    bias_EN: Float[Tensor, "E N"] | None = None,
    activation: SwiGLU | None = None,
    gather: bool = False,
    out_dtype: torch.dtype = torch.bfloat16,
) -> Float[Tensor, "P O"]:
    """Twin of `composer_kernels.grouped_gemm`; waits for the device to learn which experts have rows.

    Differentiable in x, w and bias where they are not quantised.
    """
    return _grouped_gemm_f32(x_RK, w_ENK, dispatch, bias_EN, activation, gather).to(out_dtype)


def grouped_gemm_quantized(
    x_RK: Float[Tensor, "R K"] | MXFP8Tensor,
    w_ENK: Float[Tensor, "E N K"] | MXFP8Tensor | MXFP4Tensor,
    dispatch: Dispatch,
    *,
    bias_EN: Float[Tensor, "E N"] | None = None,
    activation: SwiGLU | None = None,
    gather: bool = False,
    rule: ScaleRule = ScaleRule.CEIL,
) -> MXFP8Tensor:
    """Twin of `composer_kernels.grouped_gemm_quantized`: the f32 sums, quantised along each row."""
    y_PO = _grouped_gemm_f32(x_RK, w_ENK, dispatch, bias_EN, activation, gather)
    return mxfp8_quantize(y_PO, rule=rule)


def _grouped_gemm_f32(
    x_RK: Tensor | MXFP8Tensor,
    w_ENK: Tensor | MXFP8Tensor | MXFP4Tensor,
    dispatch: Dispatch,
    bias_EN: Tensor | None,
    activation: SwiGLU | None,
    gather: bool,
) -> Tensor:
    x_RK = mxfp8_dequantize(x_RK) if isinstance(x_RK, MXFP8Tensor) else x_RK.float()
    num_outputs = w_ENK.shape[1] if activation is None else w_ENK.shape[1] // 2
    y_PO = x_RK.new_zeros(dispatch.num_rows, num_outputs)
    for expert, count in enumerate(map(int, dispatch.num_tokens_per_expert)):
        if count == 0:
            continue
        first = int(dispatch.block_offsets[expert])
        rows = slice(first, first + count)
        x = x_RK[dispatch.token_of_row[rows]] if gather else x_RK[rows]
        y = product(x, dequantize_expert(w_ENK, expert))
        if bias_EN is not None:
            y = y + bias_EN[expert].float()
        y_PO[rows] = y if activation is None else swiglu(y, activation)
    return y_PO


def dequantize_expert(w_ENK: Tensor | MXFP8Tensor | MXFP4Tensor, expert: int) -> Tensor:
    """One expert's weights `[N, K]` in f32: the others stay as small as they are."""
    if isinstance(w_ENK, MXFP8Tensor):
        return mxfp8_dequantize(MXFP8Tensor(w_ENK.codes[expert], w_ENK.scales[expert]))
    if isinstance(w_ENK, MXFP4Tensor):
        return mxfp4_dequantize(MXFP4Tensor(w_ENK.codes[expert], w_ENK.scales[expert]))
    return w_ENK[expert].float()

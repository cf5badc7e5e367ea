"""SwiGLU of rows that are stored, and its gradient.

    h = g s (u + c),  s = sigmoid(alpha g),  g = min(gate, limit),  u = clamp(up, -limit, limit)
    grad_gate = grad_h (u + c) s (1 + alpha g (1 - s))   where gate <= limit, else 0
    grad_up   = grad_h g s                               where |up| <= limit, else 0

c is UP_OFFSET. Gate j stands in column 2 j, up j in column 2 j + 1. Indices: p row, f column of h;
a program has one tile of BLOCK_P x BLOCK_F. Source: Shazeer, "GLU Variants Improve Transformer",
2020, section 2; alpha, limit and c are gpt-oss's.
"""

import triton
import triton.language as tl

from composer_kernels.grouped_gemm_details._epilogue import swiglu
from composer_kernels.mxfp8_details._decode import from_f32, to_f32


@triton.jit
def _tile(P, COLUMNS, BLOCK_P: tl.constexpr, WIDTH: tl.constexpr):
    """Offsets of this program's tile in rows of COLUMNS, and which of them exist."""
    p = tl.program_id(0).to(tl.int64) * BLOCK_P + tl.arange(0, BLOCK_P)
    column = tl.program_id(1) * WIDTH + tl.arange(0, WIDTH)
    return p[:, None] * COLUMNS + column[None, :], (p < P)[:, None] & (column < COLUMNS)[None, :]


@triton.jit
def swiglu_kernel(
    hidden_ptr,  # [P, F]
    gate_up_ptr,  # [P, 2 F]
    P,
    F,
    ALPHA: tl.constexpr,
    LIMIT: tl.constexpr,
    UP_OFFSET: tl.constexpr,
    BLOCK_P: tl.constexpr,
    BLOCK_F: tl.constexpr,
    INTERPRETED: tl.constexpr,
):
    """Grid: (ceil(P / BLOCK_P), ceil(F / BLOCK_F))."""
    at, inside = _tile(P, 2 * F, BLOCK_P, 2 * BLOCK_F)
    gate_up = to_f32(tl.load(gate_up_ptr + at, mask=inside, other=0.0), INTERPRETED)
    hidden = swiglu(gate_up, ALPHA, LIMIT, UP_OFFSET)
    at, inside = _tile(P, F, BLOCK_P, BLOCK_F)
    hidden = from_f32(hidden, hidden_ptr.dtype.element_ty, INTERPRETED)
    tl.store(hidden_ptr + at, hidden, mask=inside)


@triton.jit
def swiglu_backward_kernel(
    grad_gate_up_ptr,  # [P, 2 F]
    grad_ptr,  # [P, F]
    gate_up_ptr,  # [P, 2 F]
    P,
    F,
    ALPHA: tl.constexpr,
    LIMIT: tl.constexpr,
    UP_OFFSET: tl.constexpr,
    BLOCK_P: tl.constexpr,
    BLOCK_F: tl.constexpr,
    INTERPRETED: tl.constexpr,
):
    """Grid: (ceil(P / BLOCK_P), ceil(F / BLOCK_F))."""
    at, inside = _tile(P, F, BLOCK_P, BLOCK_F)
    grad = to_f32(tl.load(grad_ptr + at, mask=inside, other=0.0), INTERPRETED)
    at, inside = _tile(P, 2 * F, BLOCK_P, 2 * BLOCK_F)
    gate_up = to_f32(tl.load(gate_up_ptr + at, mask=inside, other=0.0), INTERPRETED)
    gate, up = tl.split(tl.reshape(gate_up, (BLOCK_P, BLOCK_F, 2)))
    gate_grad = grad
    up_grad = grad
    if LIMIT is not None:
        # Comparisons are false for NaN, which then stays.
        gate_grad = tl.where(gate > LIMIT, 0.0, grad)
        up_grad = tl.where(tl.abs(up) > LIMIT, 0.0, grad)
        gate = tl.minimum(gate, LIMIT, propagate_nan=tl.PropagateNan.ALL)
        up = tl.clamp(up, -LIMIT, LIMIT, propagate_nan=tl.PropagateNan.ALL)
    sigmoid = 1.0 / (1.0 + tl.exp(-ALPHA * gate))
    gate_grad = gate_grad * (up + UP_OFFSET) * sigmoid * (1.0 + ALPHA * gate * (1.0 - sigmoid))
    up_grad = up_grad * (gate * sigmoid)
    pairs = tl.reshape(tl.join(gate_grad, up_grad), (BLOCK_P, 2 * BLOCK_F))
    pairs = from_f32(pairs, grad_gate_up_ptr.dtype.element_ty, INTERPRETED)
    tl.store(grad_gate_up_ptr + at, pairs, mask=inside)

"""Gradients of the experts' weights and biases: sums over the rows of each expert.

    grad_w[e, n, k] = sum_r grad[n, r] * x[k, r]      grad_bias[e, n] = sum_r rows[r, n]

r runs over the rows of expert e in the permuted buffer, from block_offsets[e] on, in f32. Both
operands of the first have r as their last index: bf16 with any strides, or E4M3 codes (uint8) with
a UE8M0 scale for 32 rows (OCP MX v1.0, section 5.2). An expert's rows start at a multiple of
ROWS_PER_BLOCK, itself one of 32, and padding is zeros, so a block of 32 never holds two experts'
rows, and sums may run to the end of the block. An expert without rows gets zeros.
"""

import triton
import triton.language as tl

from composer_kernels.grouped_gemm_details._grouped_gemm import (
    _add_product,
    _add_scaled_product,
    _dequantize_e4m3,
    _load_columns,
    offsets,
    tile_position,
)
from composer_kernels.mxfp8_details._decode import from_f32, to_f32


@triton.jit
def _rows_of_expert(
    block_offsets_ptr, num_tokens_per_expert_ptr, expert, ROWS_PER_BLOCK: tl.constexpr
):
    """First row, and how many to its last block of 32: both multiples of 32, which the compiler
    has to know to load more than one byte at a time."""
    first = tl.multiple_of(tl.load(block_offsets_ptr + expert), ROWS_PER_BLOCK)
    return first, tl.cdiv(tl.load(num_tokens_per_expert_ptr + expert), 32) * 32


@triton.jit
def wgrad_kernel(
    out_ptr,  # bf16 or f32 [E, N, K]
    grad_ptr,  # [N, P]
    grad_scales_ptr,  # uint8 [N, P / 32], or None
    x_ptr,  # [K, P]
    x_scales_ptr,  # uint8 [K, P / 32], or None
    block_offsets_ptr,  # int32 [E + 1]
    num_tokens_per_expert_ptr,  # int32 [E]
    num_experts,
    N,
    K,
    stride_grad_n,
    stride_grad_r,
    stride_grad_scales,
    stride_x_k,
    stride_x_r,
    stride_x_scales,
    DOT_SCALED: tl.constexpr,
    ROWS_PER_BLOCK: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    BLOCK_R: tl.constexpr,
    GROUP_N: tl.constexpr,
    HAS_E4M3_CASTS: tl.constexpr,
    INTERPRETED: tl.constexpr,
):
    """Tiles of all experts' gradients by a persistent grid: program p of G does tiles p, p + G, …
    An expert's tiles follow one another, so that programs running together read the same rows."""
    tl.static_assert(BLOCK_R % 32 == 0, "a step holds whole blocks of 32 rows")
    tl.static_assert(ROWS_PER_BLOCK % 32 == 0, "a block of 32 rows belongs to one expert")
    QUANTIZED: tl.constexpr = grad_scales_ptr is not None
    num_tiles_n = tl.cdiv(N, BLOCK_N)
    num_tiles_k = tl.cdiv(K, BLOCK_K)
    num_tiles = num_tiles_n * num_tiles_k
    for tile in range(tl.program_id(0), num_experts * num_tiles, tl.num_programs(0)):
        expert = tile // num_tiles
        tile_n, tile_k = tile_position(tile % num_tiles, num_tiles_n, num_tiles_k, GROUP_N)
        n = tile_n * BLOCK_N + tl.arange(0, BLOCK_N)
        k = tile_k * BLOCK_K + tl.arange(0, BLOCK_K)
        in_n = n < N
        in_k = k < K
        first, num_rows = _rows_of_expert(
            block_offsets_ptr, num_tokens_per_expert_ptr, expert, ROWS_PER_BLOCK
        )
        grad_rows = grad_ptr + offsets(n, stride_grad_n) + offsets(first, stride_grad_r)
        x_rows = x_ptr + offsets(k, stride_x_k) + offsets(first, stride_x_r)
        if QUANTIZED:
            grad_scale_rows = grad_scales_ptr + offsets(n, stride_grad_scales) + first // 32
            x_scale_rows = x_scales_ptr + offsets(k, stride_x_scales) + first // 32

        acc = tl.zeros((BLOCK_N, BLOCK_K), tl.float32)
        for r in range(0, num_rows, BLOCK_R):
            grad = _load_columns(grad_rows, in_n, r, num_rows, stride_grad_r, BLOCK_R, False)
            x = _load_columns(x_rows, in_k, r, num_rows, stride_x_r, BLOCK_R, False)
            if QUANTIZED:
                r32 = r // 32
                end32 = num_rows // 32
                grad_scale = _load_columns(
                    grad_scale_rows, in_n, r32, end32, 1, BLOCK_R // 32, False
                )
                x_scale = _load_columns(x_scale_rows, in_k, r32, end32, 1, BLOCK_R // 32, False)
            if DOT_SCALED:
                acc = _add_scaled_product(grad, grad_scale, x, x_scale, acc, False)
            else:
                if QUANTIZED:
                    grad = _dequantize_e4m3(grad, grad_scale, HAS_E4M3_CASTS, INTERPRETED)
                    x = _dequantize_e4m3(x, x_scale, HAS_E4M3_CASTS, INTERPRETED)
                elif INTERPRETED:
                    grad = to_f32(grad, INTERPRETED)
                    x = to_f32(x, INTERPRETED)
                acc = _add_product(grad, x, acc, False)

        out_rows = out_ptr + (expert.to(tl.int64) * N + n) * K
        value = from_f32(acc, out_ptr.dtype.element_ty, INTERPRETED)
        tl.store(out_rows[:, None] + k[None, :], value, mask=in_n[:, None] & in_k[None, :])


@triton.jit
def sum_by_expert_kernel(
    out_ptr,  # bf16 or f32 [E, N]
    rows_ptr,  # bf16 or f32 [P, N]
    block_offsets_ptr,  # int32 [E + 1]
    num_tokens_per_expert_ptr,  # int32 [E]
    N,
    ROWS_PER_BLOCK: tl.constexpr,
    BLOCK_R: tl.constexpr,
    BLOCK_N: tl.constexpr,
    INTERPRETED: tl.constexpr,
):
    """Grid: (E, ceil(N / BLOCK_N))."""
    expert = tl.program_id(0)
    n = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    first, num_rows = _rows_of_expert(
        block_offsets_ptr, num_tokens_per_expert_ptr, expert, ROWS_PER_BLOCK
    )
    columns = rows_ptr + offsets(first, N) + n
    acc = tl.zeros((BLOCK_R, BLOCK_N), tl.float32)
    for start in range(0, num_rows, BLOCK_R):
        r = start + tl.arange(0, BLOCK_R)
        mask = (r < num_rows)[:, None] & (n < N)[None, :]
        rows = tl.load(columns[None, :] + offsets(r, N)[:, None], mask=mask, other=0.0)
        acc += to_f32(rows, INTERPRETED)
    value = from_f32(tl.sum(acc, 0), out_ptr.dtype.element_ty, INTERPRETED)
    tl.store(out_ptr + expert.to(tl.int64) * N + n, value, mask=n < N)

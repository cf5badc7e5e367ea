"""Grouped GEMM over blocks of rows of one expert: the one kernel behind every kind and target.

    y[r, n] = f(sum_k x[s(r), k] * w[e(r), n, k] + bias[e(r), n])

r a row of the permuted buffer, e(r) the expert of its block, s(r) the row of x that it reads: r
itself, or with GATHER the token at r. n counts outputs and k the contracted dimension; the sum
runs in f32. f is the identity or SwiGLU over the pairs n = 2j (gate), 2j + 1 (up); see
`_epilogue`. Rows without a token are zeros, whatever x holds there, so every row of the output is
written.

x and w are bf16, E4M3 codes or, for w, E2M1 codes, two a byte, low four bits first. Codes come as
uint8, which every target loads; scales are UE8M0, one for 32 elements along k (OCP MX v1.0,
section 5.2).
"""

import triton
import triton.language as tl

from composer_kernels.grouped_gemm_details._epilogue import quantize_rows, swiglu
from composer_kernels.mxfp8_details._decode import (
    e2m1_to_f32,
    e4m3_to_f32,
    from_f32,
    to_f32,
    ue8m0_to_f32,
)


@triton.jit
def offsets(index, stride):
    """Distances from an array's start, in elements, in 64 bits: experts' weights alone pass 2^31."""
    return index.to(tl.int64) * stride


@triton.jit
def tile_position(tile, num_tiles_m, num_tiles_n, GROUP_M: tl.constexpr):
    """Row and column of the tile that comes `tile`-th.

    Bands of GROUP_M rows of tiles; inside a band down first, so that programs running together
    share the columns of w that one of them brought to the L2 cache.
    """
    band = tile // (GROUP_M * num_tiles_n)
    place = tile % (GROUP_M * num_tiles_n)
    height = tl.minimum(num_tiles_m - band * GROUP_M, GROUP_M)
    return band * GROUP_M + place % height, place // height


@triton.jit
def _load_columns(
    first_of_row, in_range, start, end, stride, WIDTH: tl.constexpr, WHOLE: tl.constexpr
):
    """`[rows, WIDTH]` elements from column `start` on; zeros from column `end` on, and outside
    `in_range`."""
    columns = start + tl.arange(0, WIDTH)
    pointers = first_of_row[:, None] + offsets(columns, stride)[None, :]
    if WHOLE:
        return tl.load(pointers, mask=in_range[:, None], other=0)
    return tl.load(pointers, mask=in_range[:, None] & (columns < end)[None, :], other=0)


@triton.jit
def _load_scales(first_of_row, in_range, k, K, BLOCK_K: tl.constexpr, WHOLE: tl.constexpr):
    """`[rows, BLOCK_K // 32]` scales of the step that begins at k; zeros from K on."""
    return _load_columns(first_of_row, in_range, k // 32, tl.cdiv(K, 32), 1, BLOCK_K // 32, WHOLE)


@triton.jit
def ue8m0_to_bf16(scales):
    bits = (scales.to(tl.uint16) << 7) | tl.where(scales == 0, 0x40, 0).to(tl.uint16)
    bits = tl.where(scales == 255, 0x7FC0, bits).to(tl.uint16)
    return bits.to(tl.bfloat16, bitcast=True)


@triton.jit
def _apply_scales(values, scales, INTERPRETED: tl.constexpr):
    """Each block of 32 values times its scale, exact in bf16: a code has at most 4 significant
    bits."""
    ROWS: tl.constexpr = values.shape[0]
    WIDTH: tl.constexpr = values.shape[1]
    if INTERPRETED:
        scale = ue8m0_to_f32(scales)
    else:
        values = values.to(tl.bfloat16)
        scale = ue8m0_to_bf16(scales)
    blocks = tl.reshape(values, (ROWS, WIDTH // 32, 32)) * scale[:, :, None]
    return tl.reshape(blocks, (ROWS, WIDTH))


@triton.jit
def _dequantize_e4m3(codes, scales, HAS_E4M3_CASTS: tl.constexpr, INTERPRETED: tl.constexpr):
    return _apply_scales(e4m3_to_f32(codes, HAS_E4M3_CASTS), scales, INTERPRETED)


@triton.jit
def _dequantize_e2m1(pairs, scales, INTERPRETED: tl.constexpr):
    codes = tl.join(pairs & 0xF, pairs >> 4)
    codes = tl.reshape(codes, (pairs.shape[0], 2 * pairs.shape[1]))
    return _apply_scales(e2m1_to_f32(codes), scales, INTERPRETED)


@triton.jit
def _add_product(x, w, acc, SWAP: tl.constexpr):
    if SWAP:
        return tl.dot(w, x.T, acc)
    else:
        return tl.dot(x, w.T, acc)


@triton.jit
def _add_scaled_product(x, x_scale, w, w_scale, acc, SWAP: tl.constexpr):
    if SWAP:
        return tl.dot_scaled(w, w_scale, "e4m3", x.T, x_scale, "e4m3", acc)
    else:
        return tl.dot_scaled(x, x_scale, "e4m3", w.T, w_scale, "e4m3", acc)


@triton.jit
def grouped_gemm_kernel(
    out_ptr,
    out_scales_ptr,
    x_ptr,
    x_scales_ptr,
    w_ptr,
    w_scales_ptr,
    bias_ptr,
    expert_of_block_ptr,
    token_of_row_ptr,
    num_row_tiles,
    N,
    K,
    stride_out,
    stride_out_scales,
    stride_x,
    stride_x_scales,
    stride_w_expert,
    stride_w_row,
    stride_w_k,
    stride_ws_expert,
    stride_ws_row,
    stride_bias,
    X_FORMAT: tl.constexpr,
    W_FORMAT: tl.constexpr,
    DOT_SCALED: tl.constexpr,
    GATHER: tl.constexpr,
    SWIGLU: tl.constexpr,
    ALPHA: tl.constexpr,
    LIMIT: tl.constexpr,
    UP_OFFSET: tl.constexpr,
    CARRY: tl.constexpr,
    ROWS_PER_BLOCK: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    GROUP_M: tl.constexpr,
    SWAP: tl.constexpr,
    WHOLE_K: tl.constexpr,
    HAS_E4M3_CASTS: tl.constexpr,
    INTERPRETED: tl.constexpr,
):
    """Tiles of y by a persistent grid: program p of G does tiles p, p + G, p + 2 G, …

    out_scales_ptr given: y is quantised to MXFP8, codes as uint8. SWAP computes a tile as w x^T,
    so that w fills the long side of the matrix instruction when the rows are few. WHOLE_K:
    BLOCK_K divides K.
    """
    tl.static_assert(BLOCK_K % 32 == 0, "a tile's k holds whole blocks of 32")
    tl.static_assert(ROWS_PER_BLOCK % BLOCK_M == 0, "a tile's rows belong to one expert")
    WIDTH: tl.constexpr = BLOCK_N // 2 if SWIGLU else BLOCK_N
    tl.static_assert(
        out_scales_ptr is None or WIDTH % 32 == 0, "a tile's outputs hold whole blocks of 32"
    )

    num_tiles_n = tl.cdiv(N, BLOCK_N)
    num_outputs = N // 2 if SWIGLU else N
    for tile in range(tl.program_id(0), num_row_tiles * num_tiles_n, tl.num_programs(0)):
        tile_m, tile_n = tile_position(tile, num_row_tiles, num_tiles_n, GROUP_M)
        rows = tile_m * BLOCK_M + tl.arange(0, BLOCK_M)
        columns = tile_n * BLOCK_N + tl.arange(0, BLOCK_N)
        expert = tl.load(expert_of_block_ptr + tile_m * BLOCK_M // ROWS_PER_BLOCK)
        tokens = tl.load(token_of_row_ptr + rows)
        has_token = tokens >= 0
        in_n = columns < N

        # An unused block reads expert 0's addresses zero times.
        end = tl.where(expert >= 0, K, 0)
        expert = tl.maximum(expert, 0)
        source = tl.maximum(tokens, 0) if GATHER else rows
        x_rows = x_ptr + offsets(source, stride_x)
        w_rows = w_ptr + offsets(expert, stride_w_expert) + offsets(columns, stride_w_row)
        if X_FORMAT == "e4m3":
            xs_rows = x_scales_ptr + offsets(source, stride_x_scales)
        if W_FORMAT != "bf16":
            ws_rows = (
                w_scales_ptr + offsets(expert, stride_ws_expert) + offsets(columns, stride_ws_row)
            )

        if SWAP:
            acc = tl.zeros((BLOCK_N, BLOCK_M), tl.float32)
        else:
            acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
        # Loads of a few bytes a thread are not made asynchronous, so a step loads the scales of the
        # next one. `dot_scaled` wants them loaded in its own step: Triton 3.7 compiles no other.
        if X_FORMAT == "e4m3" and not DOT_SCALED:
            x_scale = _load_scales(xs_rows, has_token, 0, K, BLOCK_K, WHOLE_K)
        if W_FORMAT != "bf16" and not DOT_SCALED:
            w_scale = _load_scales(ws_rows, in_n, 0, K, BLOCK_K, WHOLE_K)
        for k in range(0, end, BLOCK_K):
            if DOT_SCALED:
                x_scale = _load_scales(xs_rows, has_token, k, K, BLOCK_K, WHOLE_K)
                w_scale = _load_scales(ws_rows, in_n, k, K, BLOCK_K, WHOLE_K)
            else:
                if X_FORMAT == "e4m3":
                    next_x_scale = _load_scales(xs_rows, has_token, k + BLOCK_K, K, BLOCK_K, False)
                if W_FORMAT != "bf16":
                    next_w_scale = _load_scales(ws_rows, in_n, k + BLOCK_K, K, BLOCK_K, False)
            x = _load_columns(x_rows, has_token, k, K, 1, BLOCK_K, WHOLE_K)
            if W_FORMAT == "e2m1":
                w = _load_columns(w_rows, in_n, k // 2, K // 2, 1, BLOCK_K // 2, WHOLE_K)
            else:
                w = _load_columns(w_rows, in_n, k, K, stride_w_k, BLOCK_K, WHOLE_K)

            if DOT_SCALED:
                acc = _add_scaled_product(x, x_scale, w, w_scale, acc, SWAP)
            else:
                if X_FORMAT == "e4m3":
                    x = _dequantize_e4m3(x, x_scale, HAS_E4M3_CASTS, INTERPRETED)
                    x_scale = next_x_scale
                elif INTERPRETED:
                    x = to_f32(x, INTERPRETED)
                if W_FORMAT == "e4m3":
                    w = _dequantize_e4m3(w, w_scale, HAS_E4M3_CASTS, INTERPRETED)
                elif W_FORMAT == "e2m1":
                    w = _dequantize_e2m1(w, w_scale, INTERPRETED)
                elif INTERPRETED:
                    w = to_f32(w, INTERPRETED)
                if W_FORMAT != "bf16":
                    w_scale = next_w_scale
                acc = _add_product(x, w, acc, SWAP)

        y = acc.T if SWAP else acc
        if bias_ptr is not None:
            bias = tl.load(bias_ptr + offsets(expert, stride_bias) + columns, mask=in_n, other=0)
            y += to_f32(bias, INTERPRETED)[None, :]
        if SWIGLU:
            y = swiglu(y, ALPHA, LIMIT, UP_OFFSET)
        y = tl.where(has_token[:, None], y, 0.0)

        out_columns = tile_n * WIDTH + tl.arange(0, WIDTH)
        out_rows = out_ptr + offsets(rows, stride_out)
        out_mask = (out_columns < num_outputs)[None, :]
        if out_scales_ptr is None:
            y = from_f32(y, out_ptr.dtype.element_ty, INTERPRETED)
            tl.store(out_rows[:, None] + out_columns[None, :], y, mask=out_mask)
        else:
            codes, scales = quantize_rows(y, CARRY, HAS_E4M3_CASTS)
            tl.store(out_rows[:, None] + out_columns[None, :], codes, mask=out_mask)
            scale_columns = tile_n * (WIDTH // 32) + tl.arange(0, WIDTH // 32)
            scale_rows = out_scales_ptr + offsets(rows, stride_out_scales)
            tl.store(
                scale_rows[:, None] + scale_columns[None, :],
                scales,
                mask=(scale_columns < tl.cdiv(num_outputs, 32))[None, :],
            )

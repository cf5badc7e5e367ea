"""MXFP8 to and from bf16 and f32. The formula is that of `composer_kernels.reference.mxfp8`.

Indices: b matrix, m row, k column; a program has one tile of BLOCK_M x BLOCK_K of one matrix.
"""

import triton
import triton.language as tl

from composer_kernels.mxfp8_details._decode import (
    e4m3_to_f32,
    f32_to_e4m3,
    from_f32,
    to_f32,
    ue8m0_to_f32,
)

F32_INFINITY = tl.constexpr(0x7F800000)
E4M3_EMAX = tl.constexpr(8)
E4M3_NAN = tl.constexpr(0x7F)
UE8M0_NAN = tl.constexpr(255)


@triton.jit
def block_scales(amax_bits, CARRY: tl.constexpr):
    """int32 UE8M0 codes from the f32 bits of blocks' largest magnitudes.

    CARRY is added to the bits; 0: the floor rule; `reference.mxfp8.E4M3_CARRY`: the ceil rule.
    """
    exponent = ((amax_bits + CARRY) >> 23).to(tl.int32)
    scales = tl.maximum(exponent - E4M3_EMAX, 0)
    return tl.where(amax_bits < F32_INFINITY, scales, UE8M0_NAN)


@triton.jit
def block_codes(x, scales, HAS_E4M3_CASTS: tl.constexpr):
    """E4M3 codes of x, given scales that broadcast against it."""
    inverse = ((254 - scales) << 23).to(tl.float32, bitcast=True)
    codes = f32_to_e4m3(x * inverse, HAS_E4M3_CASTS)
    return tl.where(scales == UE8M0_NAN, E4M3_NAN, codes).to(tl.uint8)


@triton.jit
def magnitude_bits(x):
    """Bits of |x|: they order as magnitudes do, NaN above infinity above numbers."""
    return x.to(tl.uint32, bitcast=True) & 0x7FFFFFFF


@triton.jit
def quantize_kernel(
    x_ptr,  # bf16 or f32 [B, M, K], any strides
    row_codes_ptr,  # uint8 [B, M, K]
    row_scales_ptr,  # uint8 [B, M, ceil(K / 32)]
    column_codes_ptr,  # uint8 [B, K, M]; unused without COLUMNS
    column_scales_ptr,  # uint8 [B, K, ceil(M / 32)]; unused without COLUMNS
    M,
    K,
    stride_xb,
    stride_xm,
    stride_xk,
    CARRY: tl.constexpr,
    COLUMNS: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_K: tl.constexpr,
    HAS_E4M3_CASTS: tl.constexpr,
    INTERPRETED: tl.constexpr,
):
    """Grid: (ceil(M / BLOCK_M), ceil(K / BLOCK_K), B). x is read once for both results."""
    tl.static_assert(BLOCK_K % 32 == 0)
    tl.static_assert(BLOCK_M % 32 == 0 or not COLUMNS)
    b = tl.program_id(2).to(tl.int64)
    m = tl.program_id(0).to(tl.int64) * BLOCK_M + tl.arange(0, BLOCK_M)
    k = tl.program_id(1).to(tl.int64) * BLOCK_K + tl.arange(0, BLOCK_K)
    inside = (m < M)[:, None] & (k < K)[None, :]
    x_ptrs = x_ptr + b * stride_xb + m[:, None] * stride_xm + k[None, :] * stride_xk
    x = to_f32(tl.load(x_ptrs, mask=inside, other=0.0), INTERPRETED)

    x_rows = tl.reshape(x, (BLOCK_M, BLOCK_K // 32, 32))
    scales = block_scales(tl.max(magnitude_bits(x_rows), 2), CARRY)
    codes = tl.reshape(block_codes(x_rows, scales[:, :, None], HAS_E4M3_CASTS), (BLOCK_M, BLOCK_K))
    tl.store(row_codes_ptr + (b * M + m)[:, None] * K + k[None, :], codes, mask=inside)
    num_scales = tl.cdiv(K, 32)
    s = tl.program_id(1) * (BLOCK_K // 32) + tl.arange(0, BLOCK_K // 32)
    scale_ptrs = row_scales_ptr + (b * M + m)[:, None] * num_scales + s[None, :]
    scales_inside = (m < M)[:, None] & (s < num_scales)[None, :]
    tl.store(scale_ptrs, scales.to(tl.uint8), mask=scales_inside)

    if COLUMNS:
        x_columns = tl.reshape(x, (BLOCK_M // 32, 32, BLOCK_K))
        scales = block_scales(tl.max(magnitude_bits(x_columns), 1), CARRY)
        codes = block_codes(x_columns, scales[:, None, :], HAS_E4M3_CASTS)
        codes = tl.trans(tl.reshape(codes, (BLOCK_M, BLOCK_K)))
        code_ptrs = column_codes_ptr + (b * K + k)[:, None] * M + m[None, :]
        tl.store(code_ptrs, codes, mask=tl.trans(inside))
        num_scales = tl.cdiv(M, 32)
        s = tl.program_id(0) * (BLOCK_M // 32) + tl.arange(0, BLOCK_M // 32)
        scale_ptrs = column_scales_ptr + (b * K + k)[:, None] * num_scales + s[None, :]
        scales_inside = (k < K)[:, None] & (s < num_scales)[None, :]
        tl.store(scale_ptrs, tl.trans(scales).to(tl.uint8), mask=scales_inside)


@triton.jit
def dequantize_kernel(
    codes_ptr,  # uint8 [M, K]
    scales_ptr,  # uint8 [M, ceil(K / 32)]
    values_ptr,  # bf16 or f32 [M, K]
    M,
    K,
    BLOCK_M: tl.constexpr,
    BLOCK_K: tl.constexpr,
    HAS_E4M3_CASTS: tl.constexpr,
    INTERPRETED: tl.constexpr,
):
    """Grid: (ceil(M / BLOCK_M), ceil(K / BLOCK_K))."""
    tl.static_assert(BLOCK_K % 32 == 0)
    m = tl.program_id(0).to(tl.int64) * BLOCK_M + tl.arange(0, BLOCK_M)
    k = tl.program_id(1) * BLOCK_K + tl.arange(0, BLOCK_K)
    inside = (m < M)[:, None] & (k < K)[None, :]
    offsets = m[:, None] * K + k[None, :]
    codes = tl.load(codes_ptr + offsets, mask=inside, other=0)
    num_scales = tl.cdiv(K, 32)
    s = tl.program_id(1) * (BLOCK_K // 32) + tl.arange(0, BLOCK_K // 32)
    scales_inside = (m < M)[:, None] & (s < num_scales)[None, :]
    scales = tl.load(
        scales_ptr + m[:, None] * num_scales + s[None, :], mask=scales_inside, other=127
    )
    elements = tl.reshape(e4m3_to_f32(codes, HAS_E4M3_CASTS), (BLOCK_M, BLOCK_K // 32, 32))
    values = tl.reshape(elements * ue8m0_to_f32(scales)[:, :, None], (BLOCK_M, BLOCK_K))
    values = from_f32(values, values_ptr.dtype.element_ty, INTERPRETED)
    tl.store(values_ptr + offsets, values, mask=inside)

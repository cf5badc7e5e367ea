"""MXFP4 to bf16 and f32. The formula is that of `composer_kernels.reference.mxfp4`.

Indices: m row, n byte of a row (elements 2 n and 2 n + 1), s block of 16 bytes.
"""

import triton
import triton.language as tl

from composer_kernels.mxfp8_details._decode import e2m1_to_f32, from_f32, ue8m0_to_f32


@triton.jit
def dequantize_kernel(
    codes_ptr,  # uint8 [M, NUM_BYTES], two elements a byte
    scales_ptr,  # uint8 [M, ceil(NUM_BYTES / 16)]
    values_ptr,  # bf16 or f32 [M, 2 * NUM_BYTES]
    M,
    NUM_BYTES,
    BLOCK_M: tl.constexpr,
    BLOCK_BYTES: tl.constexpr,
    INTERPRETED: tl.constexpr,
):
    """Grid: (ceil(M / BLOCK_M), ceil(NUM_BYTES / BLOCK_BYTES))."""
    tl.static_assert(BLOCK_BYTES % 16 == 0)
    m = tl.program_id(0).to(tl.int64) * BLOCK_M + tl.arange(0, BLOCK_M)
    n = tl.program_id(1) * BLOCK_BYTES + tl.arange(0, BLOCK_BYTES)
    inside = (m < M)[:, None] & (n < NUM_BYTES)[None, :]
    codes = tl.load(codes_ptr + m[:, None] * NUM_BYTES + n[None, :], mask=inside, other=0)
    num_scales = tl.cdiv(NUM_BYTES, 16)
    s = tl.program_id(1) * (BLOCK_BYTES // 16) + tl.arange(0, BLOCK_BYTES // 16)
    scales_inside = (m < M)[:, None] & (s < num_scales)[None, :]
    scales = tl.load(
        scales_ptr + m[:, None] * num_scales + s[None, :], mask=scales_inside, other=127
    )
    elements = tl.interleave(e2m1_to_f32(codes & 0xF), e2m1_to_f32(codes >> 4))
    elements = tl.reshape(elements, (BLOCK_M, BLOCK_BYTES // 16, 32))
    values = tl.reshape(elements * ue8m0_to_f32(scales)[:, :, None], (BLOCK_M, 2 * BLOCK_BYTES))
    k = tl.program_id(1) * (2 * BLOCK_BYTES) + tl.arange(0, 2 * BLOCK_BYTES)
    values = from_f32(values, values_ptr.dtype.element_ty, INTERPRETED)
    value_ptrs = values_ptr + m[:, None] * (2 * NUM_BYTES) + k[None, :]
    tl.store(value_ptrs, values, mask=(m < M)[:, None] & (k < 2 * NUM_BYTES)[None, :])

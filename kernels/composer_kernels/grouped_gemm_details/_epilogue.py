"""What a grouped GEMM does with a tile's f32 sums before it stores them.

SwiGLU over pairs of neighbouring columns, gate at 2j and up at 2j + 1:

    h[j] = g * sigmoid(alpha * g) * (u + up_offset),  g = min(gate, limit),  u = clamp(up, -limit,
    limit)

LIMIT None clamps nothing; alpha 1, up_offset 0 is silu(gate) * up. Sources: Shazeer, "GLU
Variants Improve Transformer", 2020, section 2; the clamped form is gpt-oss's.

Quantisation to MXFP8 is that of `mxfp8_quantize`.
"""

import triton
import triton.language as tl

from composer_kernels.mxfp8_details._quantize import block_codes, block_scales, magnitude_bits


@triton.jit
def swiglu(y, ALPHA: tl.constexpr, LIMIT: tl.constexpr, UP_OFFSET: tl.constexpr):
    """`[rows, 2 F]` to `[rows, F]`."""
    gate, up = tl.split(tl.reshape(y, (y.shape[0], y.shape[1] // 2, 2)))
    if LIMIT is not None:
        gate = tl.minimum(gate, LIMIT, propagate_nan=tl.PropagateNan.ALL)
        up = tl.clamp(up, -LIMIT, LIMIT, propagate_nan=tl.PropagateNan.ALL)
    return gate / (1.0 + tl.exp(-ALPHA * gate)) * (up + UP_OFFSET)


@triton.jit
def quantize_rows(y, CARRY: tl.constexpr, HAS_E4M3_CASTS: tl.constexpr):
    """E4M3 codes `[rows, W]` and UE8M0 scales `[rows, W // 32]` of blocks along the rows, both
    uint8."""
    blocks = tl.reshape(y, (y.shape[0], y.shape[1] // 32, 32))
    scales = block_scales(tl.max(magnitude_bits(blocks), 2), CARRY)
    codes = block_codes(blocks, scales[:, :, None], HAS_E4M3_CASTS)
    return tl.reshape(codes, y.shape), scales.to(tl.uint8)

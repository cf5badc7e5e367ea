"""Bits of E4M3, E2M1 and UE8M0 to and from f32, shared by the kernels.

Codes are uint8 throughout, so that they load on targets without an E4M3 type. `HAS_E4M3_CASTS` and
`INTERPRETED` are the fields of `target_info.Target`.
"""

import triton
import triton.language as tl


@triton.jit
def e4m3_to_f32(codes, HAS_E4M3_CASTS: tl.constexpr):
    """Values of E4M3 codes, exact."""
    if HAS_E4M3_CASTS:
        return codes.to(tl.float8e4nv, bitcast=True).to(tl.float32)
    # Exponent and mantissa moved to f32's places are 2^-120 times the value, subnormals included.
    bits = codes.to(tl.uint32)
    magnitude = bits & 0x7F
    moved = tl.where(magnitude == 0x7F, 0x7FC00000, magnitude << 20) | ((bits & 0x80) << 24)
    return moved.to(tl.float32, bitcast=True) * 1.329227995784916e36  # 2^120


@triton.jit
def f32_to_e4m3(y, HAS_E4M3_CASTS: tl.constexpr):
    """Codes of finite y, to nearest, ties to even, saturated at 448."""
    y = tl.minimum(tl.maximum(y, -448.0), 448.0)
    if HAS_E4M3_CASTS:
        return y.to(tl.float8e4nv).to(tl.uint8, bitcast=True)
    bits = y.to(tl.uint32, bitcast=True)
    magnitude = bits & 0x7FFFFFFF
    # Normal results: add just under half of the last place kept, and that place's own bit.
    normal = ((magnitude + 0x7FFFF + ((magnitude >> 20) & 1)) >> 20) - (120 << 3)
    # Below 2^-6: at 2^14, f32's own last place is 2^-9, that of E4M3's subnormals.
    shifted = magnitude.to(tl.float32, bitcast=True) + 16384.0
    subnormal = shifted.to(tl.uint32, bitcast=True) - 0x46800000
    code = tl.where(magnitude < 0x3C800000, subnormal, normal)
    return (code | ((bits >> 24) & 0x80)).to(tl.uint8)


@triton.jit
def ue8m0_to_f32(scales):
    """Values of UE8M0 codes: 2^(code - 127), where 0 is subnormal in f32 and 255 is NaN."""
    code = scales.to(tl.uint32)
    bits = tl.where(code == 0, 0x400000, tl.where(code == 255, 0x7FC00000, code << 23))
    return bits.to(tl.float32, bitcast=True)


@triton.jit
def e2m1_to_f32(nibbles):
    """Values of E2M1 codes in the low four bits, exact."""
    # Exponent and mantissa moved to f32's places are 2^-126 times the value, subnormals included.
    bits = nibbles.to(tl.uint32)
    moved = ((bits & 0x7) << 22) | ((bits & 0x8) << 28)
    return moved.to(tl.float32, bitcast=True) * 8.507059173023462e37  # 2^126


@triton.jit
def f32_to_bf16(y, INTERPRETED: tl.constexpr):
    """To nearest, ties to even. The interpreter's own cast does not round so."""
    if INTERPRETED:
        bits = y.to(tl.uint32, bitcast=True)
        rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16
        rounded = tl.where(y != y, 0x7FC0, rounded)
        return rounded.to(tl.uint16).to(tl.bfloat16, bitcast=True)
    return y.to(tl.bfloat16)


@triton.jit
def to_f32(x, INTERPRETED: tl.constexpr):
    """Loaded bf16 or f32 as f32, exact. The interpreter's own cast loses bf16's subnormals."""
    if INTERPRETED and x.dtype == tl.bfloat16:
        bits = x.to(tl.uint16, bitcast=True).to(tl.uint32) << 16
        return bits.to(tl.float32, bitcast=True)
    return x.to(tl.float32)


@triton.jit
def from_f32(y, dtype: tl.constexpr, INTERPRETED: tl.constexpr):
    """f32 rounded once to the dtype of an output, bf16 or f32."""
    tl.static_assert(dtype == tl.bfloat16 or dtype == tl.float32)
    # One return: Triton compiles what follows a return, and wants returns of one type.
    if dtype == tl.bfloat16:
        result = f32_to_bf16(y, INTERPRETED)
    else:
        result = y
    return result

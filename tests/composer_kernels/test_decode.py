"""The shared conversions, under Triton's interpreter, against torch's own casts: bit for bit."""

import pytest
import torch
import triton
import triton.language as tl
from torch import Tensor

from composer_kernels.mxfp8_details._decode import (
    e2m1_to_f32,
    e4m3_to_f32,
    f32_to_bf16,
    f32_to_e4m3,
    to_f32,
    ue8m0_to_f32,
)

from .inputs import assert_same_bits, every_bf16
from .oracle import E2M1

pytestmark = pytest.mark.filterwarnings(
    # NumPy, which the interpreter computes with, where overflow is what is tested.
    "ignore:overflow encountered:RuntimeWarning"
)


@triton.jit
def convert_kernel(x_ptr, y_ptr, CONVERSION: tl.constexpr, SIZE: tl.constexpr):
    offsets = tl.arange(0, SIZE)
    x = tl.load(x_ptr + offsets)
    if CONVERSION == "e4m3_to_f32":
        y = e4m3_to_f32(x, False)
    elif CONVERSION == "e2m1_to_f32":
        y = e2m1_to_f32(x)
    elif CONVERSION == "ue8m0_to_f32":
        y = ue8m0_to_f32(x)
    elif CONVERSION == "f32_to_e4m3":
        y = f32_to_e4m3(x, False)
    elif CONVERSION == "f32_to_bf16":
        y = f32_to_bf16(x, True)
    else:
        y = to_f32(x, True)
    tl.store(y_ptr + offsets, y)


def convert(conversion: str, x: Tensor, dtype: torch.dtype) -> Tensor:
    y = torch.empty(x.shape, dtype=dtype)
    convert_kernel[(1,)](x, y, CONVERSION=conversion, SIZE=x.numel())
    return y


EVERY_BYTE = torch.arange(256).to(torch.uint8)


def f32_about_every_bf16() -> Tensor:
    """Each upper half of an f32 with the lower halves about the one where bf16's rounding turns."""
    low = torch.tensor([0, 1, 0x7FFE, 0x7FFF, 0x8000, 0x8001, 0xFFFE, 0xFFFF], dtype=torch.int32)
    high = every_bf16().view(torch.int16).to(torch.int32) << 16
    return (high[:, None] | low).view(torch.float32).flatten()


def test_every_e4m3():
    wanted = EVERY_BYTE.view(torch.float8_e4m3fn).float()
    assert_same_bits(convert("e4m3_to_f32", EVERY_BYTE, torch.float32), wanted)


def test_every_ue8m0():
    wanted = EVERY_BYTE.view(torch.float8_e8m0fnu).float()
    assert_same_bits(convert("ue8m0_to_f32", EVERY_BYTE, torch.float32), wanted)


def test_every_e2m1():
    wanted = torch.tensor([E2M1.value(code) for code in range(16)])
    assert_same_bits(convert("e2m1_to_f32", EVERY_BYTE[:16].contiguous(), torch.float32), wanted)


def test_every_bf16():
    assert_same_bits(convert("to_f32", every_bf16(), torch.float32), every_bf16().float())


def test_f32_to_bf16_rounds_to_nearest_even_and_keeps_nan():
    x = f32_about_every_bf16()
    assert_same_bits(convert("f32_to_bf16", x, torch.bfloat16), x.to(torch.bfloat16))


def test_f32_to_e4m3_rounds_to_nearest_even_and_saturates():
    x = f32_about_every_bf16()
    x = x.masked_fill(x.isnan(), 1.0)
    wanted = x.clamp(-448.0, 448.0).to(torch.float8_e4m3fn).view(torch.uint8)
    assert_same_bits(convert("f32_to_e4m3", x, torch.uint8), wanted)

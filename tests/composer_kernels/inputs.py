"""Inputs that meet every case of a rounding, and a comparison that takes bits for what they are."""

from itertools import pairwise

import torch
from torch import Tensor
from torch.nn import functional

from composer_kernels import MXFP8Tensor

from .oracle import E4M3


def every_bf16() -> Tensor:
    """All 65,536 bit patterns, bf16 `[65536]`."""
    return torch.arange(65536, dtype=torch.int32).to(torch.uint16).view(torch.bfloat16)


def around_every_midpoint() -> Tensor:
    """f32 `[blocks, 32]`: E4M3's midpoints, both signs, and the next f32 on either side of each, in
    blocks whose first element, 256, makes their scale 1."""
    values = [E4M3.magnitude(code) for code in range(0x7F + 1)]
    middles = torch.tensor([(low + high) / 2 for low, high in pairwise(values)])
    near = [middles.nextafter(torch.tensor(0.0)), middles, middles.nextafter(torch.tensor(1e9))]
    elements = torch.cat([sign * each for each in near for sign in (1.0, -1.0)])
    elements = functional.pad(elements, (0, -len(elements) % 31)).reshape(-1, 31)
    return torch.cat([torch.full((len(elements), 1), 256.0), elements], -1)


def wide_random(*shape: int, dtype: torch.dtype = torch.float32, seed: int = 0) -> Tensor:
    """Normal numbers whose magnitudes span some 2^-60 to 2^60, with zeros among them."""
    generator = torch.Generator().manual_seed(seed)
    values = torch.randn(shape, generator=generator)
    exponents = torch.randint(-60, 60, shape, generator=generator)
    keep = torch.rand(shape, generator=generator) > 0.1
    return (torch.ldexp(values, exponents) * keep).to(dtype)


def assert_same_codes(actual: MXFP8Tensor, expected: MXFP8Tensor) -> None:
    assert_same_bits(actual.codes, expected.codes)
    assert_same_bits(actual.scales, expected.scales)


def assert_same_bits(actual: Tensor, expected: Tensor) -> None:
    """Equal dtypes, shapes and bits, but that one NaN is like another in f32 and bf16."""
    assert actual.dtype == expected.dtype
    if actual.dtype in (torch.float32, torch.bfloat16):
        nan = expected.isnan()
        torch.testing.assert_close(actual.isnan(), nan)
        actual, expected = actual.masked_fill(nan, 0.0), expected.masked_fill(nan, 0.0)
        assert torch.equal(actual.signbit(), expected.signbit())
    torch.testing.assert_close(
        actual.contiguous().view(torch.uint8),
        expected.contiguous().view(torch.uint8),
        rtol=0,
        atol=0,
    )

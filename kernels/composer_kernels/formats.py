"""Numbers and containers of the OCP Microscaling formats (MX v1.0, section 5).

A block of 32 elements along a tensor's last dimension shares one scale, a power of two:

    value[i] = element[i] * 2 ** (scale[i // 32] - 127)

The last dimension is the one that a matrix product contracts. Where its length is no multiple of
32, the last block is shorter.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import torch
from jaxtyping import Float8e4m3fn, UInt8
from torch import Tensor

BLOCK = 32
"""Elements that share one scale."""

VALUE_DTYPES = (torch.bfloat16, torch.float32)
"""What kernels take and give beside the formats."""

E4M3_MAX = 448.0
E4M3_EMAX = 8
"""Exponent of the largest power of two in E4M3."""
E4M3_NAN = 0x7F
"""E4M3 has a NaN of either sign (0x7F, 0xFF) and no infinity."""

E2M1_MAX = 6.0
E2M1_EMAX = 2
E2M1_VALUES = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)
"""Value of each code without its sign, which is bit 3. E2M1 has neither NaN nor infinity."""

UE8M0_BIAS = 127
UE8M0_NAN = 255
"""The one code that is no power of two. UE8M0 has no zero: code 0 is 2 ** -127."""


class ScaleRule(StrEnum):
    """How a block's largest magnitude `amax` gives the exponent of its scale."""

    FLOOR = "floor"
    """floor(log2(amax)) - emax, MX v1.0 section 6.3: saturates what then rounds above the largest
    element (E4M3: from 464 to 512 times the scale, which loses up to an eighth)."""
    CEIL = "ceil"
    """One more than `FLOOR`, only where `FLOOR` would saturate: nothing ever saturates."""


@dataclass(frozen=True, slots=True)
class MXFP8Tensor:
    """A tensor of shape `[..., K]` in MXFP8."""

    codes: Float8e4m3fn[Tensor, "*rows K"]
    """Elements, E4M3."""
    scales: UInt8[Tensor, "*rows num_blocks"]
    """UE8M0, one for each 32 elements along the last dimension: `num_blocks` = ceil(K / 32)."""

    @property
    def shape(self) -> torch.Size:
        return self.codes.shape

    @classmethod
    def empty(cls, shape: Sequence[int], device: torch.device) -> "MXFP8Tensor":
        """One of this shape, to be written."""
        scale_shape = (*shape[:-1], num_blocks(shape[-1]))
        return cls(
            codes=torch.empty(tuple(shape), dtype=torch.float8_e4m3fn, device=device),
            scales=torch.empty(scale_shape, dtype=torch.uint8, device=device),
        )


@dataclass(frozen=True, slots=True)
class MXFP4Tensor:
    """A tensor of shape `[..., K]`, K even, in MXFP4."""

    codes: UInt8[Tensor, "*rows num_bytes"]
    """Elements, E2M1, two a byte: element 2 i in the low four bits of byte i (gpt-oss's order).
    `num_bytes` = K / 2."""
    scales: UInt8[Tensor, "*rows num_blocks"]
    """UE8M0, one for each 32 elements along the last dimension: `num_blocks` = ceil(K / 32)."""

    @property
    def shape(self) -> torch.Size:
        return torch.Size((*self.codes.shape[:-1], 2 * self.codes.shape[-1]))


def num_blocks(num_elements: int) -> int:
    """Blocks in a row, the last of which may be shorter."""
    return -(-num_elements // BLOCK)

"""What the machine that runs a kernel can do, in the one place where kernels ask.

| compute capability | cards | E4M3 casts | block-scaled products |
|---|---|---|---|
| 8.0 | A100 | no | no |
| 8.6, 8.7 | A10, RTX 30, Orin | no | no |
| 8.9 | L4, L40, RTX 40 | rounded twice | no |
| 9.0 | H100, H200, GH200 | yes | no |
| 10.0, 10.3 | B200, GB200; B300, GB300 | yes | `tcgen05.mma … kind::mxf8f6f4.block_scale` |
| 12.0, 12.1 | RTX 50, RTX PRO 6000; GB10 | yes | `mma.sync … kind::mxf8f6f4.block_scale` |

Before 10.0 no tensor-core instruction takes a scale for each block. Hopper's and Ada's E4M3
products would need the scales applied to partial sums of 32 elements outside the tensor cores,
so kernels decode to bf16 there, where E4M3 times a power of two is exact: 8-bit weights halve the
bytes read and leave the arithmetic at bf16's rate.

Before 8.9 the cast itself is missing, and E4M3 is coded and decoded by integer shifts. On 8.9
Triton (3.7 at least) goes from f32 to E4M3 by way of f16, and what f16 rounds to the middle of two
codes is rounded a second time: triton-lang/triton#11753. Integer shifts there too.
"""

import os
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch

from composer_kernels.errors import DeviceError


@dataclass(frozen=True, kw_only=True, slots=True)
class Target:
    """Where a kernel runs. Kernels take the switches as `tl.constexpr` of the same names."""

    name: str
    """`sm_90`, or `cpu`."""
    capability: int
    """Ten times the major compute capability plus the minor: 90 is 9.0. 0: no GPU."""
    has_e4m3_casts: bool
    """Triton's casts between f32 and E4M3 exist and round once; else integer shifts do it. Both round
    to nearest, ties to even, and give the same bits."""
    has_dot_scaled: bool
    """`tl.dot_scaled` is a tensor-core instruction; else kernels decode to bf16 and use `tl.dot`."""
    has_bf16_dot: bool
    """`tl.dot` takes bf16; else operands are widened to f32."""
    interpreted: bool
    """Under Triton's interpreter, whose casts to bf16 do not round to nearest even, and whose
    products of bf16 are wrong: kernels round by integers and multiply in f32."""


INTERPRETER = Target(
    name="cpu",
    capability=0,
    has_e4m3_casts=False,
    has_dot_scaled=False,
    has_bf16_dot=False,
    interpreted=True,
)
"""Triton's interpreter on the CPU, as the tests use it."""

CPU = Target(
    name="cpu",
    capability=0,
    has_e4m3_casts=False,
    has_dot_scaled=False,
    has_bf16_dot=False,
    interpreted=False,
)
"""No kernel runs here: the twins in `composer_kernels.reference` do."""


@cache
def target_from_capability(major: int, minor: int) -> Target:
    """The target of an NVIDIA GPU. Raises `DeviceError` for one before 8.0, which lacks bf16."""
    capability = 10 * major + minor
    if capability < 80:
        raise DeviceError(f"compute capability {major}.{minor} is too old: 8.0 or later is needed")
    return Target(
        name=f"sm_{capability}",
        capability=capability,
        has_e4m3_casts=capability >= 90,
        has_dot_scaled=major in (10, 12),
        has_bf16_dot=True,
        interpreted=False,
    )


def target_of(tensor: torch.Tensor) -> Target:
    """The target that kernels over this tensor run on.

    Raises `DeviceError` where it lies on a device that has neither kernels nor twins.
    """
    if tensor.device.type == "cpu":
        return INTERPRETER if os.environ.get("TRITON_INTERPRET") == "1" else CPU
    if tensor.device.type == "cuda":
        return target_from_capability(*torch.cuda.get_device_capability(tensor.device))
    raise DeviceError(f"no kernel runs on {tensor.device}: CUDA and CPU tensors are taken")


def num_multiprocessors(device: torch.device) -> int:
    """How many a GPU has: persistent grids are multiples of it."""
    cuda: Any = torch.cuda
    return cuda.get_device_properties(device).multi_processor_count

"""The weights of a layer's experts, and how published layouts become ours.

An expert's two weights are `gate_up` `[2 F, D]` and `down` `[D, F]`, the contracted dimension
last. The rows of gate and up are interleaved: row 2 j of `gate_up` is gate j, row 2 j + 1 is up
j. One tile of the GEMM then holds both numbers of each SwiGLU output, next to each other in one
thread's registers.

Dimensions: E experts, F expert hidden dim, G = 2 F, D model dim, N and K a weight's rows and
columns.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Float, Shaped, UInt8
from torch import Tensor

from composer_kernels.errors import ShapeError, check_dtype, check_shape
from composer_kernels.formats import BLOCK, MXFP4Tensor, MXFP8Tensor
from composer_kernels.swiglu import SILU, SwiGLU


@dataclass(frozen=True, kw_only=True, slots=True)
class ExpertWeights:
    """The experts of one layer: those of this device, where they are spread over several."""

    gate_up: Float[Tensor, "E G D"] | MXFP8Tensor | MXFP4Tensor
    """`[E, 2 F, D]`, gate and up interleaved by row."""
    down: Float[Tensor, "E D F"] | MXFP8Tensor | MXFP4Tensor
    """`[E, D, F]`."""
    gate_up_bias: Float[Tensor, "E G"] | None = None
    """bf16 or f32, interleaved as the rows are."""
    down_bias: Float[Tensor, "E D"] | None = None
    """bf16 or f32."""
    activation: SwiGLU = SILU
    """What stands between the two GEMMs."""

    @property
    def num_experts(self) -> int:
        return self.gate_up.shape[0]

    def __post_init__(self) -> None:
        """Raises `ShapeError` unless the two weights belong to the same experts, one or more."""
        if len(self.gate_up.shape) != 3 or self.gate_up.shape[0] == 0:
            raise ShapeError("gate_up", self.gate_up.shape, "[E, 2 F, D] with E of 1 or more")
        E, G, D = self.gate_up.shape
        if tuple(self.down.shape) != (E, D, G // 2) or G % 2:
            asked = f"[E, D, F], and of gate_up {list(self.gate_up.shape)} [E, 2 F, D],"
            raise ShapeError("down", self.down.shape, asked)


def interleave_gate_up(
    gate_EFX: Shaped[Tensor, "E F *rest"], up_EFX: Shaped[Tensor, "E F *rest"]
) -> Shaped[Tensor, "E G *rest"]:
    """From separate `gate_proj` and `up_proj` (Mixtral's `w1` and `w3`), each expert's stacked.

    Rows move whole, so biases `[E, F]`, and MX codes and scales each by themselves, go the same
    way.
    """
    check_shape("up", up_EFX, gate_EFX.shape)
    check_dtype("up", up_EFX, [gate_EFX.dtype])
    return torch.stack((gate_EFX, up_EFX), dim=2).flatten(1, 2)


def interleave_halves(gate_up_EGX: Shaped[Tensor, "E G *rest"]) -> Shaped[Tensor, "E G *rest"]:
    """From the fused `gate_up_proj` `[E, 2 F, D]` of transformers' MoE blocks: gate first, then up."""
    if gate_up_EGX.dim() < 2 or gate_up_EGX.shape[1] % 2:
        raise ShapeError("gate_up", gate_up_EGX.shape, "an even second dimension")
    gate_EFX, up_EFX = gate_up_EGX.chunk(2, dim=1)
    return interleave_gate_up(gate_EFX, up_EFX)


def from_gpt_oss(weight_EKN: Float[Tensor, "E K N"]) -> Float[Tensor, "E N K"]:
    """From gpt-oss's dequantised `gate_up_proj` `[E, D, 2 F]`, interleaved already, or `down_proj`
    `[E, F, D]`: the contracted dimension comes last. Its biases need no change."""
    return weight_EKN.mT.contiguous()


def from_gpt_oss_mxfp4(
    blocks: UInt8[Tensor, "E N num_blocks 16"], scales: UInt8[Tensor, "E N num_blocks"]
) -> MXFP4Tensor:
    """From `…_blocks` and `…_scales` of a gpt-oss checkpoint, no byte moved: `[E, N, 32 num_blocks]`.

    `gate_up_proj` has its rows interleaved already.
    """
    check_shape("scales", scales, blocks.shape[:-1])
    if blocks.shape[-1] != BLOCK // 2:
        raise ShapeError("blocks", blocks.shape, f"{BLOCK // 2} bytes a block")
    return MXFP4Tensor(codes=blocks.flatten(-2), scales=scales)

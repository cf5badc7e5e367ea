"""The experts of a layer from a checkpoint, one expert at a time, in the format that they are kept in.

Dimensions: E experts, F expert hidden dim, D model dim, N and K a matrix's rows and columns.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import torch
from torch import Tensor

from composer_inference.decoder.families.family import ExpertNames, FusedExpertNames
from composer_inference.decoder.layers.moe import Experts
from composer_inference.weights.checkpoint import Checkpoint
from composer_inference.weights.mxfp8_format import (
    is_mxfp8,
    quantize_weight,
    read_weight,
    scale_name,
)
from composer_kernels import (
    BLOCK,
    MXFP4Tensor,
    MXFP8Tensor,
    from_gpt_oss_mxfp4,
    mxfp4_dequantize,
    mxfp8_dequantize,
)

Matrix = Tensor | MXFP8Tensor | MXFP4Tensor
"""Of one expert: [N, K]."""

_ALL = slice(None)


@dataclass(frozen=True, slots=True)
class _Part:
    """A tensor that is a part of each expert's matrix, or the whole."""

    matrix: Literal["gate_up", "down"]
    rows: slice
    name: str
    shape: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class SeparateExperts:
    """Each expert's gate, up and down are tensors of their own, plain or in MXFP8."""

    module: Experts
    layer: str
    """What stands before the layer's names."""
    names: ExpertNames

    def expected(self, checkpoint: Checkpoint) -> Iterator[tuple[str, tuple[int, ...]]]:
        has_scales = is_mxfp8(checkpoint.config)
        for expert in range(self.module.config.num_experts):
            for part in self._parts(expert):
                yield part.name, part.shape
                if has_scales:
                    num_rows, num_columns = part.shape
                    yield scale_name(part.name), (num_rows, -(-num_columns // BLOCK))

    def fill(self, checkpoint: Checkpoint) -> None:
        read = checkpoint.tensor
        if is_mxfp8(checkpoint.config):
            read = partial(read_weight, checkpoint)
        for expert in range(self.module.config.num_experts):
            for part in self._parts(expert):
                matrix = read(part.name)
                _put(self.module, part.matrix, expert, part.rows, matrix)

    def _parts(self, expert: int) -> Iterator[_Part]:
        names, config = self.names, self.module.config
        prefix = f"{self.layer}.{names.prefix}.{expert}."
        model_dim, hidden_dim = self.module.model_dim, config.expert_dim
        up_shape, down_shape = (hidden_dim, model_dim), (model_dim, hidden_dim)
        yield _Part("gate_up", slice(0, None, 2), f"{prefix}{names.gate}.weight", up_shape)
        yield _Part("gate_up", slice(1, None, 2), f"{prefix}{names.up}.weight", up_shape)
        yield _Part("down", _ALL, f"{prefix}{names.down}.weight", down_shape)


@dataclass(frozen=True, slots=True)
class FusedExperts:
    """gpt-oss's: all experts in one tensor, transposed, or in MXFP4 in two."""

    module: Experts
    layer: str
    names: FusedExpertNames

    def expected(self, checkpoint: Checkpoint) -> Iterator[tuple[str, tuple[int, ...]]]:
        is_mxfp4 = _is_mxfp4(checkpoint.config)
        for matrix, (num_experts, num_rows, num_columns) in self._shapes().items():
            name = self._name(matrix)
            if is_mxfp4:
                scales = (num_experts, num_rows, num_columns // BLOCK)
                yield f"{name}_blocks", (*scales, BLOCK // 2)
                yield f"{name}_scales", scales
            else:
                yield name, (num_experts, num_columns, num_rows)

    def fill(self, checkpoint: Checkpoint) -> None:
        is_mxfp4 = _is_mxfp4(checkpoint.config)
        for matrix in self._shapes():
            name = self._name(matrix)
            if is_mxfp4:
                blocks = checkpoint.tensor(f"{name}_blocks")
                whole = from_gpt_oss_mxfp4(blocks, checkpoint.tensor(f"{name}_scales"))
            else:
                whole = checkpoint.tensor(name).mT
            for expert in range(self.module.config.num_experts):
                one = (
                    MXFP4Tensor(whole.codes[expert], whole.scales[expert])
                    if isinstance(whole, MXFP4Tensor)
                    else whole[expert]
                )
                _put(self.module, matrix, expert, _ALL, one)

    def _name(self, matrix: str) -> str:
        return f"{self.layer}.{self.names.prefix}.{matrix}_proj"

    def _shapes(self) -> Mapping[Literal["gate_up", "down"], tuple[int, int, int]]:
        config, model_dim = self.module.config, self.module.model_dim
        return {
            "gate_up": (config.num_experts, 2 * config.expert_dim, model_dim),
            "down": (config.num_experts, model_dim, config.expert_dim),
        }


def _is_mxfp4(config: Mapping[str, Any]) -> bool:
    entry: Mapping[str, Any] = config.get("quantization_config") or {}
    return entry.get("quant_method") == "mxfp4"


def _put(
    module: Experts, name: Literal["gate_up", "down"], expert: int, rows: slice, matrix: Matrix
) -> None:
    """Converted on the module's device."""
    target = module.matrix(name)
    match target:
        case Tensor():
            target.detach()[expert, rows] = _plain(matrix, target.device)
        case MXFP8Tensor():
            device = target.codes.device
            if not isinstance(matrix, MXFP8Tensor):
                matrix = quantize_weight(_plain(matrix, device))
            target.codes.detach()[expert, rows] = matrix.codes
            target.scales.detach()[expert, rows] = matrix.scales
        case MXFP4Tensor():
            assert isinstance(matrix, MXFP4Tensor)
            target.codes.detach()[expert, rows] = matrix.codes
            target.scales.detach()[expert, rows] = matrix.scales


def _plain(matrix: Matrix, device: torch.device) -> Tensor:
    """In bf16 or f32."""
    match matrix:
        case Tensor():
            matrix = matrix.to(device)
            return matrix if matrix.dtype == torch.bfloat16 else matrix.float()
        case MXFP8Tensor(codes, scales):
            return mxfp8_dequantize(MXFP8Tensor(codes.to(device), scales.to(device)))
        case MXFP4Tensor(codes, scales):
            return mxfp4_dequantize(MXFP4Tensor(codes.to(device), scales.to(device)))

"""The experts of a layer from a checkpoint, one expert at a time, in the format that they are kept in:
those, and of each the part, that the module keeps.

Dimensions: E experts, F expert hidden dim, D model dim, N and K a matrix's rows and columns.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import prod
from typing import Any, Literal

import torch
from torch import Tensor

from composer_inference.decoder.families.family import ExpertNames, FusedExpertNames
from composer_inference.decoder.layers.moe import Experts
from composer_inference.decoder.parallel.shard import Shard
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
    dims: Shard
    """Of the hidden dims, kept here."""

    @property
    def num_at_once(self) -> int:
        return self.module.config.expert_dim * self.module.model_dim

    def expected(self, checkpoint: Checkpoint) -> Iterator[tuple[str, tuple[int, ...]]]:
        has_scales = is_mxfp8(checkpoint.config)
        for _, expert in _kept(self.module):
            for part in self._parts(expert):
                yield part.name, part.shape
                if has_scales:
                    num_rows, num_columns = part.shape
                    yield scale_name(part.name), (num_rows, -(-num_columns // BLOCK))

    def fill(self, checkpoint: Checkpoint) -> None:
        read = checkpoint.tensor
        if is_mxfp8(checkpoint.config):
            read = partial(read_weight, checkpoint)
        for place, expert in _kept(self.module):
            for part in self._parts(expert):
                cut = _cut(self.dims, checkpoint.shapes[part.name], part.shape)
                _put(self.module, part.matrix, (place, part.rows), read(part.name), cut)

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
    dims: Shard

    @property
    def num_at_once(self) -> int:
        return max(prod(shape) for shape in self._shapes().values())

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
        local = self.module.local
        for matrix, (_, *shape) in self._shapes().items():
            name = self._name(matrix)
            if is_mxfp4:
                blocks = checkpoint.tensor(f"{name}_blocks")[local]
                kept = from_gpt_oss_mxfp4(blocks, checkpoint.tensor(f"{name}_scales")[local])
            else:
                kept = checkpoint.tensor(name)[local].mT
            cut = _cut(self.dims, kept.shape[1:], shape)
            for place, _ in _kept(self.module):
                one = (
                    MXFP4Tensor(kept.codes[place], kept.scales[place])
                    if isinstance(kept, MXFP4Tensor)
                    else kept[place]
                )
                _put(self.module, matrix, (place, _ALL), one, cut)

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


def _kept(module: Experts) -> Iterator[tuple[int, int]]:
    """Where each expert is kept, and its number in the model."""
    return enumerate(range(module.local.start, module.local.stop))


def _cut(dims: Shard, whole: Sequence[int], local: Sequence[int]) -> "_Cut":
    num_rows, num_columns = whole
    local_rows, local_columns = local
    return dims.rows(num_rows, local_rows), dims.rows(num_columns, local_columns)


_Cut = tuple[slice, slice]
"""Rows and columns that are kept of a matrix."""


def _put(
    module: Experts,
    name: Literal["gate_up", "down"],
    place: tuple[int, slice],
    matrix: Matrix,
    cut: _Cut,
) -> None:
    """Converted on the module's device."""
    target = module.matrix(name)
    match target:
        case Tensor():
            target.detach()[place] = _plain(matrix, cut, target.device)
        case MXFP8Tensor():
            if isinstance(matrix, MXFP8Tensor):
                codes, scales = _cut_blocks(matrix, cut, num_codes=BLOCK)
            else:
                quantized = quantize_weight(_plain(matrix, cut, target.codes.device))
                codes, scales = quantized.codes, quantized.scales
            target.codes.detach()[place] = codes
            target.scales.detach()[place] = scales
        case MXFP4Tensor():
            assert isinstance(matrix, MXFP4Tensor)
            codes, scales = _cut_blocks(matrix, cut, num_codes=BLOCK // 2)
            target.codes.detach()[place] = codes
            target.scales.detach()[place] = scales


def _cut_blocks(
    matrix: MXFP8Tensor | MXFP4Tensor, cut: _Cut, *, num_codes: int
) -> tuple[Tensor, Tensor]:
    """Codes and scales. `num_codes`: bytes that a block's codes take."""
    rows, columns = cut
    # No block is cut: only a matrix's last one may have fewer columns.
    first, end = columns.start // BLOCK, -(-columns.stop // BLOCK)
    codes = matrix.codes[rows, first * num_codes : end * num_codes]
    return codes, matrix.scales[rows, first:end]


def _plain(matrix: Matrix, cut: _Cut, device: torch.device) -> Tensor:
    """In bf16 or f32."""
    match matrix:
        case Tensor():
            matrix = matrix[cut].to(device)
            return matrix if matrix.dtype == torch.bfloat16 else matrix.float()
        case MXFP8Tensor(codes, scales):
            return mxfp8_dequantize(MXFP8Tensor(codes.to(device), scales.to(device)))[cut]
        case MXFP4Tensor(codes, scales):
            return mxfp4_dequantize(MXFP4Tensor(codes.to(device), scales.to(device)))[cut]

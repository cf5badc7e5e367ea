"""Checkpoints published in FP8 with a scale for each block of a weight, as DeepSeek-V3 began it.

In `config.json`:

    "quantization_config": {"quant_method": "fp8", "fmt": "e4m3", "weight_block_size": [128, 128], …}

Such a weight `NAME.weight` of shape `[N, K]` is two tensors: its codes, F8_E4M3 `[N, K]`, and
`NAME.weight_scale_inv` `[ceil(N / 128), ceil(K / 128)]`, a factor for each block of codes. Weights without
scales are stored as they are.

Source: the model card of deepseek-ai/DeepSeek-V3; the FP8 files of Qwen3 and GLM-4 are made alike.
"""

from collections.abc import Mapping
from typing import Any, cast

import torch
from torch import Tensor

from composer_inference.weights.checkpoint import Checkpoint, CheckpointError

QUANT_METHOD = "fp8"
_WEIGHT = ".weight"
_SCALE = ".weight_scale_inv"
_SCALE_DTYPES = (torch.float32, torch.bfloat16, torch.float8_e8m0fnu)


class Fp8Checkpoint:
    """Implements `Checkpoint`: the model as if it were stored in bf16, a tensor at a time."""

    def __init__(self, stored: Checkpoint) -> None:
        """Raises: CheckpointError for blocks or codes of another kind, for codes without scales, and
        for scales that do not go with their codes."""
        config = dict(stored.config)
        self._block = _read_block(config.pop("quantization_config"))
        self._config = config
        self._stored = stored
        self._shapes = {
            name: shape for name, shape in stored.shapes.items() if not name.endswith(_SCALE)
        }
        for name in stored.shapes:
            self._check(name)

    @property
    def config(self) -> Mapping[str, Any]:
        return self._config

    @property
    def shapes(self) -> Mapping[str, tuple[int, ...]]:
        return self._shapes

    def dtype(self, name: str) -> torch.dtype:
        return torch.bfloat16 if self._is_coded(name) else self._stored.dtype(name)

    def tensor(self, name: str) -> Tensor:
        tensor = self._stored.tensor(name)
        if not self._is_coded(name):
            return tensor
        block_rows, block_columns = self._block
        num_columns = tensor.shape[1]
        scales = self._stored.tensor(_scale_name(name)).float()
        # A row of blocks at a time: in f32 the whole would take four times what is stored.
        dequantized = torch.empty(tensor.shape, dtype=torch.bfloat16)
        for row, scales_row in enumerate(scales):
            rows = slice(row * block_rows, (row + 1) * block_rows)
            factors = scales_row.repeat_interleave(min(block_columns, num_columns))[:num_columns]
            dequantized[rows] = tensor[rows].float().mul_(factors)
        return dequantized

    def _is_coded(self, name: str) -> bool:
        return name in self._shapes and self._stored.dtype(name) == torch.float8_e4m3fn

    def _check(self, name: str) -> None:
        if name.endswith(_SCALE):
            self._check_scales(name, name.removesuffix(_SCALE) + _WEIGHT)
        elif self._is_coded(name) and _scale_name(name) not in self._stored.shapes:
            raise CheckpointError(
                f"tensor {name} is in FP8, and its scales {_scale_name(name)} are missing; the files"
                " are incomplete or of another format"
            )

    def _check_scales(self, name: str, weight: str) -> None:
        if weight not in self._shapes or not self._is_coded(weight):
            raise CheckpointError(
                f"tensor {name} scales {weight}, which is missing or not in FP8; the files are"
                " incomplete or of another format"
            )
        if self._stored.dtype(name) not in _SCALE_DTYPES:
            raise CheckpointError(
                f"tensor {name} holds {self._stored.dtype(name)}; scales are f32, bf16 or ue8m0"
            )
        shape, found = self._shapes[weight], tuple(self._stored.shapes[name])
        expected = tuple(-(-size // block) for size, block in zip(shape, self._block, strict=False))
        if len(shape) != len(self._block) or found != expected:
            raise CheckpointError(
                f"tensor {name} has the shape {list(found)}; blocks of {list(self._block)} of"
                f" {weight} {list(shape)} have {list(expected)} scales"
            )


def is_fp8(config: Mapping[str, Any]) -> bool:
    """Whether a `config.json` says that the weights are stored so."""
    entry: object = config.get("quantization_config")
    return isinstance(entry, Mapping) and (
        cast(Mapping[str, Any], entry).get("quant_method") == QUANT_METHOD
    )


def _scale_name(weight: str) -> str:
    return weight.removesuffix(_WEIGHT) + _SCALE


def _read_block(entry: Mapping[str, Any]) -> tuple[int, int]:
    """Rows and columns.

    Raises: CheckpointError.
    """
    if entry.get("fmt", "e4m3") != "e4m3":
        raise CheckpointError(
            f"config.json: fmt of quantization_config is {entry['fmt']!r}; FP8 weights are read in"
            " 'e4m3'"
        )
    match entry.get("weight_block_size"):
        case [int(num_rows), int(num_columns)] if num_rows > 0 and num_columns > 0:
            return num_rows, num_columns
        case other:
            raise CheckpointError(
                f"config.json: weight_block_size of quantization_config is {other!r}; FP8 weights are"
                " read with a scale for each block, as in [128, 128]; take the model's bf16 files"
            )

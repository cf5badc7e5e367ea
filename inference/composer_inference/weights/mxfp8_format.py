"""How a checkpoint stores its experts' weights in MXFP8.

In `config.json`:

    "quantization_config": {
        "quant_method": "mxfp8",
        "block_size": 32,
        "element_format": "e4m3",
        "scale_format": "ue8m0",
        "scale_rule": "ceil",
        "modules": ["mlp.experts"]
    }

`modules` are the modules of a layer whose weights are quantised; everything else is as it was. Such
a weight `NAME.weight` of shape `[N, K]` is two tensors: `NAME.weight`, its codes, safetensors' F8_E4M3
`[N, K]`, and `NAME.weight_scale`, F8_E8M0 `[N, ceil(K / 32)]`, one for each 32 codes of a row. A value is
code * 2 ** (scale - 127). `scale_rule` says how scales were chosen (`composer_kernels.ScaleRule`);
reading does not depend on it.

Dimensions: N rows of a weight, K columns.
"""

from collections.abc import Mapping
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from composer_inference.weights.checkpoint import Checkpoint, CheckpointError
from composer_kernels import BLOCK, MXFP8Tensor, ScaleRule, mxfp8_quantize

QUANT_METHOD = "mxfp8"


def quantization_config(*modules: str) -> dict[str, Any]:
    return {
        "quant_method": QUANT_METHOD,
        "block_size": BLOCK,
        "element_format": "e4m3",
        "scale_format": "ue8m0",
        "scale_rule": str(ScaleRule.CEIL),
        "modules": list(modules),
    }


def is_mxfp8(config: Mapping[str, Any]) -> bool:
    """Whether a `config.json` says that the experts are stored so."""
    return quant_method(config) == QUANT_METHOD


def quant_method(config: Mapping[str, Any]) -> str | None:
    """None of a model that is not quantised."""
    entry: Any = config.get("quantization_config")
    return None if entry is None else str(dict(entry).get("quant_method"))


def scale_name(weight: str) -> str:
    """Of the tensor with the scales of `NAME.weight`."""
    return f"{weight}_scale"


def quantize_weight(weight_NK: Float[Tensor, "N K"]) -> MXFP8Tensor:
    """What is stored for a weight, and what loading makes of one that is not quantised. Float16
    and float64 become float32 before."""
    kept = weight_NK.dtype in (torch.bfloat16, torch.float32)
    return mxfp8_quantize(weight_NK if kept else weight_NK.float(), rule=ScaleRule.CEIL)


def read_weight(checkpoint: Checkpoint, name: str) -> MXFP8Tensor:
    """Mapped where the checkpoint's tensors are.

    Raises: CheckpointError for tensors that are missing, or are not codes and scales that belong
        together.
    """
    codes, scales = checkpoint.tensor(name), checkpoint.tensor(scale_name(name))
    if codes.dtype != torch.float8_e4m3fn:
        raise CheckpointError(
            f"tensor {name} is {codes.dtype}, and config.json says that it is {QUANT_METHOD}:"
            " float8_e4m3fn was expected; quantise the original model anew"
        )
    if scales.dtype not in (torch.float8_e8m0fnu, torch.uint8):
        raise CheckpointError(
            f"tensor {scale_name(name)} is {scales.dtype}; scales are float8_e8m0fnu or uint8"
        )
    expected = (*codes.shape[:-1], -(-codes.shape[-1] // BLOCK))
    if tuple(scales.shape) != expected:
        raise CheckpointError(
            f"tensor {scale_name(name)} has the shape {list(scales.shape)}, and {list(expected)}"
            f" goes with {name}; quantise the original model anew"
        )
    return MXFP8Tensor(codes, scales.view(torch.uint8))

"""Random weights, made on the device: to measure a model's speed without its files."""

import math
from collections.abc import Iterator, Mapping
from typing import Any, Literal

import torch
from torch import Tensor

from composer_inference.decoder.config import ConfigReader
from composer_inference.decoder.families.registry import family_of
from composer_inference.decoder.layers.moe import Experts
from composer_inference.decoder.layers.norm import RMSNorm
from composer_inference.decoder.model import Decoder
from composer_kernels import mxfp8_dequantize, mxfp8_quantize

RandomFormat = Literal["bf16", "mxfp8", "rounded"]
"""Of the experts; rounded: bf16 with the values that they have in MXFP8."""


def random_decoder(
    config: Mapping[str, Any], stored: RandomFormat, *, seed: int, device: torch.device
) -> Decoder:
    """In bf16 but for experts in MXFP8, of a `config.json`. The same seed gives the same weights,
    whatever the format. Biases are random too.

    Raises: CheckpointError for a configuration that is not supported.
    """
    decoder = _without_values(config, stored).to_empty(device=device)
    draw = torch.Generator(device).manual_seed(seed)
    for module in decoder.modules():
        if isinstance(module, Experts):
            _fill_experts(module, stored, draw)
        else:
            for parameter in module.parameters(recurse=False):
                _fill(parameter, draw, ones=isinstance(module, RMSNorm))
    return decoder.requires_grad_(False)


def num_bytes(config: Mapping[str, Any], stored: RandomFormat) -> int:
    """That the weights of `random_decoder` take."""
    return sum(each.nbytes for each in _without_values(config, stored).parameters())


def experts_of(decoder: Decoder) -> Iterator[Experts]:
    return (module for module in decoder.modules() if isinstance(module, Experts))


def _without_values(config: Mapping[str, Any], stored: RandomFormat) -> Decoder:
    shape = family_of(config).read_config(ConfigReader(config))
    with torch.device("meta"):
        return Decoder(
            shape, dtype=torch.bfloat16, experts="mxfp8" if stored == "mxfp8" else "bf16"
        )


def _fill(parameter: Tensor, draw: torch.Generator, *, ones: bool) -> None:
    """Values that keep the length of a vector, about."""
    if ones:
        parameter.detach().fill_(1)
    else:
        parameter.detach().normal_(0, 1 / math.sqrt(parameter.shape[-1]), generator=draw)


def _fill_experts(module: Experts, stored: RandomFormat, draw: torch.Generator) -> None:
    config = module.config
    shapes = {
        "gate_up": (2 * config.expert_dim, module.model_dim),
        "down": (module.model_dim, config.expert_dim),
    }
    for name, shape in shapes.items():
        for expert in range(config.num_experts):
            weight = torch.empty(shape, dtype=torch.bfloat16, device=draw.device)
            _fill(weight, draw, ones=False)
            _put(module, name, expert, weight, stored)
    for name, parameter in module.named_parameters():
        if name.endswith("_bias"):
            _fill(parameter, draw, ones=False)


def _put(module: Experts, name: str, expert: int, weight: Tensor, stored: RandomFormat) -> None:
    if stored == "bf16":
        module.get_parameter(name).detach()[expert] = weight
        return
    quantized = mxfp8_quantize(weight)
    if stored == "rounded":
        module.get_parameter(name).detach()[expert] = mxfp8_dequantize(
            quantized, dtype=torch.bfloat16
        )
        return
    module.get_parameter(name + "_codes").detach()[expert] = quantized.codes
    module.get_parameter(name + "_scales").detach()[expert] = quantized.scales

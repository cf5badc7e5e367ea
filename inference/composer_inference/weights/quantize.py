"""A mixture's checkpoint with its experts in MXFP8, everything else unchanged.

A tensor is read, quantised and written before the next one: memory holds a shard, not the model.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from composer_inference.decoder.families.family import ExpertNames
from composer_inference.decoder.families.registry import family_of
from composer_inference.weights.checkpoint import Checkpoint, CheckpointError
from composer_inference.weights.checkpoint_writer import (
    SHARD_BYTES,
    check_new,
    write_checkpoint,
)
from composer_inference.weights.mxfp8_format import (
    quant_method,
    quantization_config,
    quantize_weight,
    scale_name,
)
from composer_inference.weights.open import open_checkpoint
from composer_inference.weights.tokenizer_files import add_tokenizer

OnTensors = Callable[[int, int], None]
"""Called with the bytes that have been read, and those of the whole model."""


def quantize_checkpoint(
    source: Path, target: Path, *, on_bytes: OnTensors, shard_bytes: int = SHARD_BYTES
) -> None:
    """Raises: CheckpointError for a source that cannot be read, has no experts or is quantised
    already, and for a target that exists or cannot be written."""
    check_new(target)
    checkpoint = open_checkpoint(source)
    is_expert, module = _experts_of(checkpoint.config)
    if (method := quant_method(checkpoint.config)) is not None:
        raise CheckpointError(
            f"{source} is quantised already (quant_method {method}); start from the original model"
        )
    if not any(map(is_expert, checkpoint.shapes)):
        raise CheckpointError(
            f"{source} has no experts, and nothing else is quantised; this is for mixtures of"
            " experts, which `composer-lsp model upcycle` makes of a dense model"
        )
    write_checkpoint(
        target,
        dict(checkpoint.config) | {"quantization_config": quantization_config(module)},
        _quantized(checkpoint, is_expert, on_bytes),
        add_tokenizer=lambda folder: add_tokenizer(source, folder),
        shard_bytes=shard_bytes,
    )


def _experts_of(config: Mapping[str, Any]) -> tuple[Callable[[str], bool], str]:
    """Which names are experts' weights, and the module of a layer that holds them."""
    names = family_of(config).experts
    if not isinstance(names, ExpertNames):
        raise CheckpointError(
            f"the experts of {config.get('model_type')} have a format of their own, MXFP4, which is"
            " smaller than MXFP8 and is loaded as it is"
        )
    kinds = "|".join(map(re.escape, (names.gate, names.up, names.down)))
    pattern = rf"model\.layers\.\d+\.{re.escape(names.prefix)}\.\d+\.({kinds})\.weight"
    return (lambda name: re.fullmatch(pattern, name) is not None), names.prefix


def _quantized(
    checkpoint: Checkpoint, is_expert: Callable[[str], bool], on_bytes: OnTensors
) -> Iterator[tuple[str, Tensor]]:
    sizes = {
        name: torch.Size(shape).numel() * checkpoint.dtype(name).itemsize
        for name, shape in checkpoint.shapes.items()
    }
    done, total = 0, sum(sizes.values())
    for name in checkpoint.shapes:
        tensor = checkpoint.tensor(name)
        if is_expert(name):
            quantized = quantize_weight(tensor)
            yield name, quantized.codes
            yield scale_name(name), quantized.scales.view(torch.float8_e8m0fnu)
        else:
            yield name, tensor
        done += sizes[name]
        on_bytes(done, total)

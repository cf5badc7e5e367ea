"""Tiny random models: transformers' own as the reference, and ours of the same weights."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from torch import Tensor

from composer_inference.decoder.batch import Batch, Span
from composer_inference.decoder.model import Decoder
from composer_inference.kv.pool import KVPool
from composer_inference.weights.checkpoint import CheckpointError
from composer_kernels import MXFP4Tensor, mxfp4_dequantize
from tests.support.vocabularies import byte_level_folder

VOCAB = 97
CPU = torch.device("cpu")

BASE: dict[str, Any] = {
    "vocab_size": VOCAB,
    "hidden_size": 48,
    "intermediate_size": 80,
    "num_hidden_layers": 3,
    "num_attention_heads": 6,
    "num_key_value_heads": 2,
    "max_position_embeddings": 256,
    "initializer_range": 0.2,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}


class MemoryCheckpoint:
    """A `Checkpoint` of tensors at hand."""

    def __init__(self, config: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> None:
        self.config = dict(config)
        self.tensors = dict(tensors)
        self.num_read = 0

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        return {name: tuple(tensor.shape) for name, tensor in self.tensors.items()}

    def dtype(self, name: str) -> torch.dtype:
        return self.tensors[name].dtype

    def tensor(self, name: str) -> Tensor:
        if name not in self.tensors:
            raise CheckpointError(f"tensor {name} is missing")
        self.num_read += 1
        return self.tensors[name]


def save_reference(kind: str, folder: Path, **changes: Any) -> tuple[Any, MemoryCheckpoint]:
    """A transformers model of this `model_type` with random weights, norms and biases, and the
    checkpoint that it saves."""
    from transformers import AutoConfig, AutoModelForCausalLM

    config = AutoConfig.for_model(kind, **{**BASE, **changes})
    torch.manual_seed(7)
    model = AutoModelForCausalLM.from_config(config, attn_implementation="eager").eval()
    generator = torch.Generator().manual_seed(11)
    with torch.no_grad():
        for name, tensor in [*model.named_parameters(), *model.named_buffers()]:
            if name.endswith(("bias", "norm.weight", "sinks")):
                tensor.add_(0.3 * torch.randn(tensor.shape, generator=generator))
    model.save_pretrained(folder)
    return model, read_checkpoint(folder)


def save_mixture(folder: Path, **changes: Any) -> Path:
    """A tiny Qwen3-MoE with the tokenizer of `byte_level_folder`; returns the folder."""
    shape = {
        "vocab_size": 512,
        "num_hidden_layers": 2,
        "head_dim": 16,
        "num_experts": 6,
        "num_experts_per_tok": 2,
        "moe_intermediate_size": 40,
    }
    save_reference("qwen3_moe", folder, **{**shape, **changes})
    return byte_level_folder(folder)


def read_checkpoint(folder: Path) -> MemoryCheckpoint:
    config = json.loads((folder / "config.json").read_text())
    tensors: dict[str, Tensor] = {}
    for file in sorted(folder.glob("*.safetensors")):
        tensors |= load_file(file)
    return MemoryCheckpoint(config, tensors)


def in_mxfp4(checkpoint: MemoryCheckpoint) -> tuple[MemoryCheckpoint, MemoryCheckpoint]:
    """A gpt-oss with random MXFP4 experts, and the same dequantised."""
    generator = torch.Generator().manual_seed(2)
    packed, plain = dict(checkpoint.tensors), dict(checkpoint.tensors)
    for name, tensor in checkpoint.tensors.items():
        if not name.endswith(("gate_up_proj", "down_proj")):
            continue
        num_experts, num_columns, num_rows = tensor.shape
        shape = (num_experts, num_rows, num_columns // 32)
        blocks = torch.randint(0, 256, (*shape, 16), generator=generator, dtype=torch.uint8)
        scales = torch.randint(121, 126, shape, generator=generator, dtype=torch.uint8)
        del packed[name]
        packed |= {f"{name}_blocks": blocks, f"{name}_scales": scales}
        plain[name] = mxfp4_dequantize(MXFP4Tensor(blocks.flatten(-2), scales)).mT
    config = {**checkpoint.config, "quantization_config": {"quant_method": "mxfp4"}}
    return MemoryCheckpoint(config, packed), MemoryCheckpoint(checkpoint.config, plain)


def make_pool(decoder: Decoder, *, num_blocks: int = 64, block_size: int = 4) -> KVPool:
    return KVPool(
        decoder.cache_shapes,
        num_blocks=num_blocks,
        block_size=block_size,
        dtype=decoder.embedding.dtype,
        device=CPU,
    )


def run(decoder: Decoder, pool: KVPool, *spans: Span) -> list[Tensor]:
    """Logits of each span."""
    batch = Batch.of(spans, block_size=pool.block_size, device=CPU)
    with torch.no_grad():
        logits = decoder(batch, pool)
    return list(logits.split([span.num_logits for span in spans]))


def prefill(tokens: Sequence[int], blocks: Sequence[int]) -> Span:
    return Span(token_ids=tokens, num_cached=0, blocks=blocks, num_logits=len(tokens))

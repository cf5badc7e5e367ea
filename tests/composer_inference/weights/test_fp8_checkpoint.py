"""Files in FP8 blocks: what their codes mean, and what does not go together."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from composer_inference.weights.checkpoint import CheckpointError
from composer_inference.weights.fp8_checkpoint import Fp8Checkpoint
from composer_inference.weights.loading import load_decoder
from composer_inference.weights.open import open_checkpoint
from composer_inference.weights.quantize import quantize_checkpoint
from tests.composer_inference.decoder.tiny import (
    CPU,
    MemoryCheckpoint,
    make_pool,
    prefill,
    read_checkpoint,
    run,
    save_reference,
)

BLOCK = 16
WEIGHT = "model.layers.1.mlp.down_proj.weight"
SCALE = f"{WEIGHT}_scale_inv"
MIXTURE = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 32}
LATENT = {
    "kv_lora_rank": 16,
    "qk_nope_head_dim": 16,
    "qk_rope_head_dim": 8,
    "v_head_dim": 8,
    "num_key_value_heads": 6,
    "q_lora_rank": 32,
    "n_routed_experts": 4,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 40,
    "n_shared_experts": 1,
    "n_group": 1,
    "topk_group": 1,
    "first_k_dense_replace": 1,
}
KINDS: dict[str, dict[str, Any]] = {"qwen3": {}, "qwen3_moe": MIXTURE, "deepseek_v3": LATENT}


def in_fp8(folder: Path) -> MemoryCheckpoint:
    """Rewrites the folder's linear weights in blocks; the same model with what they mean then."""
    file = folder / "model.safetensors"
    stored: dict[str, Tensor] = {}
    meant: dict[str, Tensor] = {}
    for name, tensor in load_file(file).items():
        is_linear = name.endswith("proj.weight") or name.endswith("proj_with_mqa.weight")
        if not is_linear:
            stored[name] = meant[name] = tensor
            continue
        codes = torch.empty(tensor.shape, dtype=torch.float8_e4m3fn)
        scales: list[list[float]] = []
        value = torch.empty(tensor.shape)
        for rows in range(0, tensor.shape[0], BLOCK):
            scales.append([])
            for columns in range(0, tensor.shape[1], BLOCK):
                part = slice(rows, rows + BLOCK), slice(columns, columns + BLOCK)
                scale = tensor[part].abs().max() / 448
                codes[part] = (tensor[part] / scale).to(torch.float8_e4m3fn)
                value[part] = codes[part].float() * scale
                scales[-1].append(float(scale))
        stored |= {name: codes, f"{name}_scale_inv": torch.tensor(scales)}
        meant[name] = value.bfloat16()
    save_file(stored, file, metadata={"format": "pt"})
    plain = MemoryCheckpoint(json.loads((folder / "config.json").read_text()), meant)
    quantization = {
        "quant_method": "fp8",
        "fmt": "e4m3",
        "activation_scheme": "dynamic",
        "weight_block_size": [BLOCK, BLOCK],
        "modules_to_not_convert": ["lm_head"],
    }
    config = {**plain.config, "quantization_config": quantization}
    (folder / "config.json").write_text(json.dumps(config))
    return plain


@pytest.mark.parametrize("kind", KINDS)
def test_it_is_the_model_that_its_codes_mean(kind: str, tmp_path: Path) -> None:
    save_reference(kind, tmp_path, **KINDS[kind])
    plain = in_fp8(tmp_path)
    checkpoint = open_checkpoint(tmp_path)
    assert checkpoint.shapes == plain.shapes
    for name, tensor in plain.tensors.items():
        assert checkpoint.dtype(name) == tensor.dtype
        assert torch.equal(checkpoint.tensor(name), tensor), name
    logits: list[Tensor] = []
    for each in (checkpoint, plain):
        decoder = load_decoder(each, dtype=torch.float32, device=CPU)
        logits += run(decoder, make_pool(decoder), prefill([5, 7, 11, 13], [0]))
    assert torch.equal(*logits)


@pytest.mark.parametrize("block", [[10**9, 10**9], [1, 10**9], [10**9, 1], [7, 100], [48, 80]])
def test_blocks_of_any_size(block: list[int]) -> None:
    draw = torch.Generator().manual_seed(5)
    codes = torch.randn((48, 80), generator=draw).to(torch.float8_e4m3fn)
    num_scales = [-(-size // of) for size, of in zip(codes.shape, block, strict=True)]
    scales = torch.rand(num_scales, generator=draw)
    config = {"quantization_config": entry(weight_block_size=block)}
    checkpoint = Fp8Checkpoint(MemoryCheckpoint(config, {WEIGHT: codes, SCALE: scales}))
    rows, columns = (torch.arange(size) // of for size, of in zip(codes.shape, block, strict=True))
    expected = (codes.float() * scales[rows][:, columns]).bfloat16()
    assert torch.equal(checkpoint.tensor(WEIGHT), expected)


def test_its_experts_can_be_stored_in_mxfp8(tmp_path: Path) -> None:
    save_reference("qwen3_moe", tmp_path / "source", **MIXTURE)
    plain = in_fp8(tmp_path / "source")
    (tmp_path / "source/tokenizer.json").write_text("{}")
    quantize_checkpoint(tmp_path / "source", tmp_path / "target", on_bytes=ignore)
    target = open_checkpoint(tmp_path / "target")
    assert target.config["quantization_config"]["quant_method"] == "mxfp8"
    plainly = "model.layers.0.self_attn.q_proj.weight"
    assert torch.equal(target.tensor(plainly), plain.tensors[plainly])
    expert = "model.layers.0.mlp.experts.3.down_proj.weight"
    assert target.dtype(expert) == torch.float8_e4m3fn
    assert f"{expert}_scale_inv" not in target.shapes


def ignore(done: int, total: int) -> None:
    assert done <= total


def entry(**changes: Any) -> dict[str, Any]:
    return {"quant_method": "fp8", "fmt": "e4m3", "weight_block_size": [BLOCK, BLOCK], **changes}


@pytest.mark.parametrize(
    ("quantization", "tensors", "message"),
    [
        (entry(fmt="e5m2"), {}, "fmt of quantization_config is 'e5m2'"),
        (entry(weight_block_size=None), {}, "weight_block_size of quantization_config is None"),
        (entry(weight_block_size=[128]), {}, r"is \[128\]"),
        (entry(weight_block_size=[0, 128]), {}, r"is \[0, 128\]"),
        (entry(), {SCALE: None}, f"scales {SCALE} are missing"),
        (entry(), {WEIGHT: None}, f"{SCALE} scales {WEIGHT}, which is missing"),
        (entry(), {WEIGHT: torch.zeros(48, 80)}, "which is missing or not in FP8"),
        (entry(), {SCALE: torch.ones(3, 2)}, r"shape \[3, 2\]; blocks of .* have \[3, 5\]"),
        (entry(), {SCALE: torch.ones(3)}, r"shape \[3\]"),
        (entry(), {SCALE: torch.ones(3, 5, dtype=torch.int32)}, "scales are f32, bf16 or ue8m0"),
    ],
)
def test_what_does_not_go_together_is_named(
    quantization: dict[str, Any], tensors: dict[str, Tensor | None], message: str, tmp_path: Path
) -> None:
    save_reference("qwen3", tmp_path)
    in_fp8(tmp_path)
    stored = read_checkpoint(tmp_path)
    changed = {name: t for name, t in {**stored.tensors, **tensors}.items() if t is not None}
    config = {**stored.config, "quantization_config": quantization}
    with pytest.raises(CheckpointError, match=message):
        Fp8Checkpoint(MemoryCheckpoint(config, changed))

"""What a family says where `config.json` says nothing."""

from typing import Any

import pytest

from composer_inference.decoder.config import (
    AttentionConfig,
    ConfigReader,
    MLPConfig,
    MoEConfig,
)
from composer_inference.decoder.families.registry import family_of

SIZES: dict[str, Any] = {
    "vocab_size": 100,
    "hidden_size": 64,
    "intermediate_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "max_position_embeddings": 128,
    "rms_norm_eps": 1e-6,
    "num_experts": 8,
    "num_local_experts": 8,
    "n_routed_experts": 8,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 16,
    "routed_scaling_factor": 1.0,
    "kv_lora_rank": 16,
    "qk_nope_head_dim": 8,
    "qk_rope_head_dim": 4,
    "v_head_dim": 8,
    "sliding_window": 32,
    "layer_types": ["sliding_attention", "full_attention"],
}

FAMILIES: dict[str, tuple[float, int]] = {
    "llama": (1e4, 16),
    "qwen2": (1e4, 16),
    "qwen3": (1e4, 16),
    "qwen3_moe": (1e4, 16),
    "mixtral": (1e6, 16),
    "olmoe": (1e4, 16),
    "glm4_moe": (1e4, 8),
    "deepseek_v2": (1e4, 4),
    "deepseek_v3": (1e4, 4),
    "gpt_oss": (150_000.0, 16),
}


@pytest.mark.parametrize(("kind", "rope"), FAMILIES.items(), ids=list(FAMILIES))
def test_rope(kind: str, rope: tuple[float, int]) -> None:
    values = {**SIZES, "model_type": kind}
    config = family_of(values).read_config(ConfigReader(values))
    assert config.family == kind
    assert (config.rope.theta, config.rope.dim) == rope
    assert len(config.layers) == 2 and not config.tie_embeddings


def test_yarn_reaches_further() -> None:
    yarn = {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 128}
    values = {**SIZES, "model_type": "qwen2", "rope_scaling": yarn}
    assert family_of(values).read_config(ConfigReader(values)).max_positions == 512


def test_older_files_say_windows_by_layer() -> None:
    windows = {"use_sliding_window": True, "max_window_layers": 1, "layer_types": None}
    values = {**SIZES, "model_type": "qwen2", **windows}
    layers = family_of(values).read_config(ConfigReader(values)).layers
    attention = [layer.attention for layer in layers]
    assert all(isinstance(each, AttentionConfig) for each in attention)
    assert [getattr(each, "sliding_window") for each in attention] == [None, 32]  # noqa: B009


def test_experts_in_every_second_layer() -> None:
    values = {**SIZES, "model_type": "qwen3_moe", "decoder_sparse_step": 2}
    layers = family_of(values).read_config(ConfigReader(values)).layers
    assert [type(layer.feed_forward) for layer in layers] == [MLPConfig, MoEConfig]

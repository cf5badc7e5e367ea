"""Which tensors of a Hugging Face checkpoint make a parameter of ours."""

import re
from collections.abc import Mapping

from composer_inference.decoder.config import DecoderConfig

MODEL_MODULES: Mapping[str, tuple[str, ...]] = {
    "embedding": ("model.embed_tokens.weight",),
    "norm": ("model.norm",),
    "output": ("lm_head",),
}

LAYER_MODULES: Mapping[str, tuple[str, ...]] = {
    "attention_norm": ("input_layernorm",),
    "feed_forward_norm": ("post_attention_layernorm",),
    "attention.qkv": ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"),
    "attention.output": ("self_attn.o_proj",),
    "attention.q_norm": ("self_attn.q_norm",),
    "attention.k_norm": ("self_attn.k_norm",),
    "attention.sinks": ("self_attn.sinks",),
    "attention.query": ("self_attn.q_proj",),
    "attention.query_down": ("self_attn.q_a_proj",),
    "attention.query_norm": ("self_attn.q_a_layernorm",),
    "attention.query_up": ("self_attn.q_b_proj",),
    "attention.latent_down": ("self_attn.kv_a_proj_with_mqa",),
    "attention.latent_norm": ("self_attn.kv_a_layernorm",),
    "attention.latent_up": ("self_attn.kv_b_proj",),
    "feed_forward.gate_up": ("mlp.gate_proj", "mlp.up_proj"),
    "feed_forward.down": ("mlp.down_proj",),
    "feed_forward.router": ("mlp.gate",),
    "feed_forward.router.correction_bias": ("mlp.gate.e_score_correction_bias",),
    "feed_forward.shared.gate_up": (
        "mlp.shared_experts.gate_proj",
        "mlp.shared_experts.up_proj",
    ),
    "feed_forward.shared.down": ("mlp.shared_experts.down_proj",),
}
"""Ours within a layer to theirs; several are stacked by rows. `.weight` and `.bias` follow both."""

_OF_LAYER = re.compile(r"blocks\.(\d+)\.(.+)")


def tensor_names(parameter: str, modules: Mapping[str, tuple[str, ...]]) -> tuple[str, ...]:
    """Of a parameter that is not the experts'. `modules`: the family's differences."""
    prefix, table = "", MODEL_MODULES
    if of_layer := _OF_LAYER.fullmatch(parameter):
        prefix, table = f"{layer_prefix(parameter)}.", {**LAYER_MODULES, **modules}
        parameter = of_layer[2]
    if parameter in table:
        return tuple(prefix + name for name in table[parameter])
    module, _, kind = parameter.rpartition(".")
    return tuple(f"{prefix}{name}.{kind}" for name in table[module])


def layer_prefix(path: str) -> str:
    """Of the checkpoint's names in the layer that our `path` lies in."""
    of_layer = _OF_LAYER.fullmatch(path)
    assert of_layer is not None
    return f"model.layers.{of_layer[1]}"


def is_unused(name: str, config: DecoderConfig) -> bool:
    """Whether a checkpoint may hold a tensor that the decoder has no use for: frequencies that
    follow from the configuration, a copy of tied embeddings, the layers past the last that predict
    further tokens (GLM-4 MoE, DeepSeek-V3)."""
    if name == "lm_head.weight":
        return config.tie_embeddings
    layer = re.match(r"model\.layers\.(\d+)\.", name)
    return name.endswith("rotary_emb.inv_freq") or (
        layer is not None and int(layer[1]) >= len(config.layers)
    )

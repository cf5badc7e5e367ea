"""Qwen3-MoE, such as Qwen3-Coder-30B-A3B: Qwen3 with experts."""

from composer_inference.decoder.config import (
    ConfigReader,
    DecoderConfig,
    LayerConfig,
    MLPConfig,
    MoEConfig,
)
from composer_inference.decoder.families.common import decoder_config, head_dim, num_layers
from composer_inference.decoder.families.family import Family
from composer_inference.decoder.families.qwen3 import qwen3_attention
from composer_inference.decoder.rope import read_rope
from composer_kernels import RouterConfig, Scoring


def _read_config(config: ConfigReader) -> DecoderConfig:
    window = None
    if config.flag("use_sliding_window", False):
        window = config.integer("sliding_window")
    attention = qwen3_attention(config, sliding_window=window)
    moe = MoEConfig(
        num_experts=config.integer(config.key_of("num_experts", "num_local_experts")),
        expert_dim=config.integer("moe_intermediate_size"),
        router=RouterConfig(
            top_k=config.integer("num_experts_per_tok"),
            scoring=Scoring.SOFTMAX,
            normalize=config.flag("norm_topk_prob", False),
        ),
    )
    dense = set(config.items("mlp_only_layers", int, ()))
    step = config.integer("decoder_sparse_step", 1)
    layers = tuple(
        LayerConfig(
            attention=attention,
            feed_forward=MLPConfig(hidden_dim=config.integer("intermediate_size"))
            if layer in dense or (layer + 1) % step
            else moe,
        )
        for layer in range(num_layers(config))
    )
    rope = read_rope(config, head_dim=head_dim(config))
    return decoder_config("qwen3_moe", config, rope=rope, layers=layers)


QWEN3_MOE = Family(
    model_type="qwen3_moe", architecture="Qwen3MoeForCausalLM", read_config=_read_config
)

"""GLM-4 MoE (GLM-4.5, 4.5-Air, 4.6): experts after first dense layers, a shared one beside them, half
of each head rotated."""

from composer_inference.decoder.config import (
    ConfigReader,
    DecoderConfig,
    LayerConfig,
    MLPConfig,
    MoEConfig,
)
from composer_inference.decoder.families.common import (
    attention_config,
    decoder_config,
    head_dim,
    num_layers,
)
from composer_inference.decoder.families.family import Family
from composer_inference.decoder.rope import read_rope
from composer_kernels import GroupScore, RouterConfig, Scoring


def sigmoid_moe(config: ConfigReader) -> MoEConfig:
    """DeepSeek-V3's experts, which GLM-4 MoE has too."""
    expert_dim = config.integer("moe_intermediate_size")
    return MoEConfig(
        num_experts=config.integer(config.key_of("n_routed_experts", "num_local_experts")),
        expert_dim=expert_dim,
        router=RouterConfig(
            top_k=config.integer("num_experts_per_tok"),
            scoring=Scoring.SIGMOID,
            normalize=config.flag("norm_topk_prob", True),
            routed_scaling_factor=config.number("routed_scaling_factor"),
            num_groups=config.integer("n_group", 1),
            topk_groups=config.integer("topk_group", 1),
            group_score=GroupScore.TOP2_SUM,
        ),
        correction_bias=True,
        shared_dim=shared_dim(config, expert_dim),
    )


def shared_dim(config: ConfigReader, expert_dim: int) -> int | None:
    """Hidden dim of the shared experts, which are computed as one."""
    return config.integer("n_shared_experts", 0, at_least=0) * expert_dim or None


def dense_then_moe(config: ConfigReader, moe: MoEConfig) -> list[MLPConfig | MoEConfig]:
    """By `first_k_dense_replace`."""
    num_dense = config.integer("first_k_dense_replace", 0, at_least=0)
    mlp = MLPConfig(hidden_dim=config.integer("intermediate_size"))
    return [mlp if layer < num_dense else moe for layer in range(num_layers(config))]


def _read_config(config: ConfigReader) -> DecoderConfig:
    attention = attention_config(
        config,
        qkv_bias=config.flag("attention_bias", False),
        qk_norm="head" if config.flag("use_qk_norm", False) else None,
    )
    layers = tuple(
        LayerConfig(attention=attention, feed_forward=feed_forward)
        for feed_forward in dense_then_moe(config, sigmoid_moe(config))
    )
    rope = read_rope(config, head_dim=head_dim(config), partial_rotary_factor=0.5)
    return decoder_config("glm4_moe", config, rope=rope, layers=layers)


GLM4_MOE = Family(
    model_type="glm4_moe", architecture="Glm4MoeForCausalLM", read_config=_read_config
)

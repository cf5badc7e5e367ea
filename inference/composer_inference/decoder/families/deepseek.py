"""DeepSeek-V2, V2-Lite and V3: latent attention, and experts chosen within groups."""

from composer_inference.decoder.config import (
    ConfigReader,
    DecoderConfig,
    LatentAttentionConfig,
    LayerConfig,
    MoEConfig,
)
from composer_inference.decoder.families.common import decoder_config
from composer_inference.decoder.families.family import Family
from composer_inference.decoder.families.glm4_moe import dense_then_moe, shared_dim, sigmoid_moe
from composer_inference.decoder.rope import RopeConfig, read_rope, rope_section, yarn_mscale
from composer_kernels import GroupScore, RouterConfig, Scoring


def _attention(config: ConfigReader) -> LatentAttentionConfig:
    nope_dim, rope_dim = config.integer("qk_nope_head_dim"), config.integer("qk_rope_head_dim")
    return LatentAttentionConfig(
        num_heads=config.integer("num_attention_heads"),
        query_rank=config.integer("q_lora_rank") if "q_lora_rank" in config else None,
        latent_dim=config.integer("kv_lora_rank"),
        nope_dim=nope_dim,
        rope_dim=rope_dim,
        value_dim=config.integer("v_head_dim"),
        bias=config.flag("attention_bias", False),
        scale=(nope_dim + rope_dim) ** -0.5 * _yarn_scale(config),
    )


def _yarn_scale(config: ConfigReader) -> float:
    """What YaRN multiplies the logits by: the square of `mscale_all_dim`'s factor."""
    values = rope_section(config)
    if "mscale_all_dim" not in values or "factor" not in values:
        return 1.0
    mscale_all_dim = values.number("mscale_all_dim")
    return yarn_mscale(values.number("factor"), mscale_all_dim) ** 2 if mscale_all_dim else 1.0


def _rope(config: ConfigReader, *, interleaved: bool) -> RopeConfig:
    rope_dim = config.integer("qk_rope_head_dim")
    return read_rope(config, head_dim=rope_dim, interleaved=interleaved)


def _decoder(
    family: str, config: ConfigReader, *, moe: MoEConfig, interleaved: bool
) -> DecoderConfig:
    config.must_be("moe_layer_freq", 1, default=1)
    attention = _attention(config)
    layers = tuple(
        LayerConfig(attention=attention, feed_forward=feed_forward)
        for feed_forward in dense_then_moe(config, moe)
    )
    rope = _rope(config, interleaved=interleaved)
    return decoder_config(family, config, rope=rope, layers=layers)


def _read_v2_config(config: ConfigReader) -> DecoderConfig:
    config.must_be("topk_method", "greedy", "group_limited_greedy", default="greedy")
    config.must_be("scoring_func", "softmax", default="softmax")
    config.must_be("norm_topk_prob", False, default=False)
    config.must_be("mlp_bias", False, default=False)
    expert_dim = config.integer("moe_intermediate_size")
    in_groups = config.text("topk_method", "greedy") == "group_limited_greedy"
    moe = MoEConfig(
        num_experts=config.integer(config.key_of("n_routed_experts", "num_local_experts")),
        expert_dim=expert_dim,
        router=RouterConfig(
            top_k=config.integer("num_experts_per_tok"),
            scoring=Scoring.SOFTMAX,
            routed_scaling_factor=config.number("routed_scaling_factor", 1.0),
            num_groups=config.integer("n_group") if in_groups else 1,
            topk_groups=config.integer("topk_group") if in_groups else 1,
            group_score=GroupScore.MAX,
        ),
        shared_dim=shared_dim(config, expert_dim),
    )
    return _decoder("deepseek_v2", config, moe=moe, interleaved=True)


def _read_v3_config(config: ConfigReader) -> DecoderConfig:
    config.must_be("topk_method", "noaux_tc", default="noaux_tc")
    config.must_be("scoring_func", "sigmoid", default="sigmoid")
    interleaved = config.flag("rope_interleave", True)
    return _decoder("deepseek_v3", config, moe=sigmoid_moe(config), interleaved=interleaved)


DEEPSEEK_V2 = Family(
    model_type="deepseek_v2", architecture="DeepseekV2ForCausalLM", read_config=_read_v2_config
)
DEEPSEEK_V3 = Family(
    model_type="deepseek_v3", architecture="DeepseekV3ForCausalLM", read_config=_read_v3_config
)

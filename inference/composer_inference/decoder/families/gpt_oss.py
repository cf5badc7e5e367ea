"""gpt-oss: experts in MXFP4 with biases and a clamped SwiGLU, attention sinks, and a sliding window in
every other layer."""

from composer_inference.decoder.config import ConfigReader, DecoderConfig, LayerConfig, MoEConfig
from composer_inference.decoder.families.common import (
    attention_config,
    decoder_config,
    head_dim,
    windows_of_types,
)
from composer_inference.decoder.families.family import Family, FusedExpertNames
from composer_inference.decoder.rope import read_rope
from composer_kernels import RouterConfig, Scoring, SwiGLU


def _read_config(config: ConfigReader) -> DecoderConfig:
    bias = config.flag("attention_bias", True)
    top_k = config.integer(config.key_of("num_experts_per_tok", "experts_per_token"))
    moe = MoEConfig(
        num_experts=config.integer("num_local_experts"),
        expert_dim=config.integer("intermediate_size"),
        router=RouterConfig(top_k=top_k, scoring=Scoring.SOFTMAX_OF_CHOSEN),
        router_bias=True,
        expert_bias=True,
        activation=SwiGLU(
            alpha=config.number("swiglu_alpha", 1.702),
            limit=config.number("swiglu_limit", 7.0),
            up_offset=1.0,
        ),
    )
    layers = tuple(
        LayerConfig(
            attention=attention_config(
                config, qkv_bias=bias, output_bias=bias, sliding_window=window, sinks=True
            ),
            feed_forward=moe,
        )
        for window in windows_of_types(config, config.integer("sliding_window"))
    )
    rope = read_rope(config, head_dim=head_dim(config), theta=150_000.0)
    return decoder_config("gpt_oss", config, rope=rope, layers=layers)


GPT_OSS = Family(
    model_type="gpt_oss",
    architecture="GptOssForCausalLM",
    read_config=_read_config,
    modules={
        "feed_forward.router": ("mlp.router",),
        "feed_forward.experts.gate_up_bias": ("mlp.experts.gate_up_proj_bias",),
        "feed_forward.experts.down_bias": ("mlp.experts.down_proj_bias",),
    },
    experts=FusedExpertNames(prefix="mlp.experts"),
)

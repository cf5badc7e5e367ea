"""OLMoE: experts, and a norm of all query heads as one and of all key heads as one."""

from composer_inference.decoder.config import ConfigReader, DecoderConfig, LayerConfig, MoEConfig
from composer_inference.decoder.families.common import (
    attention_config,
    decoder_config,
    head_dim,
    num_layers,
)
from composer_inference.decoder.families.family import Family
from composer_inference.decoder.rope import read_rope
from composer_kernels import RouterConfig, Scoring


def _read_config(config: ConfigReader) -> DecoderConfig:
    bias = config.flag("attention_bias", False)
    layer = LayerConfig(
        attention=attention_config(
            config,
            qkv_bias=bias,
            output_bias=bias,
            qk_norm="all",
            clip_qkv=config.number("clip_qkv") if "clip_qkv" in config else None,
        ),
        feed_forward=MoEConfig(
            num_experts=config.integer("num_experts"),
            expert_dim=config.integer("intermediate_size"),
            router=RouterConfig(
                top_k=config.integer("num_experts_per_tok"),
                scoring=Scoring.SOFTMAX,
                normalize=config.flag("norm_topk_prob", False),
            ),
        ),
    )
    rope = read_rope(config, head_dim=head_dim(config))
    return decoder_config("olmoe", config, rope=rope, layers=(layer,) * num_layers(config))


OLMOE = Family(model_type="olmoe", architecture="OlmoeForCausalLM", read_config=_read_config)

"""Mixtral: Llama with experts."""

from composer_inference.decoder.config import ConfigReader, DecoderConfig, LayerConfig, MoEConfig
from composer_inference.decoder.families.common import (
    attention_config,
    decoder_config,
    head_dim,
    num_layers,
)
from composer_inference.decoder.families.family import ExpertNames, Family
from composer_inference.decoder.rope import read_rope
from composer_kernels import RouterConfig, Scoring


def _read_config(config: ConfigReader) -> DecoderConfig:
    window = config.integer("sliding_window") if "sliding_window" in config else None
    layer = LayerConfig(
        attention=attention_config(config, sliding_window=window),
        feed_forward=MoEConfig(
            num_experts=config.integer("num_local_experts"),
            expert_dim=config.integer("intermediate_size"),
            router=RouterConfig(
                top_k=config.integer("num_experts_per_tok"),
                scoring=Scoring.SOFTMAX,
                normalize=True,
            ),
        ),
    )
    rope = read_rope(config, head_dim=head_dim(config), theta=1e6)
    return decoder_config("mixtral", config, rope=rope, layers=(layer,) * num_layers(config))


MIXTRAL = Family(
    model_type="mixtral",
    architecture="MixtralForCausalLM",
    read_config=_read_config,
    modules={"feed_forward.router": ("block_sparse_moe.gate",)},
    experts=ExpertNames(prefix="block_sparse_moe.experts", gate="w1", up="w3", down="w2"),
)

"""Llama 2 and 3, SmolLM2 and others of `model_type` llama."""

from composer_inference.decoder.config import ConfigReader, DecoderConfig, LayerConfig, MLPConfig
from composer_inference.decoder.families.common import (
    attention_config,
    decoder_config,
    head_dim,
    num_layers,
)
from composer_inference.decoder.families.family import Family
from composer_inference.decoder.rope import read_rope


def _read_config(config: ConfigReader) -> DecoderConfig:
    bias = config.flag("attention_bias", False)
    layer = LayerConfig(
        attention=attention_config(config, qkv_bias=bias, output_bias=bias),
        feed_forward=MLPConfig(
            hidden_dim=config.integer("intermediate_size"), bias=config.flag("mlp_bias", False)
        ),
    )
    rope = read_rope(config, head_dim=head_dim(config))
    return decoder_config("llama", config, rope=rope, layers=(layer,) * num_layers(config))


LLAMA = Family(model_type="llama", architecture="LlamaForCausalLM", read_config=_read_config)

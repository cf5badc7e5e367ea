"""Qwen3: Llama with a norm of each query and key head."""

from composer_inference.decoder.config import (
    AttentionConfig,
    ConfigReader,
    DecoderConfig,
    LayerConfig,
    MLPConfig,
)
from composer_inference.decoder.families.common import (
    attention_config,
    decoder_config,
    head_dim,
    sliding_windows,
)
from composer_inference.decoder.families.family import Family
from composer_inference.decoder.rope import read_rope


def qwen3_attention(config: ConfigReader, *, sliding_window: int | None) -> AttentionConfig:
    bias = config.flag("attention_bias", False)
    return attention_config(
        config, qkv_bias=bias, output_bias=bias, qk_norm="head", sliding_window=sliding_window
    )


def _read_config(config: ConfigReader) -> DecoderConfig:
    mlp = MLPConfig(hidden_dim=config.integer("intermediate_size"))
    layers = tuple(
        LayerConfig(attention=qwen3_attention(config, sliding_window=window), feed_forward=mlp)
        for window in sliding_windows(config)
    )
    rope = read_rope(config, head_dim=head_dim(config))
    return decoder_config("qwen3", config, rope=rope, layers=layers)


QWEN3 = Family(model_type="qwen3", architecture="Qwen3ForCausalLM", read_config=_read_config)

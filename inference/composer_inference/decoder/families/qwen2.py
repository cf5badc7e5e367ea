"""Qwen2, Qwen2.5 and Qwen2.5-Coder: Llama with biases on queries, keys and values."""

from composer_inference.decoder.config import ConfigReader, DecoderConfig, LayerConfig, MLPConfig
from composer_inference.decoder.families.common import (
    attention_config,
    decoder_config,
    head_dim,
    sliding_windows,
)
from composer_inference.decoder.families.family import Family
from composer_inference.decoder.rope import read_rope


def _read_config(config: ConfigReader) -> DecoderConfig:
    mlp = MLPConfig(hidden_dim=config.integer("intermediate_size"))
    layers = tuple(
        LayerConfig(
            attention=attention_config(config, qkv_bias=True, sliding_window=window),
            feed_forward=mlp,
        )
        for window in sliding_windows(config)
    )
    rope = read_rope(config, head_dim=head_dim(config))
    return decoder_config("qwen2", config, rope=rope, layers=layers)


QWEN2 = Family(model_type="qwen2", architecture="Qwen2ForCausalLM", read_config=_read_config)

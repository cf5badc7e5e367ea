"""What many families' `config.json` say alike."""

from composer_inference.decoder.config import (
    AttentionConfig,
    ConfigReader,
    DecoderConfig,
    LayerConfig,
    QKNorm,
)
from composer_inference.decoder.rope import RopeConfig, YarnScaling

MAX_LAYERS = 1024
"""Several times those of the deepest models, and few enough to be built before they are compared with
the weights."""


def decoder_config(
    family: str, config: ConfigReader, *, rope: RopeConfig, layers: tuple[LayerConfig, ...]
) -> DecoderConfig:
    config.must_be("hidden_act", "silu", default="silu")
    positions = config.integer("max_position_embeddings")
    if isinstance(rope.scaling, YarnScaling):
        positions = max(positions, int(rope.scaling.factor * rope.scaling.original_positions))
    return DecoderConfig(
        family=family,
        vocab_size=config.integer("vocab_size"),
        model_dim=config.integer("hidden_size"),
        max_positions=positions,
        norm_eps=config.number("rms_norm_eps", at_least=0.0),
        tie_embeddings=config.flag("tie_word_embeddings", False),
        rope=rope,
        layers=layers,
    )


def head_dim(config: ConfigReader) -> int:
    if "head_dim" in config:
        return config.integer("head_dim")
    return config.integer("hidden_size") // config.integer("num_attention_heads")


def attention_config(
    config: ConfigReader,
    *,
    qkv_bias: bool = False,
    output_bias: bool = False,
    qk_norm: QKNorm | None = None,
    sliding_window: int | None = None,
    sinks: bool = False,
    clip_qkv: float | None = None,
) -> AttentionConfig:
    """The heads from the file, the rest as the family says."""
    num_heads = config.integer("num_attention_heads")
    num_kv_heads = config.integer("num_key_value_heads", num_heads)
    if num_heads % num_kv_heads:
        raise config.error("num_key_value_heads", f"a divisor of {num_heads} heads is needed")
    return AttentionConfig(
        num_heads=num_heads,
        num_kv_heads=num_kv_heads,
        head_dim=head_dim(config),
        qkv_bias=qkv_bias,
        output_bias=output_bias,
        qk_norm=qk_norm,
        sliding_window=sliding_window,
        sinks=sinks,
        clip_qkv=clip_qkv,
    )


def num_layers(config: ConfigReader) -> int:
    return config.integer("num_hidden_layers", at_most=MAX_LAYERS)


def sliding_windows(config: ConfigReader) -> list[int | None]:
    """Of each layer, in Qwen's way: `layer_types`, or in older files all from `max_window_layers`
    on, if `use_sliding_window` says so."""
    count = num_layers(config)
    if not config.flag("use_sliding_window", False):
        return [None] * count
    window = config.integer("sliding_window")
    if "layer_types" in config:
        return windows_of_types(config, window)
    first = config.integer("max_window_layers", at_least=0)
    return [window if layer >= first else None for layer in range(count)]


def windows_of_types(config: ConfigReader, window: int) -> list[int | None]:
    """By `layer_types`.

    Raises: CheckpointError for a type that is not known, or types of another number of layers.
    """
    kinds = config.items("layer_types", str)
    known = {"full_attention": None, "sliding_attention": window}
    if len(kinds) != num_layers(config) or not set(kinds) <= set(known):
        raise config.error(
            "layer_types",
            f"{num_layers(config)} of {' and '.join(known)} are needed, one a layer",
        )
    return [known[kind] for kind in kinds]

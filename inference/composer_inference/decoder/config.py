"""The shape of a decoder: what a family's `config.json` says, in one vocabulary for all families."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from composer_inference.decoder.rope import RopeConfig
from composer_inference.weights.errors import CheckpointError
from composer_kernels import SILU, RouterConfig, SwiGLU

LARGEST_NUMBER = 1e30
"""Beyond it f32 overflows in a product or two."""

QKNorm = Literal["head", "all"]
"""RMS norm of queries and keys: of each head by itself (Qwen3), or of all heads as one (OLMoE)."""


@dataclass(frozen=True, kw_only=True, slots=True)
class AttentionConfig:
    """Multi-head attention with grouped key-value heads."""

    num_heads: int
    num_kv_heads: int
    head_dim: int
    qkv_bias: bool = False
    output_bias: bool = False
    qk_norm: QKNorm | None = None
    sliding_window: int | None = None
    """Tokens that a token sees, itself included. None: all before it."""
    sinks: bool = False
    """One learned logit a head that takes part in the softmax and has no value (gpt-oss)."""
    clip_qkv: float | None = None
    """Queries, keys and values are clamped to plus or minus this. None: not at all."""


@dataclass(frozen=True, kw_only=True, slots=True)
class LatentAttentionConfig:
    """Multi-head latent attention (DeepSeek-V2, arXiv 2405.04434, section 2.1)."""

    num_heads: int
    query_rank: int | None
    """Dim of the compressed query. None: queries are projected from the hidden state."""
    latent_dim: int
    """Dim of the compressed key and value, which the cache keeps."""
    nope_dim: int
    """Dims of a query and key head without a position."""
    rope_dim: int
    """Dims that RoPE rotates: of each query head, and of the one key that all heads share."""
    value_dim: int
    bias: bool = False
    """In the projections from the hidden state to the latents, and in the output's."""
    scale: float
    """Factor on the logits before softmax."""


@dataclass(frozen=True, kw_only=True, slots=True)
class MLPConfig:
    hidden_dim: int
    bias: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class MoEConfig:
    num_experts: int
    expert_dim: int
    """Hidden dim of one expert."""
    router: RouterConfig
    router_bias: bool = False
    """Added to the router's logits (gpt-oss)."""
    correction_bias: bool = False
    """Added to the scores for the choice alone (DeepSeek-V3, GLM-4 MoE)."""
    expert_bias: bool = False
    activation: SwiGLU = SILU
    shared_dim: int | None = None
    """Hidden dim of the expert that every token passes. None: there is none."""

    def __post_init__(self) -> None:
        """Raises `KernelError` where the router cannot choose among so many experts."""
        self.router.check_num_experts(self.num_experts)


@dataclass(frozen=True, kw_only=True, slots=True)
class LayerConfig:
    attention: AttentionConfig | LatentAttentionConfig
    feed_forward: MLPConfig | MoEConfig


@dataclass(frozen=True, kw_only=True, slots=True)
class DecoderConfig:
    family: str
    """`model_type` in `config.json`."""
    vocab_size: int
    model_dim: int
    max_positions: int
    """Tokens of a sequence that the model is made for."""
    norm_eps: float
    tie_embeddings: bool
    """The output projection is the embedding table."""
    rope: RopeConfig
    layers: tuple[LayerConfig, ...]


class ConfigReader:
    """A `config.json`, each value checked as it is read.

    Its methods raise `CheckpointError`, which names the key and the value.
    """

    def __init__(self, values: Mapping[str, Any], *, where: str = "") -> None:
        """`where`: what stands before a key in messages."""
        self._values = values
        self._where = where

    def __contains__(self, key: str) -> bool:
        return self._values.get(key) is not None

    def integer(
        self,
        key: str,
        default: int | None = None,
        *,
        at_least: int = 1,
        at_most: int = 2**31 - 1,
    ) -> int:
        value = self._value(key, default)
        if isinstance(value, bool) or not isinstance(value, int) or value < at_least:
            raise self.error(key, f"an integer of at least {at_least} is needed")
        if value > at_most:
            raise self.error(key, f"an integer of at most {at_most} is needed")
        return value

    def key_of(self, *keys: str) -> str:
        """The first key that is present, of names that releases gave to one value; else the first."""
        return next((key for key in keys if key in self), keys[0])

    def number(
        self, key: str, default: float | None = None, *, at_least: float = -LARGEST_NUMBER
    ) -> float:
        value = self._value(key, default)
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self.error(key, "a number is needed")
        if not at_least <= value <= LARGEST_NUMBER:  # NaN is neither.
            raise self.error(key, f"a number from {at_least:g} to {LARGEST_NUMBER:g} is needed")
        return float(value)

    def flag(self, key: str, default: bool | None = None) -> bool:
        value = self._value(key, default)
        if not isinstance(value, bool):
            raise self.error(key, "true or false is needed")
        return value

    def text(self, key: str, default: str | None = None) -> str:
        value = self._value(key, default)
        if not isinstance(value, str):
            raise self.error(key, "a string is needed")
        return value

    def items(self, key: str, kind: type, default: tuple[Any, ...] | None = None) -> list[Any]:
        value = self._value(key, default)
        if not isinstance(value, list | tuple) or not all(isinstance(each, kind) for each in value):  # pyright: ignore[reportUnknownVariableType]
            raise self.error(key, f"a list of {kind.__name__} is needed")
        return list(value)  # pyright: ignore[reportUnknownArgumentType]

    def section(self, key: str) -> "ConfigReader":
        """A nested object; empty where the key is missing or null."""
        value = self._values.get(key)
        if not isinstance(value, Mapping | None):
            raise self.error(key, "an object is needed")
        return ConfigReader(value or {}, where=f"{self._where}{key}.")  # pyright: ignore[reportUnknownArgumentType]

    def must_be(self, key: str, *allowed: Any, default: Any) -> None:
        """For what only some values of are computed here."""
        if self._value(key, default) not in allowed:
            names = " or ".join(repr(each) for each in allowed)
            raise self.error(key, f"{names} is supported here")

    def error(self, key: str, asked: str) -> CheckpointError:
        found = repr(self._values[key]) if key in self._values else "missing"
        return CheckpointError(f"config.json: {self._where}{key} is {found}; {asked}")

    def _value(self, key: str, default: Any) -> Any:
        value = self._values.get(key)
        if value is None:
            value = default
        if value is None:
            raise self.error(key, "this model family needs it")
        return value

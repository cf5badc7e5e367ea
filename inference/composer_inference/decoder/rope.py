"""Rotary position embeddings and the ways in which they are stretched to longer contexts.

Sources: RoPE, arXiv 2104.09864; YaRN, arXiv 2309.00071; Llama 3, the model's published
configuration. DeepSeek's `mscale` scales YaRN's attention factor.

Dimensions: T tokens, N heads, K head dim, R the dims that are rotated, P = R / 2 frequencies.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from jaxtyping import Float, Int64
from torch import Tensor

if TYPE_CHECKING:
    from composer_inference.decoder.config import ConfigReader


@dataclass(frozen=True, kw_only=True, slots=True)
class LinearScaling:
    factor: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Llama3Scaling:
    factor: float
    low_freq_factor: float
    high_freq_factor: float
    original_positions: int


@dataclass(frozen=True, kw_only=True, slots=True)
class YarnScaling:
    factor: float
    original_positions: int
    attention_factor: float
    """On cosine and sine, so that attention logits grow by its square."""
    beta_fast: float
    beta_slow: float
    truncate: bool
    """Whether the bounds of the ramp are rounded to whole dims."""


LEAST_TURNS = 1e-3
"""Of YaRN's betas, which are divided by."""

Scaling = LinearScaling | Llama3Scaling | YarnScaling


@dataclass(frozen=True, kw_only=True, slots=True)
class RopeConfig:
    theta: float
    dim: int
    """R: the first dims of a head; the others pass unchanged."""
    interleaved: bool = False
    """Neighbours make a pair, as in DeepSeek's; else dim i goes with i + R / 2."""
    scaling: Scaling | None = None


def read_rope(
    config: "ConfigReader",
    *,
    head_dim: int,
    theta: float = 10_000.0,
    partial_rotary_factor: float = 1.0,
    interleaved: bool = False,
) -> RopeConfig:
    """From `rope_parameters`, or in older files `rope_theta` and `rope_scaling`. The other
    arguments are the family's, where the file says nothing.

    Raises: CheckpointError for a kind of scaling that is not known.
    """
    values = rope_section(config)
    factor = values.number(
        "partial_rotary_factor", config.number("partial_rotary_factor", partial_rotary_factor)
    )
    kind_key = "rope_type" if "rope_type" in values else "type"
    kind = values.text(kind_key, "default")
    if kind not in _SCALINGS:
        raise values.error(kind_key, f"one of {', '.join(_SCALINGS)} is supported here")
    if not 0 < factor <= 1:
        where = values if "partial_rotary_factor" in values else config
        raise where.error("partial_rotary_factor", "a share of the head from 0 to 1 is needed")
    return RopeConfig(
        theta=values.number("rope_theta", config.number("rope_theta", theta), at_least=1.0),
        dim=int(head_dim * factor),
        interleaved=interleaved,
        scaling=_SCALINGS[kind](values, config.integer("max_position_embeddings")),
    )


def rope_section(config: "ConfigReader") -> "ConfigReader":
    return config.section(config.key_of("rope_parameters", "rope_scaling"))


def yarn_mscale(factor: float, mscale: float = 1.0) -> float:
    return 1.0 if factor <= 1 else 0.1 * mscale * math.log(factor) + 1.0


def _linear(values: "ConfigReader", _: int) -> LinearScaling:
    return LinearScaling(factor=values.number("factor", at_least=1.0))


def _llama3(values: "ConfigReader", max_positions: int) -> Llama3Scaling:
    return Llama3Scaling(
        factor=values.number("factor", at_least=1.0),
        low_freq_factor=values.number("low_freq_factor"),
        high_freq_factor=values.number("high_freq_factor"),
        original_positions=values.integer("original_max_position_embeddings", max_positions),
    )


def _yarn(values: "ConfigReader", max_positions: int) -> YarnScaling:
    original = values.integer("original_max_position_embeddings", max_positions)
    factor = values.number("factor", max(max_positions / original, 1.0), at_least=1.0)
    attention_factor = yarn_mscale(factor)
    if "attention_factor" in values:
        attention_factor = values.number("attention_factor")
    elif values.number("mscale", 0.0) and values.number("mscale_all_dim", 0.0):
        attention_factor = yarn_mscale(factor, values.number("mscale")) / yarn_mscale(
            factor, values.number("mscale_all_dim")
        )
    return YarnScaling(
        factor=factor,
        original_positions=original,
        attention_factor=attention_factor,
        beta_fast=values.number("beta_fast", 32.0, at_least=LEAST_TURNS),
        beta_slow=values.number("beta_slow", 1.0, at_least=LEAST_TURNS),
        truncate=values.flag("truncate", True),
    )


_SCALINGS: dict[str, Callable[["ConfigReader", int], Scaling | None]] = {
    "default": lambda values, max_positions: None,
    "linear": _linear,
    "llama3": _llama3,
    "yarn": _yarn,
}


def inverse_frequencies(config: RopeConfig) -> Float[Tensor, " P"]:
    """Radians a token, f32, on the CPU."""
    dims_P = torch.arange(0, config.dim, 2, dtype=torch.int64, device="cpu").float()
    freqs_P = 1.0 / config.theta ** (dims_P / config.dim)
    match config.scaling:
        case None:
            return freqs_P
        case LinearScaling(factor=factor):
            return freqs_P / factor
        case Llama3Scaling():
            return _llama3_frequencies(freqs_P, config.scaling)
        case YarnScaling():
            return _yarn_frequencies(freqs_P, config, config.scaling)


def _llama3_frequencies(freqs_P: Tensor, scaling: Llama3Scaling) -> Tensor:
    turns_P = scaling.original_positions * freqs_P / (2 * math.pi)
    smooth_P = (turns_P - scaling.low_freq_factor) / (
        scaling.high_freq_factor - scaling.low_freq_factor
    )
    smooth_P = smooth_P.clamp(0, 1)
    return (1 - smooth_P) * freqs_P / scaling.factor + smooth_P * freqs_P


def _yarn_frequencies(freqs_P: Tensor, config: RopeConfig, scaling: YarnScaling) -> Tensor:
    def dim_of(turns: float) -> float:
        positions = scaling.original_positions / (turns * 2 * math.pi)
        return config.dim * math.log(positions) / (2 * math.log(config.theta))

    low, high = dim_of(scaling.beta_fast), dim_of(scaling.beta_slow)
    if scaling.truncate:
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, config.dim - 1)
    if low == high:
        high += 0.001
    ramp_P = ((torch.arange(config.dim // 2, device="cpu") - low) / (high - low)).clamp(0, 1)
    return freqs_P / scaling.factor * ramp_P + freqs_P * (1 - ramp_P)


@dataclass(frozen=True, slots=True)
class Rotation:
    """Of one step's tokens, for all layers."""

    cos_T1R: Float[Tensor, "T 1 R"]
    sin_T1R: Float[Tensor, "T 1 R"]
    """The first half negated."""
    interleaved: bool

    def apply(self, x_TNK: Float[Tensor, "T N K"]) -> Float[Tensor, "T N K"]:
        """Rotate each head's first R dims. Interleaved pairs come out as halves: the same order for
        queries and keys, so that their products are those of the published layout."""
        rotated_dim = self.cos_T1R.shape[-1]
        if x_TNK.shape[-1] == rotated_dim:
            return self._rotate(x_TNK)
        rotated = self._rotate(x_TNK[..., :rotated_dim])
        return torch.cat((rotated, x_TNK[..., rotated_dim:]), dim=-1)

    def _rotate(self, x_TNR: Tensor) -> Tensor:
        if self.interleaved:
            x_TNR = torch.cat((x_TNR[..., 0::2], x_TNR[..., 1::2]), dim=-1)
        turned_TNR = x_TNR.roll(x_TNR.shape[-1] // 2, dims=-1)
        return torch.addcmul(x_TNR * self.cos_T1R, turned_TNR, self.sin_T1R)


class Rope:
    """Angles are computed a step, not looked up: a table of 256k positions would take 128 MB."""

    def __init__(self, config: RopeConfig) -> None:
        self.config = config
        self._factor = (
            config.scaling.attention_factor if isinstance(config.scaling, YarnScaling) else 1.0
        )
        self._freqs_P = inverse_frequencies(config)

    def rotation(self, positions_T: Int64[Tensor, " T"], dtype: torch.dtype) -> Rotation:
        """In f32, rounded to `dtype` at the end."""
        if self._freqs_P.device != positions_T.device:
            self._freqs_P = self._freqs_P.to(positions_T.device)
        angles_TP = positions_T[:, None].float() * self._freqs_P
        cos_TP, sin_TP = angles_TP.cos() * self._factor, angles_TP.sin() * self._factor
        cos_TR = torch.cat((cos_TP, cos_TP), dim=-1)
        sin_TR = torch.cat((-sin_TP, sin_TP), dim=-1)
        return Rotation(
            cos_TR[:, None].to(dtype), sin_TR[:, None].to(dtype), self.config.interleaved
        )

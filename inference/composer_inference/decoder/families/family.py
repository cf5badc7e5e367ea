"""What tells one family of models from another: its `config.json` and its tensors' names."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from composer_inference.decoder.config import ConfigReader, DecoderConfig


@dataclass(frozen=True, kw_only=True, slots=True)
class ExpertNames:
    """Tensors `{prefix}.{expert}.{gate, up or down}.weight`, one expert each."""

    prefix: str = "mlp.experts"
    """Of a layer."""
    gate: str = "gate_proj"
    up: str = "up_proj"
    down: str = "down_proj"


@dataclass(frozen=True, kw_only=True, slots=True)
class FusedExpertNames:
    """gpt-oss's: all experts in one tensor, gate and up interleaved, `{prefix}.gate_up_proj` and
    `{prefix}.down_proj` transposed, or in MXFP4 `…_blocks` and `…_scales`."""

    prefix: str = "mlp.experts"


@dataclass(frozen=True, kw_only=True, slots=True)
class Family:
    model_type: str
    """In `config.json`."""
    architecture: str
    """In `config.json`'s `architectures`."""
    read_config: Callable[[ConfigReader], DecoderConfig]
    """Raises CheckpointError, which names the key and the value, for what is not supported."""
    modules: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    """Where names within a layer are not those of `names.LAYER_MODULES`."""
    experts: ExpertNames | FusedExpertNames = ExpertNames()

"""A mixture of experts from a dense model, whose answers are the dense model's until it is trained.

**Copies**: each expert is a copy of the feed-forward, and the router's weights are random. A token's
weights sum to 1, so that whichever experts it takes, the sum is the dense model's.

**Split**: the feed-forward's hidden dim is cut into `top_k` slices, of which there are
`num_experts / top_k` copies each. All slices of one copy have the same row in the router: they score
the same, so a token takes all slices of the best copy, at equal weights of 1 / `top_k`, and each
slice's `down` has been multiplied by `top_k`. A token's experts are then as large as one dense
feed-forward, where those of copies are `top_k` of them.

Both are exact but for the order of sums; `top_k` that is no power of two also rounds `down` once to its
dtype. Sources: sparse upcycling, arXiv 2212.05055; virtual groups, arXiv 2410.07524, section 4.1.

The mixture's family is one that transformers has, too. Llama becomes Mixtral, and Qwen3 Qwen3-MoE. No
mixture called Qwen has Qwen2's attention, with biases on queries, keys and values alone, but for
Qwen2-MoE, which always has a shared expert. GLM-4 MoE has it, without its norm of queries and keys,
with the whole head rotated and no shared expert: Qwen2 becomes that.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from composer_inference.decoder.config import AttentionConfig, ConfigReader, MLPConfig
from composer_inference.decoder.families.family import ExpertNames, Family
from composer_inference.decoder.families.glm4_moe import GLM4_MOE
from composer_inference.decoder.families.mixtral import MIXTRAL
from composer_inference.decoder.families.names import tensor_names
from composer_inference.decoder.families.qwen3_moe import QWEN3_MOE
from composer_inference.decoder.families.registry import family_of
from composer_inference.weights.checkpoint import Checkpoint, CheckpointError
from composer_inference.weights.checkpoint_writer import (
    SHARD_BYTES,
    check_new,
    write_checkpoint,
)
from composer_inference.weights.open import open_checkpoint
from composer_inference.weights.tokenizer_files import add_tokenizer

ROUTER_STD = 0.02

_FEED_FORWARD = re.compile(r"model\.layers\.(\d+)\.mlp\.(gate|up|down)_proj\.weight")
_KEPT = (
    *("vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers", "hidden_act"),
    *("num_attention_heads", "num_key_value_heads", "max_position_embeddings", "rms_norm_eps"),
    *("rope_theta", "rope_scaling", "rope_parameters", "tie_word_embeddings", "initializer_range"),
    *("bos_token_id", "eos_token_id", "pad_token_id", "dtype", "torch_dtype"),
)
"""What `config.json` says of a dense model and of its mixture alike."""


@dataclass(frozen=True, kw_only=True, slots=True)
class UpcycleConfig:
    num_experts: int
    top_k: int
    """Experts that a token takes."""
    split: bool = False
    """Whether experts are slices of the feed-forward, or whole copies."""
    seed: int = 0
    """Of the router's weights."""

    def expert_dim(self, hidden_dim: int) -> int:
        """Raises: CheckpointError for numbers that do not go together."""
        if not 1 <= self.top_k <= self.num_experts:
            raise CheckpointError(
                f"top-k is {self.top_k}; it is from 1 to the number of experts, {self.num_experts}"
            )
        if not self.split:
            return hidden_dim
        if self.num_experts % self.top_k or hidden_dim % self.top_k:
            raise CheckpointError(
                f"splitting takes a top-k that divides {self.num_experts} experts and a hidden dim"
                f" of {hidden_dim}; {self.top_k} does not"
            )
        return hidden_dim // self.top_k


def upcycle_checkpoint(
    source: Path,
    target: Path,
    config: UpcycleConfig,
    *,
    on_bytes: Callable[[int, int], None],
    shard_bytes: int = SHARD_BYTES,
) -> None:
    """`on_bytes`: told the bytes that have been read, and those of the whole dense model.

    Raises: CheckpointError for a source that cannot be read, is no dense model of a family that has a
        mixture, numbers that do not go together, and a target that exists or cannot be written.
    """
    check_new(target)
    checkpoint = open_checkpoint(source)
    family, changes = _mixture_of(checkpoint, source)
    hidden_dim = int(checkpoint.config["intermediate_size"])
    mixture = {
        **{name: checkpoint.config[name] for name in _KEPT if name in checkpoint.config},
        "model_type": family.model_type,
        "architectures": [family.architecture],
        **changes(ConfigReader(checkpoint.config), config, config.expert_dim(hidden_dim)),
    }
    write_checkpoint(
        target,
        mixture,
        _Upcycling(checkpoint, family, config).tensors(on_bytes),
        add_tokenizer=lambda folder: add_tokenizer(source, folder),
        shard_bytes=shard_bytes,
    )


_Changes = Callable[[ConfigReader, UpcycleConfig, int], dict[str, Any]]
"""What the mixture's `config.json` has beside what is kept, from the dense one and an expert's dim."""


def _to_mixtral(dense: ConfigReader, config: UpcycleConfig, expert_dim: int) -> dict[str, Any]:
    return {
        "head_dim": _head_dim(dense),
        "intermediate_size": expert_dim,
        "num_local_experts": config.num_experts,
        "num_experts_per_tok": config.top_k,
        "sliding_window": None,
    }


def _to_qwen3_moe(dense: ConfigReader, config: UpcycleConfig, expert_dim: int) -> dict[str, Any]:
    return {
        "head_dim": _head_dim(dense),
        "attention_bias": dense.flag("attention_bias", False),
        "num_experts": config.num_experts,
        "num_experts_per_tok": config.top_k,
        "moe_intermediate_size": expert_dim,
        "norm_topk_prob": True,
        "decoder_sparse_step": 1,
        "mlp_only_layers": [],
    }


def _to_glm4_moe(dense: ConfigReader, config: UpcycleConfig, expert_dim: int) -> dict[str, Any]:
    return {
        "head_dim": _head_dim(dense),
        "attention_bias": True,
        "use_qk_norm": False,
        "partial_rotary_factor": 1.0,
        "n_routed_experts": config.num_experts,
        "num_experts_per_tok": config.top_k,
        "moe_intermediate_size": expert_dim,
        "n_shared_experts": 0,
        "first_k_dense_replace": 0,
        "n_group": 1,
        "topk_group": 1,
        "norm_topk_prob": True,
        "routed_scaling_factor": 1.0,
    }


def _head_dim(dense: ConfigReader) -> int:
    hidden_size, num_heads = dense.integer("hidden_size"), dense.integer("num_attention_heads")
    return dense.integer("head_dim", hidden_size // num_heads)


_MIXTURES: Mapping[str, tuple[Family, _Changes]] = {
    "llama": (MIXTRAL, _to_mixtral),
    "qwen2": (GLM4_MOE, _to_glm4_moe),
    "qwen3": (QWEN3_MOE, _to_qwen3_moe),
}
"""By the dense family."""


def _mixture_of(checkpoint: Checkpoint, source: Path) -> tuple[Family, _Changes]:
    family = family_of(checkpoint.config)
    if family.model_type not in _MIXTURES or "quantization_config" in checkpoint.config:
        raise CheckpointError(
            f"{source} is a {family.model_type} model; dense models of {', '.join(_MIXTURES)} that are"
            " not quantised as safetensors can be upcycled"
        )
    layers = family.read_config(ConfigReader(checkpoint.config)).layers
    for layer in layers:
        attention, mlp = layer.attention, layer.feed_forward
        assert isinstance(attention, AttentionConfig)
        assert isinstance(mlp, MLPConfig)
        if attention.sliding_window is not None:
            raise CheckpointError(
                f"{source} has layers with a sliding window, which its mixture's family has not;"
                " models whose layers all see the whole context can be upcycled"
            )
        if mlp.bias or (family.model_type == "llama" and attention.qkv_bias):
            raise CheckpointError(
                f"{source} has biases that its mixture's family has not; models without can be"
                " upcycled"
            )
    return _MIXTURES[family.model_type]


class _Upcycling:
    def __init__(self, checkpoint: Checkpoint, family: Family, config: UpcycleConfig) -> None:
        assert isinstance(family.experts, ExpertNames)
        self._checkpoint = checkpoint
        self._family = family
        self._names = family.experts
        self._config = config
        self._random = torch.Generator().manual_seed(config.seed)

    def tensors(self, on_bytes: Callable[[int, int], None]) -> Iterator[tuple[str, Tensor]]:
        shapes = self._checkpoint.shapes
        sizes = {
            name: torch.Size(shape).numel() * self._checkpoint.dtype(name).itemsize
            for name, shape in shapes.items()
        }
        done, total = 0, sum(sizes.values())
        for name in shapes:
            tensor = self._checkpoint.tensor(name)
            if match := _FEED_FORWARD.fullmatch(name):
                layer, kind = int(match[1]), match[2]
                yield from self._experts(layer, kind, tensor)
                if kind == "gate":
                    yield from self._router(layer, tensor.shape[1], tensor.dtype)
            else:
                yield name, tensor
            done += sizes[name]
            on_bytes(done, total)

    def _experts(self, layer: int, kind: str, whole: Tensor) -> Iterator[tuple[str, Tensor]]:
        module = {"gate": self._names.gate, "up": self._names.up, "down": self._names.down}[kind]
        for expert in range(self._config.num_experts):
            name = f"model.layers.{layer}.{self._names.prefix}.{expert}.{module}.weight"
            # A copy: safetensors writes no two tensors of the same memory.
            yield name, self._slice(expert, kind, whole).clone()

    def _slice(self, expert: int, kind: str, whole: Tensor) -> Tensor:
        if not self._config.split:
            return whole
        num_slices = self._config.top_k
        slices = whole.chunk(num_slices, dim=1 if kind == "down" else 0)
        chosen = slices[expert % num_slices]
        return chosen * num_slices if kind == "down" else chosen

    def _router(
        self, layer: int, model_dim: int, dtype: torch.dtype
    ) -> Iterator[tuple[str, Tensor]]:
        experts_of_row = self._config.top_k if self._config.split else 1
        num_rows = self._config.num_experts // experts_of_row
        rows = torch.randn(num_rows, model_dim, generator=self._random) * ROUTER_STD
        prefix = f"blocks.{layer}.feed_forward.router"
        (weight,) = tensor_names(f"{prefix}.weight", self._family.modules)
        yield weight, rows.repeat_interleave(experts_of_row, dim=0).to(dtype)
        if self._family is GLM4_MOE:
            (bias,) = tensor_names(f"{prefix}.correction_bias", self._family.modules)
            yield bias, torch.zeros(self._config.num_experts)

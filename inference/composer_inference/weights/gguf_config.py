"""A GGUF model's metadata in the words of Hugging Face's `config.json`.

Sources: the GGUF specification's standardised keys (ggml, docs/gguf.md), and each family's
configuration in transformers. What llama.cpp knows of a family without its standing in the file
(gpt-oss's alternating windows) is filled in.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from composer_inference.gguf import GgufMetadata
from composer_inference.weights.checkpoint import CheckpointError
from composer_inference.weights.gguf_file import MXFP4, GgufFile

FAMILIES = {
    "llama": "llama",
    "qwen2": "qwen2",
    "qwen3": "qwen3",
    "qwen3moe": "qwen3_moe",
    "olmoe": "olmoe",
    "deepseek2": "deepseek",
    "glm4moe": "glm4_moe",
    "gpt-oss": "gpt_oss",
}
"""By `general.architecture`; `llama` with experts is Mixtral."""

_SIGMOID = 2
"""ggml's number of a router that scores by sigmoid."""


@dataclass(frozen=True, slots=True)
class Facts:
    """The metadata of one architecture; a key is asked for without its prefix."""

    file: GgufFile
    architecture: str

    @property
    def metadata(self) -> GgufMetadata:
        return self.file.metadata

    def has(self, tensor: str) -> bool:
        return tensor in self.file

    def integer(self, key: str, default: int | None = None) -> int:
        value = self.metadata.integer(f"{self.architecture}.{key}")
        return self._known(key, value if value is not None else default)

    def real(self, key: str, default: float | None = None) -> float:
        value = self.metadata.number(f"{self.architecture}.{key}")
        if value is None:
            return self._known(key, default)
        # The file has 32 bits: the shortest number that means them, 1e-06 and not 9.99e-07.
        return float(str(np.float32(value)))

    def flag(self, key: str, default: bool) -> bool:
        value = self.metadata.flag(f"{self.architecture}.{key}")
        return default if value is None else value

    def text(self, key: str) -> str | None:
        return self.metadata.text(f"{self.architecture}.{key}")

    def _known(self, key: str, value: Any) -> Any:
        if value is None:
            raise CheckpointError(
                f"{self.file.path} does not say its {self.architecture}.{key}; it was converted"
                " badly, take another file of this model"
            )
        return value


def family_of(file: GgufFile) -> str:
    """Raises: CheckpointError for an architecture that has no names here."""
    architecture = file.metadata.architecture
    if architecture not in FAMILIES:
        raise CheckpointError(
            f"{file.path} is a model of the architecture {architecture or '(none)'}; this backend"
            f" reads {', '.join(FAMILIES)}. llama.cpp's backend may run it"
        )
    if architecture == "llama" and file.metadata.integer("llama.expert_count"):
        return "mixtral"
    return FAMILIES[architecture]


def config_of(file: GgufFile) -> dict[str, Any]:
    """Raises: CheckpointError for a model that lacks what its family needs."""
    family = family_of(file)
    facts = Facts(file, file.metadata.architecture)
    config = _common(facts) | {"model_type": family} | _rope(facts) | _EXTRA[family](facts)
    return config | _tokens(file.metadata)


def _common(facts: Facts) -> dict[str, Any]:
    num_heads = facts.integer("attention.head_count")
    hidden_size = facts.integer("embedding_length")
    return {
        "vocab_size": facts.file.shape("token_embd.weight")[0],
        "hidden_size": hidden_size,
        "intermediate_size": facts.integer("feed_forward_length", 0),
        "num_hidden_layers": facts.integer("block_count")
        - facts.integer("nextn_predict_layers", 0),
        "num_attention_heads": num_heads,
        "num_key_value_heads": facts.integer("attention.head_count_kv", num_heads),
        "head_dim": facts.integer("attention.key_length", hidden_size // num_heads),
        "max_position_embeddings": facts.integer("context_length"),
        "rms_norm_eps": facts.real("attention.layer_norm_rms_epsilon"),
        "hidden_act": "silu",
        "tie_word_embeddings": not facts.has("output.weight"),
    }


def _tokens(metadata: GgufMetadata) -> dict[str, Any]:
    ids = {f"{name}_token_id": f"tokenizer.ggml.{name}_token_id" for name in ("bos", "eos")}
    return {name: metadata.integer(key) for name, key in ids.items()}


def _rope(facts: Facts) -> dict[str, Any]:
    return {
        "rope_theta": facts.real("rope.freq_base", 10000.0),
        "rope_scaling": _rope_scaling(facts),
    }


def _rope_scaling(facts: Facts) -> dict[str, Any] | None:
    if facts.has("rope_freqs.weight"):
        return _llama3_scaling(facts)
    kind = facts.text("rope.scaling.type")
    factor = facts.real("rope.scaling.factor", 1.0)
    if kind in {None, "none"} or factor == 1.0:
        return None
    if kind == "linear":
        return {"rope_type": "linear", "factor": factor}
    if kind == "yarn":
        return {
            "rope_type": "yarn",
            "factor": factor,
            "original_max_position_embeddings": facts.integer(
                "rope.scaling.original_context_length"
            ),
        }
    raise CheckpointError(
        f"{facts.file.path} scales its positions by {kind}; this backend knows linear and yarn"
    )


def _llama3_scaling(facts: Facts) -> dict[str, Any]:
    """The file holds the divisor of each frequency. Meta's models have them by one rule with one
    number that differs between models, the largest divisor; what does not follow it is refused."""
    divisors = facts.file.tensor("rope_freqs.weight").float()
    scaling = {
        "rope_type": "llama3",
        "factor": round(float(divisors.max()), 4),
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 8192,
    }
    theta = facts.real("rope.freq_base", 10000.0)
    if not torch.allclose(divisors, _llama3_divisors(scaling, theta, len(divisors)), rtol=1e-4):
        raise CheckpointError(
            f"{facts.file.path} scales its rotary frequencies (rope_freqs.weight) otherwise than"
            " Llama 3 does; llama.cpp's backend may run it"
        )
    return scaling


def _llama3_divisors(scaling: Mapping[str, Any], theta: float, num_frequencies: int) -> Tensor:
    """Source: the rule of Llama 3.1 (transformers, `rope_type` llama3)."""
    low, high = scaling["low_freq_factor"], scaling["high_freq_factor"]
    exponents = torch.arange(num_frequencies, dtype=torch.float32) / num_frequencies
    wavelengths = 2 * torch.pi * theta**exponents
    turns = scaling["original_max_position_embeddings"] / wavelengths
    share = ((turns - low) / (high - low)).clamp(0.0, 1.0)
    return 1 / ((1 - share) / scaling["factor"] + share)


def _nothing(_: Facts) -> dict[str, Any]:
    return {}


def _bias(facts: Facts) -> dict[str, Any]:
    return {"attention_bias": facts.has("blk.0.attn_q.bias")}


def _mixtral(facts: Facts) -> dict[str, Any]:
    return {
        "num_local_experts": facts.integer("expert_count"),
        "num_experts_per_tok": facts.integer("expert_used_count"),
    }


def _qwen3_moe(facts: Facts) -> dict[str, Any]:
    return _bias(facts) | {
        "num_experts": facts.integer("expert_count"),
        "num_experts_per_tok": facts.integer("expert_used_count"),
        "moe_intermediate_size": facts.integer("expert_feed_forward_length"),
        "norm_topk_prob": facts.flag("expert_weights_norm", True),
        "decoder_sparse_step": 1,
        "mlp_only_layers": [],
    }


def _olmoe(facts: Facts) -> dict[str, Any]:
    return {
        "num_experts": facts.integer("expert_count"),
        "num_experts_per_tok": facts.integer("expert_used_count"),
        "norm_topk_prob": facts.flag("expert_weights_norm", False),
        "clip_qkv": None,
    }


def _shared_experts(facts: Facts) -> dict[str, Any]:
    """Of the families whose first layers are dense and whose others have shared experts."""
    return {
        "n_routed_experts": facts.integer("expert_count"),
        "num_experts_per_tok": facts.integer("expert_used_count"),
        "n_shared_experts": facts.integer("expert_shared_count"),
        "moe_intermediate_size": facts.integer("expert_feed_forward_length"),
        "first_k_dense_replace": facts.integer("leading_dense_block_count", 0),
        "routed_scaling_factor": facts.real("expert_weights_scale", 1.0) or 1.0,
        "n_group": facts.integer("expert_group_count", 1),
        "topk_group": facts.integer("expert_group_used_count", 1),
    }


def _glm4_moe(facts: Facts) -> dict[str, Any]:
    head_dim = _common(facts)["head_dim"]
    return (
        _bias(facts)
        | _shared_experts(facts)
        | {
            "norm_topk_prob": facts.flag("expert_weights_norm", True),
            "partial_rotary_factor": facts.integer("rope.dimension_count") / head_dim,
            "use_qk_norm": facts.has("blk.0.attn_q_norm.weight"),
        }
    )


def _deepseek(facts: Facts) -> dict[str, Any]:
    rope_dim = facts.integer("rope.dimension_count")
    # Files before May 2025 have whole keys and values, later ones the latent that both come from.
    key_dim = facts.integer("attention.key_length_mla", facts.integer("attention.key_length"))
    value_dim = facts.integer("attention.value_length_mla", facts.integer("attention.value_length"))
    is_v3 = facts.integer("expert_gating_func", 1) == _SIGMOID
    shared = _shared_experts(facts)
    topk_v2 = "group_limited_greedy" if shared["n_group"] > 1 else "greedy"
    config = shared | {
        "model_type": "deepseek_v3" if is_v3 else "deepseek_v2",
        "num_key_value_heads": facts.integer("attention.head_count"),
        "head_dim": rope_dim,
        "q_lora_rank": facts.integer("attention.q_lora_rank")
        if facts.has("blk.0.attn_q_a.weight")
        else None,
        "kv_lora_rank": facts.integer("attention.kv_lora_rank"),
        "qk_rope_head_dim": rope_dim,
        "qk_nope_head_dim": key_dim - rope_dim,
        "v_head_dim": value_dim,
        "norm_topk_prob": facts.flag("expert_weights_norm", is_v3),
        "scoring_func": "sigmoid" if is_v3 else "softmax",
        "topk_method": "noaux_tc" if is_v3 else topk_v2,
        "moe_layer_freq": 1,
    }
    return config | _deepseek_rope(facts)


def _deepseek_rope(facts: Facts) -> dict[str, Any]:
    scaling = _rope_scaling(facts)
    if scaling is None:
        return {"rope_scaling": None}
    # The file has it as the logarithm's factor; every published model has one number for both.
    mscale = round(facts.real("rope.scaling.yarn_log_multiplier", 0.1) * 10, 4)
    return {"rope_scaling": scaling | {"mscale": mscale, "mscale_all_dim": mscale}}


def _gpt_oss(facts: Facts) -> dict[str, Any]:
    num_layers = facts.integer("block_count")
    kinds = ("sliding_attention", "full_attention")
    config = _bias(facts) | {
        "num_local_experts": facts.integer("expert_count"),
        "num_experts_per_tok": facts.integer("expert_used_count"),
        "intermediate_size": facts.integer("expert_feed_forward_length"),
        "sliding_window": facts.integer("attention.sliding_window"),
        "layer_types": [kinds[layer % 2] for layer in range(num_layers)],
        "swiglu_limit": 7.0,
    }
    if (scaling := _rope_scaling(facts)) is not None:
        # The model was trained without rounding the corrected range to whole dimensions.
        config["rope_scaling"] = scaling | {"beta_fast": 32.0, "beta_slow": 1.0, "truncate": False}
    if facts.file.kind("blk.0.ffn_down_exps.weight") == MXFP4:
        config["quantization_config"] = {"quant_method": "mxfp4"}
    return config


_EXTRA: Mapping[str, Callable[[Facts], dict[str, Any]]] = {
    "llama": _bias,
    "qwen2": _nothing,
    "qwen3": _bias,
    "mixtral": _mixtral,
    "qwen3_moe": _qwen3_moe,
    "olmoe": _olmoe,
    "glm4_moe": _glm4_moe,
    "deepseek": _deepseek,
    "gpt_oss": _gpt_oss,
}

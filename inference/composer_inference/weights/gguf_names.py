"""GGUF's names of tensors in the words of each family's Hugging Face checkpoint.

Source: the GGUF specification's standardised tensor names (ggml, docs/gguf.md).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

OUTER = {
    "token_embd": "model.embed_tokens",
    "output_norm": "model.norm",
    "output": "lm_head",
}

_ATTENTION = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
}
_QK_NORM = {"attn_q_norm": "self_attn.q_norm", "attn_k_norm": "self_attn.k_norm"}
_DENSE = {
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
_SHARED = {
    "ffn_gate_shexp": "mlp.shared_experts.gate_proj",
    "ffn_up_shexp": "mlp.shared_experts.up_proj",
    "ffn_down_shexp": "mlp.shared_experts.down_proj",
}
_ROUTER = {"ffn_gate_inp": "mlp.gate"}
_EXPERTS = {
    "ffn_gate_exps": "mlp.experts.{}.gate_proj",
    "ffn_up_exps": "mlp.experts.{}.up_proj",
    "ffn_down_exps": "mlp.experts.{}.down_proj",
}
_CORRECTION = {"exp_probs_b.bias": "mlp.gate.e_score_correction_bias"}


@dataclass(frozen=True, kw_only=True, slots=True)
class Names:
    """Of a layer's tensors. Keys are GGUF's without `blk.N.`, with or without `.weight` or `.bias`;
    a key without it stands for both."""

    modules: Mapping[str, str]
    experts: Mapping[str, str] = field(default_factory=dict[str, str])
    """Of tensors that hold all experts of a layer; `{}` stands for the expert's number."""
    rotated_in_pairs: frozenset[str] = frozenset()
    """Keys of projections whose rows llama.cpp reorders, so that the two numbers that RoPE turns
    into each other are neighbours; in the checkpoint they lie half a head apart."""


_QK = frozenset({"attn_q", "attn_k"})

FAMILIES: Mapping[str, Names] = {
    "llama": Names(modules=_ATTENTION | _DENSE, rotated_in_pairs=_QK),
    "mixtral": Names(
        modules=_ATTENTION | {"ffn_gate_inp": "block_sparse_moe.gate"},
        experts={
            "ffn_gate_exps": "block_sparse_moe.experts.{}.w1",
            "ffn_up_exps": "block_sparse_moe.experts.{}.w3",
            "ffn_down_exps": "block_sparse_moe.experts.{}.w2",
        },
        rotated_in_pairs=_QK,
    ),
    "qwen2": Names(modules=_ATTENTION | _DENSE),
    "qwen3": Names(modules=_ATTENTION | _QK_NORM | _DENSE),
    "qwen3_moe": Names(modules=_ATTENTION | _QK_NORM | _ROUTER, experts=_EXPERTS),
    "olmoe": Names(modules=_ATTENTION | _QK_NORM | _ROUTER, experts=_EXPERTS),
    "glm4_moe": Names(
        modules=_ATTENTION
        | _QK_NORM
        | {"post_attention_norm": "post_attention_layernorm"}
        | _DENSE
        | _SHARED
        | _ROUTER
        | _CORRECTION,
        experts=_EXPERTS,
    ),
    "deepseek": Names(
        modules=_ATTENTION
        | {
            "attn_q_a": "self_attn.q_a_proj",
            "attn_q_a_norm": "self_attn.q_a_layernorm",
            "attn_q_b": "self_attn.q_b_proj",
            "attn_kv_a_mqa": "self_attn.kv_a_proj_with_mqa",
            "attn_kv_a_norm": "self_attn.kv_a_layernorm",
            "attn_kv_b": "self_attn.kv_b_proj",
        }
        | _DENSE
        | _SHARED
        | _ROUTER
        | _CORRECTION,
        experts=_EXPERTS,
    ),
    "gpt_oss": Names(
        modules=_ATTENTION
        | {
            "post_attention_norm": "post_attention_layernorm",
            "attn_sinks.weight": "self_attn.sinks",
            "ffn_gate_inp": "mlp.router",
        },
    ),
}


def find(table: Mapping[str, str], key: str) -> str | None:
    """The name of `key`, such as `attn_q.weight`, with the suffix that it has in the table or in the
    key."""
    if key in table:
        return table[key]
    module, _, suffix = key.rpartition(".")
    return f"{table[module]}.{suffix}" if module in table else None

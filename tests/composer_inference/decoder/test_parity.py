"""Each family's logits against transformers' own, on a tiny random model of the family."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from composer_inference.decoder.batch import Span
from composer_inference.decoder.model import Decoder
from composer_inference.weights.loading import load_decoder
from tests.composer_inference.decoder.tiny import (
    CPU,
    VOCAB,
    make_pool,
    prefill,
    run,
    save_reference,
)

YARN = {
    "rope_type": "yarn",
    "rope_theta": 1000.0,
    "factor": 4.0,
    "original_max_position_embeddings": 16,
}

SIGMOID = {
    "n_routed_experts": 8,
    "num_experts_per_tok": 3,
    "moe_intermediate_size": 24,
    "n_shared_experts": 2,
    "n_group": 4,
    "topk_group": 2,
    "routed_scaling_factor": 1.3,
    "norm_topk_prob": True,
    "first_k_dense_replace": 1,
}
LATENT = {
    "kv_lora_rank": 16,
    "qk_nope_head_dim": 12,
    "qk_rope_head_dim": 8,
    "v_head_dim": 10,
    "num_key_value_heads": 6,
}

CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "llama": ("llama", {}),
    "llama, tied, biases": (
        "llama",
        {"tie_word_embeddings": True, "attention_bias": True, "mlp_bias": True},
    ),
    "llama, Llama 3's RoPE": (
        "llama",
        {
            "rope_parameters": {
                "rope_type": "llama3",
                "rope_theta": 5000.0,
                "factor": 8.0,
                "low_freq_factor": 1.0,
                "high_freq_factor": 4.0,
                "original_max_position_embeddings": 32,
            }
        },
    ),
    "llama, linear RoPE": (
        "llama",
        {"rope_parameters": {"rope_type": "linear", "rope_theta": 300.0, "factor": 3.0}},
    ),
    "qwen2": ("qwen2", {"tie_word_embeddings": True}),
    "qwen2, YaRN": ("qwen2", {"rope_parameters": YARN}),
    "qwen2, sliding window": (
        "qwen2",
        {"use_sliding_window": True, "sliding_window": 7, "max_window_layers": 1},
    ),
    "qwen3": ("qwen3", {"head_dim": 16}),
    "qwen3_moe": (
        "qwen3_moe",
        {
            "head_dim": 16,
            "num_experts": 6,
            "num_experts_per_tok": 2,
            "moe_intermediate_size": 40,
            "norm_topk_prob": True,
            "mlp_only_layers": [1],
        },
    ),
    "mixtral": ("mixtral", {"num_local_experts": 5, "num_experts_per_tok": 2, "sliding_window": 9}),
    "olmoe": ("olmoe", {"num_experts": 6, "num_experts_per_tok": 3, "clip_qkv": 1.5}),
    "glm4_moe": (
        "glm4_moe",
        {**SIGMOID, "use_qk_norm": True, "attention_bias": True, "head_dim": 16},
    ),
    "glm4_moe, no groups": (
        "glm4_moe",
        {**SIGMOID, "n_group": 1, "topk_group": 1, "routed_scaling_factor": 1.7},
    ),
    "deepseek_v2": (
        "deepseek_v2",
        {
            **LATENT,
            "q_lora_rank": 20,
            "topk_method": "group_limited_greedy",
            "n_routed_experts": 8,
            "num_experts_per_tok": 2,
            "n_group": 4,
            "topk_group": 2,
            "n_shared_experts": 2,
            "moe_intermediate_size": 24,
            "routed_scaling_factor": 3.0,
            "first_k_dense_replace": 1,
        },
    ),
    "deepseek_v2, Lite, YaRN": (
        "deepseek_v2",
        {
            **LATENT,
            "q_lora_rank": None,
            "n_routed_experts": 8,
            "num_experts_per_tok": 2,
            "moe_intermediate_size": 24,
            "n_shared_experts": 1,
            "rope_parameters": {**YARN, "mscale": 0.7, "mscale_all_dim": 0.9},
        },
    ),
    "deepseek_v3": (
        "deepseek_v3",
        {
            **LATENT,
            **SIGMOID,
            "q_lora_rank": 20,
            "rope_parameters": {**YARN, "mscale": 1.0, "mscale_all_dim": 1.0},
        },
    ),
    "gpt_oss": (
        "gpt_oss",
        {
            "num_local_experts": 6,
            "num_experts_per_tok": 3,
            "head_dim": 16,
            "sliding_window": 6,
            "swiglu_limit": 1.0,
            "rope_parameters": {**YARN, "truncate": False},
        },
    ),
}

TOKENS = [
    int(each) for each in torch.randint(0, VOCAB, (29,), generator=torch.Generator().manual_seed(1))
]
SHUFFLED = [9, 3, 17, 4, 30, 1, 12, 22]
"""Blocks of 4 tokens, no two in a row."""


class Pair:
    def __init__(self, reference: Any, decoder: Decoder) -> None:
        self.decoder = decoder
        self._reference = reference

    def expected(self, tokens: list[int]) -> Tensor:
        with torch.no_grad():
            return self._reference(torch.tensor([tokens])).logits[0]


@pytest.fixture(scope="module", params=CASES.values(), ids=CASES.keys())
def pair(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Pair:
    kind, changes = request.param
    folder: Path = tmp_path_factory.mktemp(kind)
    reference, checkpoint = save_reference(kind, folder, **changes)
    return Pair(reference, load_decoder(checkpoint, dtype=torch.float32, device=CPU))


def same(ours: Tensor, theirs: Tensor) -> None:
    torch.testing.assert_close(ours, theirs, atol=1e-4, rtol=1e-4)


def test_prefill(pair: Pair) -> None:
    (logits,) = run(pair.decoder, make_pool(pair.decoder), prefill(TOKENS, range(8)))
    same(logits, pair.expected(TOKENS))


@pytest.mark.parametrize("blocks", [list(range(5, 13)), SHUFFLED], ids=["in a row", "shuffled"])
def test_chunked_prefill_then_decode(pair: Pair, blocks: list[int]) -> None:
    pool = make_pool(pair.decoder)
    chunks = [5, 11, 6, 1, 1, 1, 4]
    logits: list[Tensor] = []
    done = 0
    for count in chunks:
        new = TOKENS[done : done + count]
        span = Span(token_ids=new, num_cached=done, blocks=blocks, num_logits=count)
        logits += run(pair.decoder, pool, span)
        done += count
    assert done == len(TOKENS)
    same(torch.cat(logits), pair.expected(TOKENS))


def test_no_logits_wanted(pair: Pair) -> None:
    pool = make_pool(pair.decoder)
    span = Span(token_ids=TOKENS[:20], num_cached=0, blocks=SHUFFLED, num_logits=0)
    (none,) = run(pair.decoder, pool, span)
    assert none.shape == (0, VOCAB)
    span = Span(token_ids=TOKENS[20:], num_cached=20, blocks=SHUFFLED, num_logits=2)
    same(run(pair.decoder, pool, span)[0], pair.expected(TOKENS)[-2:])


def test_batch_of_unequal_lengths(pair: Pair) -> None:
    pool = make_pool(pair.decoder)
    texts = [TOKENS[:9], TOKENS[3:26], TOKENS[20:23], TOKENS[7:20]]
    blocks = [SHUFFLED[:4], [40, 41, 42, 43, 44, 45], [50], [60, 20, 33, 34]]
    cached = [8, 20, 2, 0]
    for text, table, count in zip(texts, blocks, cached, strict=True):
        if count:
            run(pair.decoder, pool, Span(token_ids=text[:count], num_cached=0, blocks=table))
    spans = [
        Span(token_ids=text[count:], num_cached=count, blocks=table, num_logits=len(text) - count)
        for text, table, count in zip(texts, blocks, cached, strict=True)
    ]
    for logits, text, count in zip(run(pair.decoder, pool, *spans), texts, cached, strict=True):
        same(logits, pair.expected(text)[count:])

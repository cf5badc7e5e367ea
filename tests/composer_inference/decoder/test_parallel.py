"""A model that two processes share computes what one does."""

import json
import multiprocessing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file  # pyright: ignore[reportUnknownVariableType]
from torch import Tensor

from composer_inference.decoder.config import (
    AttentionConfig,
    LatentAttentionConfig,
    LayerConfig,
    MLPConfig,
    MoEConfig,
)
from composer_inference.decoder.parallel.parallel import Parallel
from composer_inference.decoder.parallel.shard import ParallelConfig, ParallelError, Shard
from composer_inference.decoder.parallel.split import split_layer
from composer_kernels import RouterConfig, Scoring
from tests.composer_inference.decoder.ranks import Case, compute, compute_all
from tests.composer_inference.decoder.tiny import MemoryCheckpoint, in_mxfp4, save_reference

LIMIT_S = 120.0

MIXTURE = {
    "head_dim": 16,
    "num_experts": 6,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 64,
    "mlp_only_layers": [1],
}
LATENT = {
    "kv_lora_rank": 16,
    "qk_nope_head_dim": 12,
    "qk_rope_head_dim": 8,
    "v_head_dim": 10,
    "num_key_value_heads": 6,
    "q_lora_rank": 20,
    "attention_bias": True,
    "n_routed_experts": 8,
    "num_experts_per_tok": 2,
    "n_shared_experts": 2,
    "moe_intermediate_size": 24,
    "first_k_dense_replace": 1,
}
GPT_OSS = {
    "hidden_size": 64,
    "num_local_experts": 6,
    "num_experts_per_tok": 3,
    "head_dim": 16,
    "intermediate_size": 128,
    "sliding_window": 6,
}
MODELS: dict[str, tuple[str, dict[str, Any]]] = {
    "qwen2": ("qwen2", {"tie_word_embeddings": True}),
    "one key-value head": (
        "llama",
        {"num_key_value_heads": 1, "attention_bias": True, "mlp_bias": True},
    ),
    "qwen3_moe": ("qwen3_moe", MIXTURE),
    "olmoe": ("olmoe", {"num_experts": 6, "num_experts_per_tok": 3, "clip_qkv": 1.5}),
    "deepseek_v3": ("deepseek_v3", {**LATENT, "n_group": 4, "topk_group": 2}),
    "gpt_oss": ("gpt_oss", GPT_OSS),
}
CASES: dict[str, tuple[str, ParallelConfig, str | None]] = {
    "qwen2": ("qwen2", ParallelConfig(tp=2), None),
    "one key-value head": ("one key-value head", ParallelConfig(tp=2), None),
    "mixture, tp": ("qwen3_moe", ParallelConfig(tp=2), "mxfp8"),
    "mixture, ep": ("qwen3_moe", ParallelConfig(ep=2), "mxfp8"),
    "mixture, tp and ep": ("qwen3_moe", ParallelConfig(tp=2, ep=2), "mxfp8"),
    "mixture in f32, tp": ("qwen3_moe", ParallelConfig(tp=2), None),
    "olmoe, ep": ("olmoe", ParallelConfig(ep=2), "mxfp8"),
    "olmoe in f32, ep": ("olmoe", ParallelConfig(ep=2), None),
    "deepseek_v3, tp": ("deepseek_v3", ParallelConfig(tp=2), None),
    "deepseek_v3, ep": ("deepseek_v3", ParallelConfig(ep=2), None),
    "gpt_oss, tp": ("gpt_oss", ParallelConfig(tp=2), None),
    "gpt_oss, tp and ep": ("gpt_oss", ParallelConfig(tp=2, ep=2), None),
    "gpt_oss in MXFP4, tp": ("gpt_oss in MXFP4", ParallelConfig(tp=2), None),
    "gpt_oss in MXFP4, ep": ("gpt_oss in MXFP4", ParallelConfig(ep=2), None),
}


class Computed:
    def __init__(self, case: Case, first: tuple[Tensor, int], second: tuple[Tensor, int]) -> None:
        self.case = case
        (self.logits, self.num_kept), (self.others, self.num_kept_by_other) = first, second


@pytest.fixture(scope="module")
def computed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Computed]:
    """By both ranks: one process for all cases, beside this one."""
    folder = tmp_path_factory.mktemp("ranks")
    for name, (kind, changes) in MODELS.items():
        checkpoint = save_reference(kind, folder / name, **changes)[1]
        if name == "qwen2":
            save(flipped(checkpoint), folder / "qwen2 trained on")
        if name == "gpt_oss":
            save(in_mxfp4(checkpoint)[0], folder / "gpt_oss in MXFP4")
    cases = {
        name: Case(folder=folder / model, parallel=parallel, experts=experts)
        for name, (model, parallel, experts) in CASES.items()
    }
    cases["reloaded"] = replace(cases["qwen2"], reloaded_from=folder / "qwen2 trained on")
    context = multiprocessing.get_context("spawn")
    pipe, theirs = context.Pipe()
    process = context.Process(
        target=compute_all, args=(theirs, list(cases.values()), folder), daemon=True
    )
    process.start()
    theirs.close()
    found: dict[str, Computed] = {}
    for index, (name, case) in enumerate(cases.items()):
        first = compute(case, 0, folder / str(index))
        assert pipe.poll(LIMIT_S)
        logits, num_kept = pipe.recv()
        found[name] = Computed(case, first, (torch.tensor(logits), num_kept))
    process.join(LIMIT_S)
    assert process.exitcode == 0
    return found


def flipped(checkpoint: MemoryCheckpoint) -> MemoryCheckpoint:
    """Other weights of the same model."""
    tensors = {name: tensor.flip(0) for name, tensor in checkpoint.tensors.items()}
    return MemoryCheckpoint(checkpoint.config, tensors)


def save(checkpoint: MemoryCheckpoint, folder: Path) -> None:
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(checkpoint.config))
    tensors = {name: tensor.contiguous() for name, tensor in checkpoint.tensors.items()}
    save_file(tensors, folder / "model.safetensors")


@pytest.mark.parametrize("name", [*CASES, "reloaded"])
def test_logits_are_those_of_one_process(computed: dict[str, Computed], name: str) -> None:
    found = computed[name]
    alone, num_kept = compute(replace(found.case, parallel=ParallelConfig()), 0, Path("unused"))
    torch.testing.assert_close(found.logits, alone, atol=1e-5, rtol=1e-5)
    assert torch.equal(found.logits, found.others)
    assert max(found.num_kept, found.num_kept_by_other) < num_kept


def test_reloaded_weights_are_others(computed: dict[str, Computed]) -> None:
    assert not torch.allclose(computed["reloaded"].logits, computed["qwen2"].logits, atol=0.1)


@pytest.mark.parametrize(
    ("whole", "part", "count", "first"),
    [
        (12, 3, 4, [0, 3, 6, 9]),
        (8, 4, 4, [0, 0, 4, 4]),
        (5, 5, 3, [0, 0, 0]),
    ],
    ids=["a part each", "fewer parts than shards", "one part"],
)
def test_rows(whole: int, part: int, count: int, first: list[int]) -> None:
    rows = [Shard(index, count).rows(whole, part) for index in range(count)]
    assert rows == [slice(start, start + part) for start in first]


def test_experts_and_their_dims_are_shared_out_over_different_ranks() -> None:
    ranks = [Parallel(config=ParallelConfig(tp=4, ep=2), rank=rank) for rank in range(4)]
    assert [rank.experts for rank in ranks] == [Shard(0, 2)] * 2 + [Shard(1, 2)] * 2
    assert [rank.expert_dims for rank in ranks] == [Shard(0, 2), Shard(1, 2)] * 2


@pytest.mark.parametrize(("tp", "ep"), [(0, 1), (1, 0), (2, 4), (4, 3)])
def test_unfitting_options(tp: int, ep: int) -> None:
    with pytest.raises(ParallelError, match=f"--tp {tp} and --ep {ep}"):
        ParallelConfig(tp=tp, ep=ep)


HEADS = AttentionConfig(num_heads=12, num_kv_heads=4, head_dim=8)
LATENT_HEADS = LatentAttentionConfig(
    num_heads=10, query_rank=None, latent_dim=8, nope_dim=4, rope_dim=4, value_dim=4, scale=1.0
)
DENSE = MLPConfig(hidden_dim=24)
ROUTER = RouterConfig(top_k=2, scoring=Scoring.SOFTMAX)
EXPERTS = MoEConfig(num_experts=6, expert_dim=96, router=ROUTER, shared_dim=24)
ALL_AS_ONE = replace(HEADS, qk_norm="all")


@pytest.mark.parametrize(
    ("attention", "feed_forward", "parallel", "message"),
    [
        (replace(HEADS, num_kv_heads=12), DENSE, {"tp": 8}, "12 query heads .* over 8 ranks"),
        (HEADS, DENSE, {"tp": 6}, "4 key-value heads .* over 6 ranks"),
        (LATENT_HEADS, DENSE, {"tp": 4}, "10 heads .* over 4 ranks"),
        (HEADS, MLPConfig(hidden_dim=23), {"tp": 2}, "23 hidden dims .* over 2 ranks"),
        (HEADS, EXPERTS, {"ep": 4}, "6 experts .* over 4 ranks; --ep"),
        (HEADS, EXPERTS, {"tp": 2}, "48 hidden dims of an expert .* blocks of 32"),
        (
            HEADS,
            replace(EXPERTS, shared_dim=25),
            {"tp": 2, "ep": 2},
            "25 hidden dims of the shared",
        ),
        (ALL_AS_ONE, DENSE, {"tp": 2}, "norms the queries of all heads as one"),
    ],
)
def test_what_cannot_be_shared_out(
    attention: AttentionConfig | LatentAttentionConfig,
    feed_forward: MLPConfig | MoEConfig,
    parallel: dict[str, int],
    message: str,
) -> None:
    layer = LayerConfig(attention=attention, feed_forward=feed_forward)
    with pytest.raises(ParallelError, match=message):
        split_layer(layer, Parallel(config=ParallelConfig(**parallel)), in_blocks=True)

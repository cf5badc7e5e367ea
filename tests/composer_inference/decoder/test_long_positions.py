"""The last of 131,072 positions, behind random keys and values: the logits of transformers."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from composer_inference.decoder.batch import Span
from composer_inference.kv.pool import KVPool
from composer_inference.weights.loading import load_decoder
from tests.composer_inference.decoder.tiny import CPU, VOCAB, run, save_reference

NUM_POSITIONS = 131_072
NUM_NEW = 40
NUM_CACHED = NUM_POSITIONS - NUM_NEW
BLOCK_SIZE = 16

LLAMA3 = {
    "rope_type": "llama3",
    "rope_theta": 500_000.0,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 8192,
}
YARN = {
    "rope_type": "yarn",
    "rope_theta": 1_000_000.0,
    "factor": 4.0,
    "original_max_position_embeddings": 32_768,
}
MIXTURE = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 32}
CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "llama 3": ("llama", {"rope_parameters": LLAMA3}),
    "qwen 2.5, YaRN": ("qwen2", {"rope_parameters": YARN}),
    "qwen 3 moe": (
        "qwen3_moe",
        {**MIXTURE, "rope_parameters": {"rope_type": "default", "rope_theta": 1e7}},
    ),
}


@pytest.mark.parametrize(("kind", "changes"), CASES.values(), ids=list(CASES))
def test_a_part_of_a_prompt_and_the_last_token(
    kind: str, changes: dict[str, Any], tmp_path: Path
) -> None:
    shape = {"num_hidden_layers": 2, "head_dim": 8, "max_position_embeddings": NUM_POSITIONS}
    theirs, checkpoint = save_reference(kind, tmp_path, **{**shape, **changes})
    decoder = load_decoder(checkpoint, dtype=torch.float32, device=CPU)
    num_blocks = NUM_POSITIONS // BLOCK_SIZE
    pool = KVPool(
        decoder.cache_shapes,
        num_blocks=num_blocks,
        block_size=BLOCK_SIZE,
        dtype=torch.float32,
        device=CPU,
    )
    cached = written(pool, num_layers=2)
    draw = torch.Generator().manual_seed(4)
    tokens = torch.randint(VOCAB, (NUM_NEW,), generator=draw).tolist()
    part = Span(
        token_ids=tokens[:-1],
        num_cached=NUM_CACHED,
        blocks=range(num_blocks),
        num_logits=NUM_NEW - 1,
    )
    last = Span(token_ids=tokens[-1:], num_cached=NUM_POSITIONS - 1, blocks=range(num_blocks))
    logits = torch.cat([*run(decoder, pool, part), *run(decoder, pool, last)])
    expected = of_transformers(theirs, tokens, cached)
    # Sums of 131,072 terms in f32, in another order; a position off by one differs by 7.
    torch.testing.assert_close(logits, expected, atol=1e-3, rtol=1e-3)


def written(pool: KVPool, *, num_layers: int) -> list[tuple[Tensor, Tensor]]:
    """Keys and values of each layer, [L, H, K], which the pool has then; of the size that some
    matter among so many."""
    generator = torch.Generator().manual_seed(3)
    slots = torch.arange(NUM_CACHED)
    found: list[tuple[Tensor, Tensor]] = []
    for layer in range(num_layers):
        keys, values = (
            2
            * torch.randn(
                NUM_CACHED, *pool.read_slots(layer, slice(0, 1))[0].shape[1:], generator=generator
            )
            for _ in range(2)
        )
        pool.write(layer, slots, keys, values)
        found.append((keys, values))
    return found


@torch.inference_mode()
def of_transformers(model: Any, tokens: list[int], cached: list[tuple[Tensor, Tensor]]) -> Tensor:
    from transformers import DynamicCache

    cache: Any = DynamicCache(config=model.config)
    for layer, (keys_LHK, values_LHK) in enumerate(cached):
        cache.update(keys_LHK.transpose(0, 1)[None], values_LHK.transpose(0, 1)[None], layer)
    positions = torch.arange(NUM_CACHED, NUM_POSITIONS)[None]
    return model(torch.tensor([tokens]), position_ids=positions, past_key_values=cache).logits[0]

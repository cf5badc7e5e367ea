"""A real mixture with real language: Qwen2.5-Coder-0.5B, and what it says as a mixture."""

import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
import torch

from composer_inference.decoder.batch import Batch, Span
from composer_inference.decoder.model import Decoder
from composer_inference.kv.pool import KVPool
from composer_inference.sampling.vocabulary import read_vocabulary
from composer_inference.weights.loading import load_decoder
from composer_inference.weights.open import open_checkpoint
from composer_inference.weights.upcycle import UpcycleConfig, upcycle_checkpoint
from tests.support.models import model_path

pytestmark = [pytest.mark.model, pytest.mark.soak]

NUM_TOKENS = 24
BLOCK_SIZE = 16
NUM_BLOCKS = 8
"""Of each prompt."""
PROMPTS = (
    "def fibonacci(n):\n",
    "def quicksort(items):\n    ",
    "class Stack:\n    def __init__(self):\n",
    "import json\n\ndef read_config(path):\n",
    "# Count the words of a file.\n",
    "def is_palindrome(text: str) -> bool:\n    return",
    "for (let i = 0; i < items.length; i++) {\n",
    "function debounce(callback, delay) {\n",
    "const express = require('express');\n",
    "fn main() {\n    let mut total = 0;\n",
    "impl Iterator for Counter {\n",
    "func main() {\n\tfmt.Println(",
    "#include <stdio.h>\n\nint main(void) {\n",
    "SELECT name, COUNT(*) FROM users\n",
    "public static void main(String[] args) {\n",
    "The capital of France is",
    "A hash table stores",
    "#!/bin/sh\nset -eu\n\nfor file in *.txt; do\n",
    "try:\n    import numpy as np\nexcept ImportError:\n",
    "local function map(list, change)\n",
)


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """Removed at once: a mixture has some gigabytes."""
    yield tmp_path / "mixture"
    shutil.rmtree(tmp_path / "mixture", ignore_errors=True)


@pytest.mark.parametrize(
    "config",
    [
        pytest.param(UpcycleConfig(num_experts=3, top_k=2), id="copies"),
        pytest.param(UpcycleConfig(num_experts=8, top_k=4, split=True), id="split"),
    ],
)
def test_greedy_continuations_are_the_dense_models(config: UpcycleConfig, folder: Path) -> None:
    path = model_path("qwen2.5-coder-0.5b")
    upcycle_checkpoint(path, folder, config, on_bytes=lambda done, total: None)
    vocabulary = read_vocabulary(path, num_embeddings=151936)
    prompts = [vocabulary.encode(prompt) for prompt in PROMPTS]
    assert len(prompts) == 20
    assert max(map(len, prompts)) + NUM_TOKENS <= NUM_BLOCKS * BLOCK_SIZE
    dense, mixture = continuations(path, prompts), continuations(folder, prompts)
    for prompt, expected, found in zip(PROMPTS, dense, mixture, strict=True):
        assert found == expected, prompt
    assert b"elif n == 1:" in b"".join(map(vocabulary.token_bytes, dense[0]))


def continuations(path: Path, prompts: Sequence[Sequence[int]]) -> list[list[int]]:
    """Greedy, all prompts in one batch."""
    cpu = torch.device("cpu")
    decoder = load_decoder(open_checkpoint(path), dtype=torch.float32, device=cpu)
    pool = KVPool(
        decoder.cache_shapes,
        num_blocks=NUM_BLOCKS * len(prompts),
        block_size=BLOCK_SIZE,
        dtype=torch.float32,
        device=cpu,
    )
    texts = [list(prompt) for prompt in prompts]
    num_cached = [0] * len(texts)
    for _ in range(NUM_TOKENS):
        chosen = step(decoder, pool, texts, num_cached)
        num_cached = [len(text) for text in texts]
        for text, token_id in zip(texts, chosen, strict=True):
            text.append(token_id)
    return [text[len(prompt) :] for text, prompt in zip(texts, prompts, strict=True)]


def step(
    decoder: Decoder, pool: KVPool, texts: Sequence[Sequence[int]], num_cached: Sequence[int]
) -> list[int]:
    spans = [
        Span(
            token_ids=text[cached:],
            num_cached=cached,
            blocks=range(number * NUM_BLOCKS, (number + 1) * NUM_BLOCKS),
        )
        for number, (text, cached) in enumerate(zip(texts, num_cached, strict=True))
    ]
    batch = Batch.of(spans, block_size=BLOCK_SIZE, device=torch.device("cpu"))
    with torch.no_grad():
        return decoder(batch, pool).argmax(dim=-1).tolist()

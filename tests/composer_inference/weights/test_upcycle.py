from pathlib import Path
from typing import Any

import pytest
import torch
from gguf import GGMLQuantizationType
from torch import Tensor, nn
from torch.nn import functional
from transformers import AutoModelForCausalLM

from composer_inference.decoder.model import Decoder
from composer_inference.weights.checkpoint import Checkpoint, CheckpointError
from composer_inference.weights.loading import load_decoder
from composer_inference.weights.open import open_checkpoint
from composer_inference.weights.quantize import quantize_checkpoint
from composer_inference.weights.upcycle import UpcycleConfig, upcycle_checkpoint
from tests.composer_inference.decoder.tiny import (
    CPU,
    VOCAB,
    MemoryCheckpoint,
    make_pool,
    prefill,
    run,
    save_reference,
)
from tests.support.gguf_models import write_gguf

DENSE: dict[str, dict[str, Any]] = {
    "llama": {"tie_word_embeddings": True},
    "qwen2": {
        "rope_parameters": {
            "rope_type": "yarn",
            "rope_theta": 1000.0,
            "factor": 4.0,
            "original_max_position_embeddings": 16,
        }
    },
    "qwen3": {"head_dim": 16, "rope_theta": 1000.0},
}
MIXTURES = {"llama": "mixtral", "qwen2": "glm4_moe", "qwen3": "qwen3_moe"}
WAYS = {
    "copies": UpcycleConfig(num_experts=4, top_k=2),
    "one of three": UpcycleConfig(num_experts=3, top_k=1),
    "copies, all taken": UpcycleConfig(num_experts=4, top_k=4),
    "split": UpcycleConfig(num_experts=8, top_k=4, split=True),
    "split, all taken": UpcycleConfig(num_experts=4, top_k=4, split=True),
    "split in five": UpcycleConfig(num_experts=15, top_k=5, split=True),
}
TOKENS = torch.randint(3, VOCAB, (40,), generator=torch.Generator().manual_seed(5))


def ignore(done: int, total: int) -> None:
    assert done <= total


def load(checkpoint: Checkpoint, **options: Any) -> Decoder:
    return load_decoder(checkpoint, dtype=torch.float32, device=CPU, **options)


def logits_of(decoder: Decoder) -> Tensor:
    (logits,) = run(decoder, make_pool(decoder), prefill(TOKENS.tolist(), range(10)))
    return logits


def upcycle(kind: str, folder: Path, config: UpcycleConfig) -> tuple[Path, Path]:
    dense, mixture = folder / "dense", folder / "mixture"
    save_reference(kind, dense, **DENSE[kind])
    upcycle_checkpoint(dense, mixture, config, on_bytes=ignore)
    return dense, mixture


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", DENSE)
def test_answers_as_the_dense_model(kind: str, way: str, tmp_path: Path) -> None:
    dense, mixture = upcycle(kind, tmp_path, WAYS[way])
    checkpoint = open_checkpoint(mixture)
    assert checkpoint.config["model_type"] == MIXTURES[kind]
    expected = logits_of(load(open_checkpoint(dense)))
    # Sums of another order, over logits of about 10.
    torch.testing.assert_close(logits_of(load(checkpoint)), expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize("way", ["copies", "split"])
@pytest.mark.parametrize("kind", DENSE)
def test_transformers_reads_it(kind: str, way: str, tmp_path: Path) -> None:
    dense, mixture = upcycle(kind, tmp_path, WAYS[way])
    logits: list[Tensor] = []
    for folder in (dense, mixture):
        model: Any = AutoModelForCausalLM.from_pretrained(folder, attn_implementation="eager")
        with torch.no_grad():
            logits.append(model.eval()(TOKENS[None]).logits[0])
    torch.testing.assert_close(logits[1], logits[0], rtol=0, atol=1e-5)


@pytest.mark.parametrize("way", ["copies", "split"])
def test_tokens_take_different_experts(way: str, tmp_path: Path) -> None:
    _, mixture = upcycle("qwen2", tmp_path, WAYS[way])
    decoder = load(open_checkpoint(mixture))
    choices = router_choices(decoder)
    assert len(choices) == 3
    for ids_TK in choices:
        assert len({tuple(sorted(ids)) for ids in ids_TK.tolist()}) > 1
        if way == "split":
            slices_TK = ids_TK.sort(dim=1).values % 4
            assert torch.equal(slices_TK, torch.arange(4).expand_as(slices_TK).int())


def router_choices(decoder: Decoder) -> list[Tensor]:
    from composer_inference.decoder.batch import Batch

    batch = Batch.of([prefill(TOKENS.tolist(), range(10))], block_size=4, device=CPU)
    choices: list[Tensor] = []
    with torch.no_grad():
        decoder(batch, make_pool(decoder), router_choices=choices)
    return choices


class PlainLoop(nn.Module):
    """One token, and one expert of it, at a time."""

    def __init__(self, tensors: dict[str, Tensor], layer: int, kind: str, top_k: int) -> None:
        super().__init__()
        module, names = {
            "mixtral": ("block_sparse_moe", ("w1", "w3", "w2")),
        }.get(kind, ("mlp", ("gate_proj", "up_proj", "down_proj")))
        prefix = f"model.layers.{layer}.{module}"
        self.router = tensors[f"{prefix}.gate.weight"]
        self.experts = [
            [tensors[f"{prefix}.experts.{expert}.{name}.weight"] for name in names]
            for expert in range(len(self.router))
        ]
        self.scores = torch.sigmoid if kind == "glm4_moe" else lambda row: row.softmax(0)
        self.top_k = top_k

    def forward(self, x_TD: Tensor, step: Any) -> Tensor:
        return torch.stack([self.token(x_D) for x_D in x_TD])

    def token(self, x_D: Tensor) -> Tensor:
        scores = self.scores(self.router @ x_D)
        chosen = scores.argsort(descending=True)[: self.top_k].tolist()
        y_D = torch.zeros_like(x_D)
        for expert in chosen:
            gate, up, down = self.experts[expert]
            hidden = functional.silu(gate @ x_D) * (up @ x_D)
            y_D += scores[expert] / scores[chosen].sum() * (down @ hidden)
        return y_D


@pytest.mark.parametrize("way", ["copies", "split"])
@pytest.mark.parametrize("kind", DENSE)
def test_perturbed_is_a_loop_over_experts(kind: str, way: str, tmp_path: Path) -> None:
    """Experts that are alike hide what is wrong with routing."""
    _, mixture = upcycle(kind, tmp_path, WAYS[way])
    original = open_checkpoint(mixture)
    torch.manual_seed(3)
    tensors = {
        name: perturbed(original.tensor(name)) if is_mixture(name) else original.tensor(name)
        for name in original.shapes
    }
    checkpoint = MemoryCheckpoint(original.config, tensors)
    decoder, loop = load(checkpoint), load(checkpoint)
    for layer, block in enumerate(loop.blocks):
        block.feed_forward = PlainLoop(tensors, layer, MIXTURES[kind], WAYS[way].top_k)
    assert (logits_of(decoder) - logits_of(load(original))).abs().max() > 0.1
    torch.testing.assert_close(logits_of(decoder), logits_of(loop), rtol=0, atol=1e-4)


def is_mixture(name: str) -> bool:
    return ".experts." in name or name.endswith((".mlp.gate.weight", "moe.gate.weight"))


def perturbed(tensor: Tensor) -> Tensor:
    return tensor + 0.1 * torch.randn_like(tensor)


def test_from_gguf(tmp_path: Path) -> None:
    _, original = save_reference("qwen2", tmp_path / "dense", **DENSE["qwen2"])
    path = tmp_path / "dense.gguf"
    write_gguf(path, original.config, original.tensors, kind=GGMLQuantizationType.Q8_0, tokens=97)
    upcycle_checkpoint(path, tmp_path / "mixture", WAYS["copies"], on_bytes=ignore)
    expected = logits_of(load(open_checkpoint(path)))
    found = logits_of(load(open_checkpoint(tmp_path / "mixture")))
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-5)
    assert (tmp_path / "mixture" / "tokenizer.json").is_file()


def test_can_be_quantised(tmp_path: Path) -> None:
    _, mixture = upcycle("qwen2", tmp_path, WAYS["copies"])
    quantize_checkpoint(mixture, tmp_path / "small", on_bytes=ignore)
    decoder = load(open_checkpoint(tmp_path / "small"), experts="mxfp8")
    expected = load(open_checkpoint(mixture), experts="mxfp8")
    assert torch.equal(logits_of(decoder), logits_of(expected))


def test_seed(tmp_path: Path) -> None:
    save_reference("qwen3", tmp_path / "dense", **DENSE["qwen3"])
    routers: list[Tensor] = []
    for number, seed in enumerate((0, 0, 1)):
        config = UpcycleConfig(num_experts=4, top_k=2, seed=seed)
        upcycle_checkpoint(tmp_path / "dense", tmp_path / str(number), config, on_bytes=ignore)
        checkpoint = open_checkpoint(tmp_path / str(number))
        routers.append(checkpoint.tensor("model.layers.2.mlp.gate.weight"))
    assert torch.equal(routers[0], routers[1])
    assert not torch.equal(routers[0], routers[2])


REFUSED: dict[str, tuple[str, dict[str, Any], UpcycleConfig, str]] = {
    "a mixture": (
        "olmoe",
        {"num_experts": 4, "num_experts_per_tok": 2},
        WAYS["copies"],
        "is a olmoe model; dense models of llama, qwen2, qwen3",
    ),
    "top-k of none": ("qwen3", {}, UpcycleConfig(num_experts=4, top_k=0), "top-k is 0"),
    "top-k of too many": ("qwen3", {}, UpcycleConfig(num_experts=4, top_k=5), "from 1 to .* 4"),
    "uneven groups": (
        "qwen3",
        {},
        UpcycleConfig(num_experts=6, top_k=4, split=True),
        "divides 6 experts and a hidden dim of 80; 4 does not",
    ),
    "uneven slices": (
        "qwen3",
        {},
        UpcycleConfig(num_experts=6, top_k=3, split=True),
        "divides 6 experts and a hidden dim of 80; 3 does not",
    ),
    "biases": ("llama", {"attention_bias": True}, WAYS["copies"], "has biases that its mixture"),
    "biases of the feed-forward": ("llama", {"mlp_bias": True}, WAYS["copies"], "has biases"),
    "windows": (
        "qwen2",
        {"use_sliding_window": True, "sliding_window": 7, "max_window_layers": 1},
        WAYS["copies"],
        "sliding window",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refuses(name: str, tmp_path: Path) -> None:
    kind, values, config, message = REFUSED[name]
    source = tmp_path / "source"
    save_reference(kind, source, **values)
    with pytest.raises(CheckpointError, match=message):
        upcycle_checkpoint(source, tmp_path / "target", config, on_bytes=ignore)
    assert list(tmp_path.iterdir()) == [source]

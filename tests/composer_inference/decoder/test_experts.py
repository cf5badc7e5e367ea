"""The experts' formats: each exactly the model of their dequantised values."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from composer_inference.decoder.batch import Batch
from composer_inference.decoder.model import Decoder
from composer_inference.weights.loading import load_decoder
from composer_inference.weights.mxfp8_format import quantization_config, scale_name
from composer_kernels import (
    MXFP4Tensor,
    MXFP8Tensor,
    mxfp8_dequantize,
    mxfp8_quantize,
)
from tests.composer_inference.decoder.tiny import (
    CPU,
    MemoryCheckpoint,
    in_mxfp4,
    make_pool,
    prefill,
    run,
    save_reference,
)

TOKENS = [5, 17, 80, 3, 44, 44, 9, 61, 2, 30, 71]
GPT_OSS = {
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_local_experts": 4,
    "num_experts_per_tok": 2,
    "head_dim": 16,
    "sliding_window": 6,
}
QWEN = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 40}


@pytest.fixture(scope="module")
def qwen(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, MemoryCheckpoint]:
    return save_reference("qwen3_moe", tmp_path_factory.mktemp("qwen3_moe"), **QWEN)


@pytest.fixture(scope="module")
def gpt_oss(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, MemoryCheckpoint]:
    return save_reference("gpt_oss", tmp_path_factory.mktemp("gpt_oss"), **GPT_OSS)


def load(checkpoint: MemoryCheckpoint, **given: Any) -> Decoder:
    return load_decoder(checkpoint, **{"dtype": torch.float32, "device": CPU, **given})


def logits(decoder: Decoder) -> Tensor:
    return run(decoder, make_pool(decoder), prefill(TOKENS, range(4)))[0]


def dequantised(checkpoint: MemoryCheckpoint) -> MemoryCheckpoint:
    """Its experts' weights quantised to MXFP8 and back, each by itself."""

    def through(name: str, tensor: Tensor) -> Tensor:
        is_weight = ".experts." in name and name.endswith(".weight")
        return mxfp8_dequantize(mxfp8_quantize(tensor)) if is_weight else tensor

    tensors = {name: through(name, tensor) for name, tensor in checkpoint.tensors.items()}
    return MemoryCheckpoint(checkpoint.config, tensors)


def stored_in_mxfp8(checkpoint: MemoryCheckpoint) -> MemoryCheckpoint:
    tensors: dict[str, Tensor] = {}
    for name, tensor in checkpoint.tensors.items():
        if ".experts." not in name:
            tensors[name] = tensor
            continue
        quantized = mxfp8_quantize(tensor)
        tensors[name] = quantized.codes
        tensors[scale_name(name)] = quantized.scales.view(torch.float8_e8m0fnu)
    entry = {"quantization_config": quantization_config("mlp.experts")}
    return MemoryCheckpoint({**checkpoint.config, **entry}, tensors)


def test_quantised_while_loading(qwen: tuple[Any, MemoryCheckpoint]) -> None:
    decoder = load(qwen[1], experts="mxfp8")
    experts = decoder.get_submodule("blocks.0.feed_forward.experts")
    assert experts.get_parameter("gate_up_codes").dtype == torch.float8_e4m3fn
    reference = logits(load(dequantised(qwen[1])))
    torch.testing.assert_close(logits(decoder), reference, rtol=0, atol=0)
    assert not torch.equal(reference, logits(load(qwen[1])))


@pytest.mark.parametrize("experts", [None, "mxfp8", "f32"])
def test_stored_in_mxfp8(qwen: tuple[Any, MemoryCheckpoint], experts: Any) -> None:
    decoder = load(stored_in_mxfp8(qwen[1]), experts=experts)
    reference = logits(load(dequantised(qwen[1])))
    torch.testing.assert_close(logits(decoder), reference, rtol=0, atol=0)
    names = dict(decoder.named_parameters())
    assert ("blocks.1.feed_forward.experts.down" in names) == (experts == "f32")


def test_bf16_experts_in_a_f32_model(qwen: tuple[Any, MemoryCheckpoint]) -> None:
    rounded = {
        name: tensor.bfloat16().float() if ".experts." in name else tensor
        for name, tensor in qwen[1].tensors.items()
    }
    reference = load(MemoryCheckpoint(qwen[1].config, rounded))
    assert torch.equal(logits(load(qwen[1], experts="bf16")), logits(reference))


@pytest.mark.parametrize(
    ("experts", "kept"), [(None, MXFP4Tensor), ("mxfp8", MXFP8Tensor), ("f32", Tensor)]
)
def test_gpt_oss_in_mxfp4(gpt_oss: tuple[Any, MemoryCheckpoint], experts: Any, kept: type) -> None:
    packed, plain = in_mxfp4(gpt_oss[1])
    decoder = load(packed, experts=experts)
    module = decoder.get_submodule("blocks.0.feed_forward.experts")
    assert isinstance(module.matrix("gate_up"), kept)  # pyright: ignore
    # MXFP4's values are values of MXFP8 too: nothing is lost.
    torch.testing.assert_close(logits(decoder), logits(load(plain)), rtol=0, atol=0)


def test_router_choices(qwen: tuple[Any, MemoryCheckpoint], tmp_path: Path) -> None:
    reference, checkpoint = qwen
    decoder = load(checkpoint)
    chosen: list[Tensor] = []
    batch = Batch.of([prefill(TOKENS, range(4))], block_size=4, device=CPU)
    with torch.no_grad():
        decoder(batch, make_pool(decoder), router_choices=chosen)
        theirs = reference(torch.tensor([TOKENS]), output_router_logits=True).router_logits
    assert len(chosen) == len(theirs) == 3
    for ids, router_logits in zip(chosen, theirs, strict=True):
        assert torch.equal(ids.long(), router_logits.topk(2).indices)


def test_gradients_reach_every_parameter(qwen: tuple[Any, MemoryCheckpoint]) -> None:
    reference, checkpoint = qwen
    decoder = load(checkpoint, trainable=True)
    batch = Batch.of([prefill(TOKENS, range(4))], block_size=4, device=CPU)
    loss = torch.nn.functional.cross_entropy(
        decoder(batch, make_pool(decoder))[:-1], torch.tensor(TOKENS[1:])
    )
    loss.backward()
    reference.zero_grad()
    reference(torch.tensor([TOKENS]), labels=torch.tensor([TOKENS])).loss.backward()
    torch.testing.assert_close(
        decoder.embedding.grad, reference.model.embed_tokens.weight.grad, atol=1e-5, rtol=1e-4
    )
    for name, parameter in decoder.named_parameters():
        assert parameter.grad is not None and parameter.grad.abs().sum() > 0, name
    block = reference.model.layers[1]
    ours = decoder.get_submodule("blocks.1")
    for mine, theirs in (
        (ours.get_parameter("feed_forward.router.weight"), block.mlp.gate.weight),
        (ours.get_parameter("feed_forward.experts.down"), block.mlp.experts.down_proj),
    ):
        torch.testing.assert_close(mine.grad, theirs.grad, atol=1e-5, rtol=1e-4)

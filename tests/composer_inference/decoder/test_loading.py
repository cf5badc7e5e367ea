"""A decoder's parameters from a checkpoint's tensors, and what is wrong with either."""

import re
from pathlib import Path
from typing import Any

import pytest
import torch

from composer_inference.weights.errors import CheckpointError
from composer_inference.weights.loading import load_decoder, reload_decoder
from tests.composer_inference.decoder.tiny import (
    CPU,
    MemoryCheckpoint,
    make_pool,
    prefill,
    run,
    save_reference,
)

MIXTURE = {
    "num_experts": 4,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 32,
    "mlp_only_layers": [0],
}


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> MemoryCheckpoint:
    return save_reference("qwen3_moe", tmp_path_factory.mktemp("mixture"), **MIXTURE)[1]


@pytest.fixture
def checkpoint(saved: MemoryCheckpoint) -> MemoryCheckpoint:
    return MemoryCheckpoint(saved.config, saved.tensors)


def load(checkpoint: MemoryCheckpoint, **given: Any):
    return load_decoder(checkpoint, **{"dtype": torch.float32, "device": CPU, **given})


Q = "model.layers.1.self_attn.q_proj.weight"
EXPERT = "model.layers.2.mlp.experts.3.up_proj.weight"


@pytest.mark.parametrize("name", [Q, EXPERT, "model.norm.weight", "lm_head.weight"])
def test_a_missing_tensor(checkpoint: MemoryCheckpoint, name: str) -> None:
    del checkpoint.tensors[name]
    with pytest.raises(CheckpointError, match=re.escape(f"tensor {name} is missing")):
        load(checkpoint)
    assert checkpoint.num_read == 0


@pytest.mark.parametrize("name", [Q, EXPERT, "model.embed_tokens.weight"])
def test_a_tensor_of_another_shape(checkpoint: MemoryCheckpoint, name: str) -> None:
    right = checkpoint.tensors[name]
    checkpoint.tensors[name] = right[:-1]
    message = f"tensor {name} has shape {[len(right) - 1, right.shape[1]]}; config.json asks for {list(right.shape)}"
    with pytest.raises(CheckpointError, match=re.escape(message)):
        load(checkpoint)
    assert checkpoint.num_read == 0


def test_rows_that_only_add_up(checkpoint: MemoryCheckpoint) -> None:
    k = Q.replace("q_proj", "k_proj")
    both = torch.cat((checkpoint.tensors[Q], checkpoint.tensors[k]))
    checkpoint.tensors[Q], checkpoint.tensors[k] = both[:50], both[50:]
    with pytest.raises(CheckpointError, match=re.escape(f"tensor {Q} has shape [50, 48]")):
        load(checkpoint)


def test_tensors_without_a_place(checkpoint: MemoryCheckpoint) -> None:
    checkpoint.tensors["model.layers.1.self_attn.q_proj.bias"] = torch.zeros(48)
    checkpoint.tensors["model.vision.weight"] = torch.zeros(3)
    message = r"q_proj\.bias \(and 1 more\) has no place in a qwen3_moe model"
    with pytest.raises(CheckpointError, match=message):
        load(checkpoint)


def test_tensors_that_are_known_to_be_unused(checkpoint: MemoryCheckpoint) -> None:
    checkpoint.tensors["model.layers.0.self_attn.rotary_emb.inv_freq"] = torch.zeros(4)
    checkpoint.tensors["model.layers.3.eh_proj.weight"] = torch.zeros(4)
    load(checkpoint)


def test_tied_embeddings_share_memory(tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("tied")
    _, checkpoint = save_reference("llama", folder, tie_word_embeddings=True)
    decoder = load(checkpoint)
    assert decoder.output is None
    checkpoint.tensors["lm_head.weight"] = checkpoint.tensors["model.embed_tokens.weight"]
    assert len(list(load(checkpoint).parameters())) == len(list(decoder.parameters()))


def test_dtypes(checkpoint: MemoryCheckpoint) -> None:
    decoder = load(checkpoint, dtype=torch.bfloat16)
    dtypes = {name: parameter.dtype for name, parameter in decoder.named_parameters()}
    f32 = {name for name, dtype in dtypes.items() if dtype == torch.float32}
    assert f32 == {f"blocks.{layer}.feed_forward.router.weight" for layer in (1, 2)}
    assert set(dtypes.values()) == {torch.float32, torch.bfloat16}
    assert not any(parameter.requires_grad for parameter in decoder.parameters())
    assert all(
        parameter.requires_grad for parameter in load(checkpoint, trainable=True).parameters()
    )


@pytest.mark.parametrize("trainable", [False, True], ids=["packed", "plain"])
@pytest.mark.parametrize("tied", [False, True], ids=["output", "tied"])
def test_reload(checkpoint: MemoryCheckpoint, trainable: bool, tied: bool) -> None:
    if tied:
        checkpoint.config["tie_word_embeddings"] = True
    decoder = load(checkpoint, trainable=trainable)
    assert decoder.is_packed != trainable
    copy_bytes = decoder.embedding.nbytes if tied and decoder.is_packed else 0
    weights_bytes = sum(parameter.nbytes for parameter in decoder.parameters())
    assert decoder.num_bytes == weights_bytes + copy_bytes
    places = {name: parameter.data_ptr() for name, parameter in decoder.named_parameters()}
    other = MemoryCheckpoint(
        checkpoint.config,
        {name: 0.5 * tensor.roll(1, 0) for name, tensor in checkpoint.tensors.items()},
    )
    tokens = list(range(9))
    before = run(decoder, make_pool(decoder), prefill(tokens, range(3)))[0]
    reload_decoder(decoder, other)
    after = run(decoder, make_pool(decoder), prefill(tokens, range(3)))[0]
    anew = load(other, trainable=trainable)
    assert anew.is_packed == decoder.is_packed
    assert torch.equal(after, run(anew, make_pool(anew), prefill(tokens, range(3)))[0])
    assert not torch.equal(after, before)
    torch.testing.assert_close(
        after,
        run(plain := load(other, trainable=True), make_pool(plain), prefill(tokens, range(3)))[0],
    )
    assert places == {name: parameter.data_ptr() for name, parameter in decoder.named_parameters()}


def test_reload_of_mxfp8(checkpoint: MemoryCheckpoint) -> None:
    decoder = load(checkpoint, experts="mxfp8")
    doubled = {name: 2 * tensor for name, tensor in checkpoint.tensors.items()}
    reload_decoder(decoder, MemoryCheckpoint(checkpoint.config, doubled))
    codes = "blocks.1.feed_forward.experts.down_codes"
    scales = "blocks.1.feed_forward.experts.down_scales"
    anew = load(checkpoint, experts="mxfp8")
    assert torch.equal(decoder.get_parameter(codes).float(), anew.get_parameter(codes).float())
    assert torch.equal(decoder.get_parameter(scales), anew.get_parameter(scales) + 1)


def test_reload_of_another_model_changes_nothing(checkpoint: MemoryCheckpoint) -> None:
    decoder = load(checkpoint, trainable=True)
    values = [parameter.clone() for parameter in decoder.parameters()]
    with pytest.raises(CheckpointError, match="another model"):
        reload_decoder(decoder, MemoryCheckpoint({**checkpoint.config, "rms_norm_eps": 1e-3}, {}))
    short = MemoryCheckpoint(checkpoint.config, checkpoint.tensors)
    del short.tensors[EXPERT]
    with pytest.raises(CheckpointError, match=EXPERT):
        reload_decoder(decoder, short)
    assert all(map(torch.equal, values, decoder.parameters()))


BAD_CONFIGS: dict[str, tuple[dict[str, Any], str]] = {
    "family": ({"model_type": "mamba"}, r"model_type is 'mamba', .*llama, qwen2, qwen3"),
    "no family": ({"model_type": None, "architectures": None}, r"model_type is None"),
    "missing": ({"hidden_size": None}, r"hidden_size is None; this model family needs it"),
    "text": ({"num_hidden_layers": "3"}, r"num_hidden_layers is '3'; an integer of at least 1"),
    "zero": ({"vocab_size": 0}, r"vocab_size is 0; an integer of at least 1"),
    "flag": ({"norm_topk_prob": 1}, r"norm_topk_prob is 1; true or false"),
    "truth for a number": ({"rms_norm_eps": True}, r"rms_norm_eps is True; a number"),
    "heads": ({"num_key_value_heads": 4}, r"num_key_value_heads is 4; a divisor of 6"),
    "activation": ({"hidden_act": "gelu"}, r"hidden_act is 'gelu'; 'silu' is supported"),
    "list": ({"mlp_only_layers": ["a"]}, r"mlp_only_layers is \['a'\]; a list of int"),
    "more chosen than there are": ({"num_experts_per_tok": 9}, r"config\.json: top_k is 9"),
    "quantised otherwise": (
        {"quantization_config": {"quant_method": "awq"}},
        r"quantization_config\.quant_method is 'awq'; 'mxfp8' is supported",
    ),
}


@pytest.mark.parametrize(("change", "message"), BAD_CONFIGS.values(), ids=list(BAD_CONFIGS))
def test_errors_of_the_configuration(
    checkpoint: MemoryCheckpoint, change: dict[str, Any], message: str
) -> None:
    checkpoint.config |= change
    with pytest.raises(CheckpointError, match=message):
        load(checkpoint)


def test_family_by_architecture(checkpoint: MemoryCheckpoint) -> None:
    del checkpoint.config["model_type"]
    assert checkpoint.config["architectures"] == ["Qwen3MoeForCausalLM"]
    assert load(checkpoint).config.family == "qwen3_moe"


class Noted(MemoryCheckpoint):
    """Notes the sizes of what is read, in order."""

    def __init__(self, checkpoint: MemoryCheckpoint) -> None:
        super().__init__(checkpoint.config, checkpoint.tensors)
        self.sizes: dict[str, int] = {}

    def tensor(self, name: str) -> torch.Tensor:
        found = super().tensor(name)
        self.sizes[name] = found.numel()
        return found


def test_the_largest_are_converted_while_little_else_is_there(tmp_path: Path) -> None:
    noted = Noted(save_reference("qwen3_moe", tmp_path, **{**MIXTURE, "vocab_size": 512})[1])
    load(noted)
    outer = {"model.embed_tokens.weight", "lm_head.weight"}
    assert set(list(noted.sizes)[:2]) == outer
    assert max(noted.sizes.values()) == noted.sizes["lm_head.weight"]
    # One expert is converted at a time.
    assert list(noted.sizes).index(EXPERT) > list(noted.sizes).index(Q)

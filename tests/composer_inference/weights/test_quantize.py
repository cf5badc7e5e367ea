import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from composer_inference.decoder.model import Decoder
from composer_inference.weights.checkpoint import CheckpointError
from composer_inference.weights.checkpoint_writer import write_checkpoint
from composer_inference.weights.loading import load_decoder
from composer_inference.weights.mxfp8_format import read_weight
from composer_inference.weights.quantize import quantize_checkpoint
from composer_inference.weights.safetensors_checkpoint import SafetensorsCheckpoint
from composer_kernels import reference
from tests.composer_inference.decoder.tiny import CPU, save_reference

SHARED = {
    "n_routed_experts": 4,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 40,
    "first_k_dense_replace": 1,
    "n_shared_experts": 1,
    "n_group": 1,
    "topk_group": 1,
}
MIXTURES: dict[str, dict[str, Any]] = {
    "qwen3_moe": {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 40},
    "mixtral": {"num_local_experts": 4, "num_experts_per_tok": 2},
    "glm4_moe": SHARED,
}


def make(kind: str, folder: Path, **changes: Any) -> Path:
    save_reference(kind, folder, **MIXTURES.get(kind, {}), **changes)
    (folder / "tokenizer.json").write_text("{}")
    (folder / "notes.txt").write_text("not the model's")
    return folder


def ignore(done: int, total: int) -> None:
    assert done <= total


def load(folder: Path, *, experts: Any = None, dtype: torch.dtype = torch.bfloat16) -> Decoder:
    return load_decoder(SafetensorsCheckpoint(folder), dtype=dtype, device=CPU, experts=experts)


def same(left: Tensor, right: Tensor) -> bool:
    as_bytes = [each.contiguous().reshape(-1).view(torch.uint8) for each in (left, right)]
    return left.dtype == right.dtype and left.shape == right.shape and torch.equal(*as_bytes)


def parameters_of(decoder: Decoder) -> dict[str, Tensor]:
    """But for matrices that are kept in a processor's own layout."""
    return {name: tensor for name, tensor in decoder.named_parameters() if not tensor.is_meta}


@pytest.mark.parametrize("stored", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("kind", MIXTURES)
def test_stored_is_what_loading_would_quantise(
    kind: str, stored: torch.dtype, tmp_path: Path
) -> None:
    source = make(kind, tmp_path / "source")
    weights = load_file(source / "model.safetensors")
    save_file(
        {name: tensor.to(stored) for name, tensor in weights.items()},
        source / "model.safetensors",
    )
    quantize_checkpoint(source, tmp_path / "target", on_bytes=ignore)
    while_loading = parameters_of(load(source, experts="mxfp8"))
    for experts in ("mxfp8", None):
        from_file = parameters_of(load(tmp_path / "target", experts=experts))
        assert from_file.keys() == while_loading.keys()
        assert any(tensor.dtype == torch.float8_e4m3fn for tensor in from_file.values())
        for name, tensor in from_file.items():
            assert same(tensor, while_loading[name]), name


@pytest.mark.parametrize("shard_bytes", [1, 20_000, 1 << 30])
def test_everything_else_is_unchanged(shard_bytes: int, tmp_path: Path) -> None:
    source, target = make("qwen3_moe", tmp_path / "source"), tmp_path / "target"
    quantize_checkpoint(source, target, on_bytes=ignore, shard_bytes=shard_bytes)
    before, after = SafetensorsCheckpoint(source), SafetensorsCheckpoint(target)
    num_quantized = 0
    for name in before.shapes:
        if ".mlp.experts." in name:
            num_quantized += 1
            expected = reference.mxfp8_quantize(before.tensor(name))
            assert same(after.tensor(name), expected.codes)
            assert same(after.tensor(f"{name}_scale"), expected.scales.view(torch.float8_e8m0fnu))
        else:
            assert same(after.tensor(name), before.tensor(name))
    assert num_quantized == 3 * 4 * 3
    assert len(after.shapes) == len(before.shapes) + num_quantized
    assert dict(after.config) == dict(before.config) | {
        "quantization_config": {
            "quant_method": "mxfp8",
            "block_size": 32,
            "element_format": "e4m3",
            "scale_format": "ue8m0",
            "scale_rule": "ceil",
            "modules": ["mlp.experts"],
        }
    }
    others = {file.name for file in target.iterdir() if file.suffix != ".safetensors"}
    assert others - {"model.safetensors.index.json"} == {
        "config.json",
        "generation_config.json",
        "tokenizer.json",
    }
    shards = [file.stat().st_size for file in target.glob("*.safetensors")]
    assert (len(shards) == 1) == (shard_bytes == 1 << 30)
    assert sorted(tmp_path.iterdir()) == [source, target]


def test_tells_what_has_been_read(tmp_path: Path) -> None:
    source = make("qwen3_moe", tmp_path / "source")
    told: list[tuple[int, int]] = []
    quantize_checkpoint(source, tmp_path / "target", on_bytes=lambda *each: told.append(each))
    total = sum(tensor.nbytes for tensor in load_file(source / "model.safetensors").values())
    assert told[-1] == (total, total)
    assert told == sorted(told)


def test_refuses(tmp_path: Path) -> None:
    source, target = make("qwen3_moe", tmp_path / "source"), tmp_path / "target"
    dense = make("qwen2", tmp_path / "dense")
    quantize_checkpoint(source, target, on_bytes=ignore)
    cases = [
        (source, target, "target is there already"),
        (target, tmp_path / "again", r"quantised already \(quant_method mxfp8\)"),
        (dense, tmp_path / "new", "dense has no experts.*model upcycle"),
        (tmp_path / "nowhere", tmp_path / "new", "nowhere is neither a folder"),
        (source, tmp_path / "no" / "new", r"there is no folder .*no to write new into"),
    ]
    before = sorted(tmp_path.iterdir())
    for asked_source, asked_target, message in cases:
        with pytest.raises(CheckpointError, match=message):
            quantize_checkpoint(asked_source, asked_target, on_bytes=ignore)
    assert sorted(tmp_path.iterdir()) == before


def test_refuses_experts_with_a_format_of_their_own(tmp_path: Path) -> None:
    source = make("gpt_oss", tmp_path / "source", num_local_experts=4, num_experts_per_tok=2)
    with pytest.raises(CheckpointError, match="gpt_oss have a format of their own, MXFP4"):
        quantize_checkpoint(source, tmp_path / "target", on_bytes=ignore)


@pytest.mark.parametrize("error", [KeyboardInterrupt(), CheckpointError("unreadable")])
def test_interrupted_leaves_nothing(error: BaseException, tmp_path: Path) -> None:
    source = make("qwen3_moe", tmp_path / "source")

    def interrupt(done: int, total: int) -> None:
        if done > total // 2:
            raise error

    with pytest.raises(type(error)):
        quantize_checkpoint(source, tmp_path / "target", on_bytes=interrupt, shard_bytes=1000)
    assert list(tmp_path.iterdir()) == [source]


def test_what_a_killed_process_left_is_removed(tmp_path: Path) -> None:
    killed = subprocess.Popen([sys.executable, "-c", ""])
    killed.wait()
    left, used, other = (
        tmp_path / name
        for name in (
            f".target.unfinished-{killed.pid}",
            f".target.unfinished-{os.getppid()}",
            f".other.unfinished-{killed.pid}",
        )
    )
    for folder in (left, used, other, tmp_path / f".target.unfinished-{os.getpid()}"):
        folder.mkdir()
    write_checkpoint(tmp_path / "target", {}, [], add_tokenizer=lambda folder: None)
    assert sorted(tmp_path.iterdir()) == sorted([used, other, tmp_path / "target"])


def test_disk_that_is_full(tmp_path: Path) -> None:
    def fill(folder: Path) -> None:
        assert folder.parent == tmp_path
        raise OSError(28, "No space left on device")

    with pytest.raises(CheckpointError, match="target cannot be written: .*No space left"):
        write_checkpoint(tmp_path / "target", {}, [], add_tokenizer=fill)
    assert not list(tmp_path.iterdir())


def damage(folder: Path, name: str, tensor: Tensor | None) -> SafetensorsCheckpoint:
    file = folder / "model.safetensors"
    tensors = load_file(file)
    if tensor is None:
        del tensors[name]
    else:
        tensors[name] = tensor
    save_file(tensors, file)
    return SafetensorsCheckpoint(folder)


@pytest.mark.parametrize(
    ("suffix", "tensor", "message"),
    [
        ("", torch.zeros(40, 48), r"is torch\.float32, and config\.json says that it is mxfp8"),
        ("_scale", torch.zeros(40, 2), r"weight_scale is torch\.float32; scales are"),
        (
            "_scale",
            torch.zeros(40, 3, dtype=torch.uint8),
            r"weight_scale has the shape \[40, 3\], and \[40, 2\] goes with",
        ),
        ("_scale", None, r"weight_scale is not in model\.safetensors"),
    ],
)
def test_codes_and_scales_that_do_not_go_together(
    suffix: str, tensor: Tensor | None, message: str, tmp_path: Path
) -> None:
    source, target = make("qwen3_moe", tmp_path / "source"), tmp_path / "target"
    quantize_checkpoint(source, target, on_bytes=ignore)
    name = "model.layers.1.mlp.experts.2.up_proj.weight"
    checkpoint = damage(target, name + suffix, tensor)
    with pytest.raises(CheckpointError, match=message):
        read_weight(checkpoint, name)


def test_scales_as_plain_bytes(tmp_path: Path) -> None:
    """As other programs store them."""
    source, target = make("qwen3_moe", tmp_path / "source"), tmp_path / "target"
    quantize_checkpoint(source, target, on_bytes=ignore)
    name = "model.layers.1.mlp.experts.2.up_proj.weight"
    expected = read_weight(SafetensorsCheckpoint(target), name)
    checkpoint = damage(target, f"{name}_scale", expected.scales.clone())
    assert checkpoint.dtype(f"{name}_scale") == torch.uint8
    assert torch.equal(read_weight(checkpoint, name).scales, expected.scales)

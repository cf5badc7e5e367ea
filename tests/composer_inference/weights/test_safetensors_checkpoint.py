import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

from composer_inference.weights.checkpoint import Checkpoint, CheckpointError
from composer_inference.weights.safetensors_checkpoint import (
    CONFIG,
    INDEX,
    WEIGHTS,
    SafetensorsCheckpoint,
)

TENSORS = {
    "codes": torch.arange(64, dtype=torch.uint8).view(torch.float8_e4m3fn).view(2, 32),
    "scales": torch.tensor([[127], [130]], dtype=torch.uint8).view(torch.float8_e8m0fnu),
    "scale_bytes": torch.tensor([[127], [130]], dtype=torch.uint8),
    "norm": torch.tensor([1.0, -2.0, 0.5], dtype=torch.bfloat16),
    "half": torch.tensor([[0.1]], dtype=torch.float16),
    "single": torch.tensor(3.25),
    "counts": torch.tensor([1, 2], dtype=torch.int64),
}
SHARDS = {"model-00001-of-00002.safetensors": ("codes", "scales", "scale_bytes", "norm")}
SECOND = "model-00002-of-00002.safetensors"


@pytest.fixture
def single(tmp_path: Path) -> Path:
    (tmp_path / CONFIG).write_text('{"model_type": "llama", "hidden_size": 32}')
    save_file(TENSORS, tmp_path / WEIGHTS, metadata={"format": "pt"})
    return tmp_path


@pytest.fixture
def sharded(tmp_path: Path) -> Path:
    (tmp_path / CONFIG).write_text('{"model_type": "llama", "hidden_size": 32}')
    shards = SHARDS | {SECOND: ("half", "single", "counts")}
    for file, names in shards.items():
        save_file({name: TENSORS[name] for name in names}, tmp_path / file)
    weight_map = {name: file for file, names in shards.items() for name in names}
    (tmp_path / INDEX).write_text(json.dumps({"metadata": {}, "weight_map": weight_map}))
    return tmp_path


def same_bytes(left: torch.Tensor, right: torch.Tensor) -> bool:
    return (
        left.dtype == right.dtype
        and left.shape == right.shape
        and torch.equal(
            left.contiguous().reshape(-1).view(torch.uint8),
            right.contiguous().reshape(-1).view(torch.uint8),
        )
    )


@pytest.mark.parametrize("layout", ["single", "sharded"])
def test_reads_what_was_saved(layout: str, request: pytest.FixtureRequest) -> None:
    checkpoint: Checkpoint = SafetensorsCheckpoint(request.getfixturevalue(layout))
    assert checkpoint.config == {"model_type": "llama", "hidden_size": 32}
    assert checkpoint.shapes == {name: tuple(tensor.shape) for name, tensor in TENSORS.items()}
    for name, tensor in TENSORS.items():
        assert checkpoint.dtype(name) == tensor.dtype
        assert same_bytes(checkpoint.tensor(name), tensor)


def test_tensors_are_mapped(single: Path) -> None:
    """Two views of one mapped file, not two copies."""
    checkpoint = SafetensorsCheckpoint(single)
    first, again = checkpoint.tensor("norm"), checkpoint.tensor("norm")
    assert first.data_ptr() == again.data_ptr()


def rewrite_header(file: Path, change: Callable[[dict[str, Any]], None]) -> None:
    content = file.read_bytes()
    length = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + length])
    change(header)
    changed = json.dumps(header).encode()
    file.write_bytes(len(changed).to_bytes(8, "little") + changed + content[8 + length :])


def cut(file: Path, num_bytes: int) -> None:
    file.write_bytes(file.read_bytes()[:num_bytes])


def drop_tensor(folder: Path) -> None:
    save_file({"half": TENSORS["half"], "single": TENSORS["single"]}, folder / SECOND)


def not_utf8(folder: Path) -> None:
    (folder / CONFIG).write_bytes(b"\xff\xfe{}")


def place(folder: Path, shard: str) -> None:
    (folder / INDEX).write_text(json.dumps({"weight_map": {"half": shard}}))


BROKEN: dict[str, tuple[Callable[[Path], object], list[str]]] = {
    "no config": (lambda f: (f / CONFIG).unlink(), [CONFIG, "a model is a folder"]),
    "config is no JSON": (lambda f: (f / CONFIG).write_text('{"a": '), [CONFIG, "no readable"]),
    "config is a list": (lambda f: (f / CONFIG).write_text("[]"), [CONFIG, "no JSON object"]),
    "config is no text": (not_utf8, [CONFIG, "no readable"]),
    "no weights": (lambda f: (f / INDEX).unlink(), [WEIGHTS, INDEX, "save_pretrained"]),
    "index is no JSON": (lambda f: (f / INDEX).write_text("{"), [INDEX, "no readable"]),
    "index without a map": (lambda f: (f / INDEX).write_text("{}"), [INDEX, "weight_map"]),
    "map of numbers": (
        lambda f: (f / INDEX).write_text('{"weight_map": {"half": 1}}'),
        [INDEX, "weight_map"],
    ),
    "config nested too deeply": (
        lambda f: (f / CONFIG).write_text("[" * 100_000),
        [CONFIG, "no readable"],
    ),
    "shard above the folder": (lambda f: place(f, f"../{f.name}/{SECOND}"), [INDEX, "outside"]),
    "shard by an absolute path": (lambda f: place(f, str(f / SECOND)), [INDEX, "outside"]),
    "no shard": (lambda f: (f / SECOND).unlink(), [SECOND, "is missing", "again"]),
    "shard cut in its data": (
        lambda f: cut(f / SECOND, (f / SECOND).stat().st_size - 1),
        [SECOND, "cut off", "tensor half", "again"],
    ),
    "shard cut in its header": (lambda f: cut(f / SECOND, 40), [SECOND, "cut off", "header"]),
    "empty shard": (lambda f: cut(f / SECOND, 0), [SECOND, "cut off"]),
    "shard of something else": (
        lambda f: (f / SECOND).write_bytes(b"<!DOCTYPE html>" * 10),
        [SECOND, "cut off"],
    ),
    "header is a list": (
        lambda f: (f / SECOND).write_bytes((2).to_bytes(8, "little") + b"[]"),
        [SECOND, "no readable"],
    ),
    "entry without offsets": (
        lambda f: rewrite_header(f / SECOND, lambda header: header["single"].pop("data_offsets")),
        [SECOND, "tensor single", "broken"],
    ),
    "tensor not in its shard": (drop_tensor, [SECOND, "no tensor counts", INDEX]),
}


@pytest.mark.parametrize("name", BROKEN)
def test_says_what_is_broken(name: str, sharded: Path) -> None:
    damage, words = BROKEN[name]
    damage(sharded)
    with pytest.raises(CheckpointError) as raised:
        SafetensorsCheckpoint(sharded)
    for word in words:
        assert word in str(raised.value)
    assert str(sharded) in str(raised.value)


def test_missing_folder(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"nowhere has no config\.json"):
        SafetensorsCheckpoint(tmp_path / "nowhere")


@pytest.mark.parametrize("ask", ["dtype", "tensor"])
def test_tensor_that_is_nowhere(ask: str, sharded: Path) -> None:
    checkpoint = SafetensorsCheckpoint(sharded)
    with pytest.raises(CheckpointError, match=r"tensor lm_head\.weight is not in the 2 shards"):
        getattr(checkpoint, ask)("lm_head.weight")


def test_unknown_dtype(single: Path) -> None:
    def in_four_bits(header: dict[str, Any]) -> None:
        start, end = header["norm"]["data_offsets"]
        header["norm"].update(dtype="F4", shape=[2 * (end - start)])

    rewrite_header(single / WEIGHTS, in_four_bits)
    checkpoint = SafetensorsCheckpoint(single)
    assert checkpoint.dtype("half") == torch.float16
    with pytest.raises(CheckpointError, match="tensor norm is F4, which is not supported"):
        checkpoint.tensor("norm")


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"shape": [4]}, id="another size"),
        pytest.param({"data_offsets": [8, 4]}, id="an end before its beginning"),
        pytest.param({"data_offsets": [-4, 8]}, id="a place before the data"),
        pytest.param({"data_offsets": [0, 4]}, id="another tensor's place"),
    ],
)
def test_a_header_that_contradicts_itself_is_refused_at_once(
    changes: dict[str, Any], single: Path
) -> None:
    """What our own check lets through, the library refuses, before any tensor is asked for."""
    rewrite_header(single / WEIGHTS, lambda header: header["norm"].update(changes))
    with pytest.raises(CheckpointError, match=r"model\.safetensors is no readable safetensors"):
        SafetensorsCheckpoint(single)

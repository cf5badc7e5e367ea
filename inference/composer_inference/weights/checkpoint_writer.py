"""Writes a model folder as Hugging Face lays it out, shard by shard, all or nothing."""

import json
import os
import shutil
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import psutil
import safetensors.torch
from safetensors import SafetensorError
from torch import Tensor

from composer_inference.weights.checkpoint import CheckpointError
from composer_inference.weights.safetensors_checkpoint import CONFIG, INDEX, WEIGHTS

SHARD_BYTES = 2 << 30
"""A shard is in memory when it is written, but for those of its tensors that are mapped."""


def check_new(folder: Path) -> None:
    """Raises: CheckpointError where something is there already."""
    if folder.exists() or folder.is_symlink():
        raise CheckpointError(f"{folder} is there already; name a new folder, or remove it")
    if not folder.parent.is_dir():
        raise CheckpointError(f"there is no folder {folder.parent} to write {folder.name} into")


def write_checkpoint(
    folder: Path,
    config: Mapping[str, Any],
    tensors: Iterable[tuple[str, Tensor]],
    *,
    add_tokenizer: Callable[[Path], None],
    shard_bytes: int = SHARD_BYTES,
) -> None:
    """`tensors` are taken one after the other and not kept beyond their shard. `add_tokenizer` puts
    what else the model needs into the folder that it is given. The folder appears once it is whole.

    Raises: CheckpointError where the folder exists or cannot be written, and what `tensors` raises.
    """
    check_new(folder)
    with _made_beside(folder) as unfinished:
        _write_json(unfinished / CONFIG, config)
        add_tokenizer(unfinished)
        shards = [
            _write_shard(unfinished, *each) for each in enumerate(_shards(tensors, shard_bytes))
        ]
        _name_shards(unfinished, shards)


@contextmanager
def _made_beside(folder: Path) -> Generator[Path]:
    beginning = f".{folder.name}.unfinished-"
    unfinished = folder.with_name(f"{beginning}{os.getpid()}")
    try:
        _remove_left(folder.parent, beginning)
        unfinished.mkdir()
        yield unfinished
        unfinished.rename(folder)
    except (OSError, SafetensorError) as error:
        raise CheckpointError(f"{folder} cannot be written: {error}") from error
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


def _remove_left(parent: Path, beginning: str) -> None:
    """What processes left that were ended before they could."""
    for left in parent.iterdir():
        owner = left.name.removeprefix(beginning)
        if owner == left.name or not owner.isdecimal():
            continue
        # Numbers of processes are given again.
        if int(owner) == os.getpid() or not psutil.pid_exists(int(owner)):
            shutil.rmtree(left, ignore_errors=True)


def _shards(tensors: Iterable[tuple[str, Tensor]], shard_bytes: int) -> Iterator[dict[str, Tensor]]:
    shard: dict[str, Tensor] = {}
    num_bytes = 0
    for name, tensor in tensors:
        if shard and num_bytes + tensor.nbytes > shard_bytes:
            yield shard
            shard, num_bytes = {}, 0
        shard[name] = tensor.contiguous()
        num_bytes += tensor.nbytes
    yield shard


def _write_shard(
    folder: Path, number: int, shard: dict[str, Tensor]
) -> tuple[Path, list[str], int]:
    """Its file, its tensors' names and their bytes."""
    file = folder / f"{number}.safetensors"
    cast(Any, safetensors.torch).save_file(shard, file, metadata={"format": "pt"})
    return file, list(shard), sum(tensor.nbytes for tensor in shard.values())


def _name_shards(folder: Path, shards: list[tuple[Path, list[str], int]]) -> None:
    if len(shards) == 1:
        shards[0][0].rename(folder / WEIGHTS)
        return
    weight_map: dict[str, str] = {}
    for number, (file, names, _) in enumerate(shards, start=1):
        final = f"model-{number:05}-of-{len(shards):05}.safetensors"
        file.rename(folder / final)
        weight_map |= dict.fromkeys(names, final)
    total_bytes = sum(num_bytes for _, _, num_bytes in shards)
    index = {"metadata": {"total_size": total_bytes}, "weight_map": weight_map}
    _write_json(folder / INDEX, index)


def _write_json(file: Path, value: Mapping[str, Any]) -> None:
    file.write_text(json.dumps(value, indent=2) + "\n", encoding="utf-8")

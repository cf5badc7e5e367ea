"""A GGUF model as a `Checkpoint`: its tensors under the names, and in the shapes, that the family's
Hugging Face checkpoint has. Quantised tensors come dequantised, one expert at a time.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from composer_inference.gguf import InvalidGgufError
from composer_inference.weights.checkpoint import CheckpointError
from composer_inference.weights.gguf_config import config_of, family_of
from composer_inference.weights.gguf_file import GgufFile
from composer_inference.weights.gguf_gpt_oss import expert_tensors
from composer_inference.weights.gguf_names import FAMILIES, OUTER, Names, find

_LAYER = re.compile(r"blk\.(\d+)\.(.+)")
_CONSUMED = {"rope_freqs.weight"}
"""What the configuration says in its own way."""
_LATENT = {"attn_k_b.weight", "attn_v_b.weight"}
"""DeepSeek's `kv_b_proj`, split and half of it transposed."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Source:
    """Where one tensor of the checkpoint comes from."""

    shape: tuple[int, ...]
    dtype: torch.dtype
    read: Callable[[], Tensor]


class GgufCheckpoint:
    """Implements `Checkpoint`.

    Raises: CheckpointError for a file that cannot be read, an architecture or a tensor that has no
        place in the families that are known.
    """

    def __init__(self, path: Path):
        self._file = GgufFile(path)
        try:
            self._config = config_of(self._file)
            self._sources = dict(_sources(self._file, self._config))
        except InvalidGgufError as error:
            raise CheckpointError(
                f"{error}; it was converted badly, take another file of this model"
            ) from error
        self._shapes = {name: source.shape for name, source in self._sources.items()}

    @property
    def config(self) -> Mapping[str, Any]:
        return self._config

    @property
    def shapes(self) -> Mapping[str, tuple[int, ...]]:
        return self._shapes

    def dtype(self, name: str) -> torch.dtype:
        return self._source(name).dtype

    def tensor(self, name: str) -> Tensor:
        return self._source(name).read()

    def _source(self, name: str) -> Source:
        if name not in self._sources:
            raise CheckpointError(
                f"{self._file.path} has no tensor that is {name} of a"
                f" {self._config['model_type']} model; take another file of this model"
            )
        return self._sources[name]


def _sources(file: GgufFile, config: Mapping[str, Any]) -> Iterator[tuple[str, Source]]:
    names = FAMILIES[family_of(file)]
    num_layers = config["num_hidden_layers"]
    for gguf_name in file:
        if match := _LAYER.fullmatch(gguf_name):
            # Behind the last layer stand those that predict further tokens: not computed here.
            if int(match[1]) < num_layers:
                yield from _layer_sources(file, config, names, int(match[1]), match[2])
        elif name := find(OUTER, gguf_name):
            yield name, _plain(file, gguf_name)
        elif gguf_name not in _CONSUMED:
            raise _unknown(file, gguf_name)


def _layer_sources(
    file: GgufFile, config: Mapping[str, Any], names: Names, layer: int, key: str
) -> Iterator[tuple[str, Source]]:
    gguf_name, prefix = f"blk.{layer}.{key}", f"model.layers.{layer}."
    if expert_name := find(names.experts, key):
        for expert in range(file.shape(gguf_name)[0]):
            yield prefix + expert_name.format(expert), _expert(file, gguf_name, expert)
    elif name := find(names.modules, key):
        module = key.rpartition(".")[0]
        if module in names.rotated_in_pairs:
            heads = "num_attention_heads" if module == "attn_q" else "num_key_value_heads"
            yield prefix + name, _unpaired(file, gguf_name, config[heads])
        else:
            yield prefix + name, _plain(file, gguf_name)
    elif key in _LATENT:
        if key == "attn_k_b.weight":
            yield prefix + "self_attn.kv_b_proj.weight", _kv_b(file, layer)
    elif config["model_type"] == "gpt_oss" and "_exps." in key:
        if key == "ffn_down_exps.weight":
            for name, (shape, dtype, read) in expert_tensors(file, layer).items():
                yield f"{prefix}mlp.experts.{name}", Source(shape=shape, dtype=dtype, read=read)
    else:
        raise _unknown(file, gguf_name)


def _unknown(file: GgufFile, gguf_name: str) -> CheckpointError:
    return CheckpointError(
        f"{file.path}: tensor {gguf_name} has no place in a {family_of(file)} model; the file is of"
        " a model that was altered, or needs a newer version of this program"
    )


def _plain(file: GgufFile, name: str) -> Source:
    return Source(shape=file.shape(name), dtype=file.dtype(name), read=partial(file.tensor, name))


def _expert(file: GgufFile, name: str, expert: int) -> Source:
    return Source(
        shape=file.shape(name)[1:],
        dtype=file.dtype(name),
        read=partial(file.tensor, name, expert),
    )


def _unpaired(file: GgufFile, name: str, num_heads: int) -> Source:
    """Rows of a head in the order of the checkpoint: first all first numbers of the pairs."""

    def read() -> Tensor:
        paired = file.tensor(name)
        rows = paired.view(num_heads, -1, 2, *paired.shape[1:])
        return rows.transpose(1, 2).reshape(paired.shape)

    return Source(shape=file.shape(name), dtype=file.dtype(name), read=read)


def _kv_b(file: GgufFile, layer: int) -> Source:
    """`[heads * (nope + value), latent]` from `[heads, latent, nope]` and `[heads, value, latent]`."""
    keys, values = (f"blk.{layer}.attn_{part}_b.weight" for part in "kv")
    num_heads, latent, nope_dim = file.shape(keys)
    value_dim = file.shape(values)[1]

    def read() -> Tensor:
        parts = (file.tensor(keys).transpose(1, 2), file.tensor(values))
        return torch.cat(parts, dim=1).flatten(0, 1)

    return Source(
        shape=(num_heads * (nope_dim + value_dim), latent),
        dtype=torch.promote_types(file.dtype(keys), file.dtype(values)),
        read=read,
    )

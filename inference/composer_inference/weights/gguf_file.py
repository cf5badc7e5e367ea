"""The tensors of a GGUF model, in one file or split over several: mapped, and dequantised by ggml's
own formulas in the `gguf` package.

The package's reader is not used: it makes a Python object of each of the vocabulary's words, and
takes 9 s and 380 MB to open a model of 0.5B parameters.
"""

import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from gguf import GGML_QUANT_SIZES, GGMLQuantizationType, quants
from torch import Tensor

from composer_inference.gguf import GgufMetadata, GgufTensor, InvalidGgufError
from composer_inference.weights.checkpoint import CheckpointError

MXFP4 = GGMLQuantizationType.MXFP4

_MAPPED = {
    GGMLQuantizationType.F32: torch.float32,
    GGMLQuantizationType.F16: torch.float16,
    GGMLQuantizationType.BF16: torch.bfloat16,
}
"""Types that torch has as well: read without a copy."""
_CHUNK = 1 << 17
"""Elements that are dequantised at a time: their temporary arrays fit the cache (twice as fast as
larger ones), and are all that a tensor takes beside its result."""
_SPLIT = re.compile(r"-\d{5}-of-(\d{5})\.gguf$")


class GgufFile:
    """Raises: CheckpointError for files that are no GGUF, are cut short or missing."""

    def __init__(self, path: Path):
        self.path = path
        self.metadata = _read(path)
        files = {path: self.metadata}
        for part in _parts(path, self.metadata):
            files.setdefault(part, _read(part))
        self._places = {
            name: (file, tensor)
            for file, metadata in files.items()
            for name, tensor in metadata.tensors.items()
        }
        self._data: dict[Path, Any] = {}

    def __contains__(self, name: str) -> bool:
        return name in self._places

    def __iter__(self) -> Iterator[str]:
        """The names of all tensors, GGUF's own."""
        return iter(self._places)

    def shape(self, name: str) -> tuple[int, ...]:
        """Outermost dimension first.

        Raises: CheckpointError for a tensor that is missing.
        """
        return self._place(name)[1].shape

    def kind(self, name: str) -> GGMLQuantizationType:
        """Raises: CheckpointError for a tensor that is missing, or of a type that the `gguf` package
        does not know."""
        file, tensor = self._place(name)
        try:
            return GGMLQuantizationType(tensor.kind)
        except ValueError as error:
            raise CheckpointError(
                f"{file}: tensor {name} has ggml's type {tensor.kind}, which the installed gguf"
                " package does not know; a newer one may (pip install --upgrade gguf)"
            ) from error

    def dtype(self, name: str) -> torch.dtype:
        """What `tensor` gives."""
        return _MAPPED.get(self.kind(name), torch.float32)

    def tensor(self, name: str, index: int | None = None) -> Tensor:
        """The whole one, or one item along its first dimension.

        Raises: CheckpointError for a type that the `gguf` package cannot dequantise.
        """
        kind, shape = self.kind(name), self.shape(name)
        raw = self.raw(name)
        if index is not None:
            num_bytes = raw.size // shape[0]
            shape, raw = shape[1:], raw[index * num_bytes : (index + 1) * num_bytes]
        if kind in _MAPPED:
            return as_tensor(raw).view(_MAPPED[kind]).view(shape)
        try:
            return as_tensor(_dequantize(raw, kind, math.prod(shape))).view(shape)
        except NotImplementedError as error:
            raise CheckpointError(
                f"{self.path}: tensor {name} is {kind.name}, which the installed gguf package cannot"
                " dequantise; take a file of another quantisation, such as Q8_0 or Q4_K_M"
            ) from error

    def raw(self, name: str) -> Any:
        """The tensor's bytes, mapped: a private mapping, so that a write would not reach the file."""
        file, tensor = self._place(name)
        block, block_bytes = GGML_QUANT_SIZES[self.kind(name)]
        num_bytes = math.prod(tensor.shape) // block * block_bytes
        if file not in self._data:
            self._data[file] = np.memmap(file, mode="c")
        return self._data[file][tensor.offset : tensor.offset + num_bytes]

    def _place(self, name: str) -> tuple[Path, GgufTensor]:
        if name not in self._places:
            raise CheckpointError(
                f"{self.path} has no tensor {name}, which a {self.metadata.architecture} model"
                " needs; take another file of this model"
            )
        return self._places[name]


def as_tensor(array: Any) -> Tensor:
    """On the array's own memory."""
    return cast(Any, torch).from_numpy(array)


def _dequantize(raw: Any, kind: GGMLQuantizationType, num_elements: int) -> Any:
    block, block_bytes = GGML_QUANT_SIZES[kind]
    chunk_bytes = _CHUNK // block * block_bytes
    values = np.empty(num_elements, dtype=np.float32)
    for number, start in enumerate(range(0, raw.size, chunk_bytes)):
        # As one row, however many it has: the package goes through rows in Python.
        chunk = raw[start : start + chunk_bytes].reshape(1, -1)
        dequantized = cast(Any, quants.dequantize(chunk, kind)).reshape(-1)
        values[number * _CHUNK : number * _CHUNK + dequantized.size] = dequantized
    return values


def _read(path: Path) -> GgufMetadata:
    try:
        return GgufMetadata.read(path)
    except InvalidGgufError as error:
        raise CheckpointError(f"{error}; fetch the model again") from error


def _parts(path: Path, metadata: GgufMetadata) -> list[Path]:
    """All files of a model that was split (llama.cpp's `gguf-split`), in order."""
    num_parts = metadata.integer("split.count") or 1
    if num_parts == 1:
        return []
    if not (match := _SPLIT.search(path.name)):
        raise CheckpointError(
            f"{path} is one of {num_parts} parts of a model, and its name does not tell the others';"
            f" they are called NAME-00001-of-{num_parts:05}.gguf and so on"
        )
    stem = path.name[: match.start()]
    parts = [
        path.with_name(f"{stem}-{number:05}-of-{match[1]}.gguf")
        for number in range(1, num_parts + 1)
    ]
    for part in parts:
        if not part.exists():
            raise CheckpointError(f"{part} is missing, a part of {path}; fetch the model again")
    return parts

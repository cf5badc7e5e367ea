"""A model folder as Hugging Face lays it out: `config.json` and safetensors, in one file or shards.

Headers are read when the checkpoint is made, so that a download that broke off is told before
anything is loaded. Tensors are mapped when asked for.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any, cast

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from composer_inference.weights.checkpoint import CheckpointError

CONFIG = "config.json"
WEIGHTS = "model.safetensors"
INDEX = "model.safetensors.index.json"

DTYPES = {
    "BOOL": torch.bool,
    "U8": torch.uint8,
    "I8": torch.int8,
    "I16": torch.int16,
    "U16": torch.uint16,
    "I32": torch.int32,
    "U32": torch.uint32,
    "I64": torch.int64,
    "U64": torch.uint64,
    "F16": torch.float16,
    "BF16": torch.bfloat16,
    "F32": torch.float32,
    "F64": torch.float64,
    "F8_E4M3": torch.float8_e4m3fn,
    "F8_E5M2": torch.float8_e5m2,
    "F8_E8M0": torch.float8_e8m0fnu,
}

_LENGTH_BYTES = 8
_AGAIN = "fetch the model again"


class SafetensorsCheckpoint:
    """Implements `Checkpoint`. Tensors share the mapped file's memory: they must not be written to.

    Raises: CheckpointError for a folder without usable files, a shard that is missing or cut off,
        and an index that does not go with its shards.
    """

    def __init__(self, folder: Path):
        self._config = read_object(folder / CONFIG)
        self._entries = _read_entries(folder)
        self._shapes = {name: entry.shape for name, entry in self._entries.items()}
        files = dict.fromkeys(entry.file for entry in self._entries.values())
        self._shards = {file: _opened(file) for file in files}

    @property
    def config(self) -> Mapping[str, Any]:
        return self._config

    @property
    def shapes(self) -> Mapping[str, tuple[int, ...]]:
        return self._shapes

    def file(self, name: str) -> Path:
        """The one that holds this tensor.

        Raises: CheckpointError for a tensor that is missing.
        """
        return self._entry(name).file

    def dtype(self, name: str) -> torch.dtype:
        entry = self._entry(name)
        if entry.dtype not in DTYPES:
            raise CheckpointError(
                f"{entry.file}: tensor {name} is {entry.dtype}, which is not supported; supported"
                f" are {', '.join(DTYPES)}"
            )
        return DTYPES[entry.dtype]

    def tensor(self, name: str) -> Tensor:
        self.dtype(name)
        file = self._entry(name).file
        try:
            return self._shards[file].get_tensor(name)
        except (SafetensorError, OSError) as error:
            raise CheckpointError(
                f"{file}: tensor {name} cannot be read ({error}); {_AGAIN}"
            ) from error

    def _entry(self, name: str) -> "_Entry":
        if name not in self._entries:
            files = sorted({entry.file.name for entry in self._entries.values()})
            where = files[0] if len(files) == 1 else f"the {len(files)} shards"
            raise CheckpointError(
                f"tensor {name} is not in {where} of this model, whose config.json asks for it;"
                " config.json and weights are not of the same model, or the weights are incomplete"
            )
        return self._entries[name]


@dataclass(frozen=True, kw_only=True, slots=True)
class _Entry:
    """What a shard's header says of one tensor."""

    file: Path
    dtype: str
    """As safetensors names it."""
    shape: tuple[int, ...]


def read_object(file: Path) -> dict[str, Any]:
    """A JSON file that holds one object.

    Raises: CheckpointError for a file that is missing or holds something else.
    """
    try:
        value: Any = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise CheckpointError(
            f"{file.parent} has no {file.name}; a model is a folder with {CONFIG} and"
            f" {WEIGHTS} (or {INDEX} and its shards)"
        ) from error
    except (OSError, ValueError, RecursionError) as error:
        raise CheckpointError(f"{file} is no readable JSON ({error}); {_AGAIN}") from error
    if not isinstance(value, dict):
        raise CheckpointError(f"{file} holds no JSON object; {_AGAIN}")
    return cast(dict[str, Any], value)


def _read_entries(folder: Path) -> dict[str, _Entry]:
    if (folder / INDEX).exists():
        return _read_sharded(folder)
    if (folder / WEIGHTS).exists():
        return _read_shard(folder / WEIGHTS)
    raise CheckpointError(
        f"{folder} has neither {WEIGHTS} nor {INDEX}; other formats of weights have to be saved as"
        " safetensors first (transformers: model.save_pretrained)"
    )


def _read_sharded(folder: Path) -> dict[str, _Entry]:
    index = folder / INDEX
    files: Any = read_object(index).get("weight_map")
    if not isinstance(files, dict) or not all(
        isinstance(file, str) for file in cast(dict[str, Any], files).values()
    ):
        raise CheckpointError(f"{index} has no weight_map from tensors to files; {_AGAIN}")
    weight_map = cast(dict[str, str], files)
    for file in dict.fromkeys(weight_map.values()):
        # Not resolved: in a download cache the shards themselves are links to elsewhere.
        path = PurePath(file)
        if path.is_absolute() or ".." in path.parts:
            raise CheckpointError(
                f"{index} names the shard {file!r}, outside of its folder; {_AGAIN}"
            )
    shards = {file: _read_shard(folder / file) for file in dict.fromkeys(weight_map.values())}
    for name, file in weight_map.items():
        if name not in shards[file]:
            raise CheckpointError(
                f"{folder / file} has no tensor {name}, which {INDEX} says is there; {_AGAIN}"
            )
    return {name: shards[file][name] for name, file in weight_map.items()}


def _read_shard(file: Path) -> dict[str, _Entry]:
    """Source: the safetensors format: the header's length in 8 bytes, the header in JSON, the data."""
    try:
        num_bytes = file.stat().st_size
        with file.open("rb") as stream:
            length = int.from_bytes(stream.read(_LENGTH_BYTES), "little")
            # Not read before it is known to fit: a broken length may be any number.
            if num_bytes < _LENGTH_BYTES + length:
                raise CheckpointError(
                    f"{file} is cut off: its {num_bytes} bytes are fewer than its header takes; {_AGAIN}"
                )
            header: Any = json.loads(stream.read(length))
        data_bytes = num_bytes - _LENGTH_BYTES - length
        return {
            name: _read_entry(file, name, entry, data_bytes)
            for name, entry in header.items()
            if name != "__metadata__"
        }
    except FileNotFoundError as error:
        raise CheckpointError(
            f"{file} is missing, which {INDEX} names as one of the shards; {_AGAIN}"
        ) from error
    except (OSError, ValueError, AttributeError, RecursionError) as error:
        raise CheckpointError(f"{file} is no readable safetensors file ({error}); {_AGAIN}") from (
            error
        )


def _opened(file: Path) -> Any:
    """The library's reader, which looks at all that a header says of its tensors."""
    try:
        return safe_open(file, framework="pt", device="cpu")
    except (SafetensorError, OSError) as error:
        raise CheckpointError(f"{file} is no readable safetensors file ({error}); {_AGAIN}") from (
            error
        )


def _read_entry(file: Path, name: str, entry: Any, data_bytes: int) -> _Entry:
    try:
        dtype, shape = str(entry["dtype"]), tuple(int(size) for size in entry["shape"])
        _, end = (int(offset) for offset in entry["data_offsets"])
    except (KeyError, TypeError, ValueError) as error:
        raise CheckpointError(
            f"{file}: the header's entry of tensor {name} is broken; {_AGAIN}"
        ) from error
    if end > data_bytes:
        raise CheckpointError(
            f"{file} is cut off: tensor {name} ends at byte {end} of the data, of which the file"
            f" has {data_bytes}; {_AGAIN}"
        )
    return _Entry(file=file, dtype=dtype, shape=shape)

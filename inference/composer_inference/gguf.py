"""The metadata of a GGUF file: what the engine must know of a model before and beside llama.cpp.

Source: the GGUF specification (ggml, docs/gguf.md), versions 2 and 3, little-endian.
"""

import math
import mmap
import struct
from collections.abc import Container, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, NoReturn

from composer_inference.backends.base import BackendError

Pooling = Literal["embed", "rank"]
Scalar = bool | int | float | str

_MAGIC = b"GGUF"
_VERSIONS = (2, 3)
_SCALAR_FORMATS = {
    0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f",
    7: "?", 10: "Q", 11: "q", 12: "d",
}  # fmt: skip
_BLOCKS = {
    0: (1, 4), 1: (1, 2), 2: (32, 18), 3: (32, 20), 6: (32, 22), 7: (32, 24), 8: (32, 34),
    9: (32, 36), 10: (256, 84), 11: (256, 110), 12: (256, 144), 13: (256, 176), 14: (256, 210),
    15: (256, 292), 16: (256, 66), 17: (256, 74), 18: (256, 98), 19: (256, 50), 20: (32, 18),
    21: (256, 110), 22: (256, 82), 23: (256, 136), 24: (1, 1), 25: (1, 2), 26: (1, 4), 27: (1, 8),
    28: (1, 8), 29: (256, 56), 30: (1, 2), 34: (256, 54), 35: (256, 66), 39: (32, 17),
    40: (64, 36), 41: (128, 18),
}  # fmt: skip
"""Elements and bytes of a block of each tensor type (ggml, `type_traits`)."""
_ALIGNMENT = 32
"""Of the tensors, where the file does not say."""
_MAX_DIMENSIONS = 4
_STRING, _ARRAY = 8, 9
_RANK_POOLING = 4
_ENCODERS = frozenset({"bert", "nomic-bert", "nomic-bert-moe", "jina-bert-v2", "modern-bert"})
_ADDS_BOS_BY_DEFAULT = frozenset({"llama-bpe", "llama3", "llama-v3", "tekken", "chameleon"})
"""Pre-tokenizers of models that begin with BOS where their file does not say."""


class InvalidGgufError(BackendError):
    """The file is no GGUF that can be read; the message names it and the reason."""


@dataclass(frozen=True, slots=True)
class _Array:
    """Where an array's items stand. They are decoded when asked for: a vocabulary of 150,000 words
    takes 20 MB as Python strings, which no part of the engine needs for long."""

    kind: int
    num_items: int
    offset: int


@dataclass(frozen=True, slots=True)
class GgufTensor:
    kind: int
    """ggml's number of the tensor's type."""
    shape: tuple[int, ...]
    """Outermost first; the file has it the other way round."""
    offset: int
    """In bytes, from the file's beginning."""


class GgufMetadata:
    """The header of one file. Scalars and strings are held, arrays are read again on demand."""

    def __init__(
        self,
        path: Path,
        scalars: Mapping[str, Scalar],
        arrays: Mapping[str, _Array],
        tensors: Mapping[str, GgufTensor],
    ):
        self._path = path
        self._scalars = scalars
        self._arrays = arrays
        self.tensors = tensors

    @classmethod
    def read(cls, path: Path) -> "GgufMetadata":
        """Raises: InvalidGgufError."""
        try:
            with _mapped(path) as data:
                reader = _Reader(data)
                num_tensors, scalars, arrays = reader.header()
                alignment = scalars.get("general.alignment", _ALIGNMENT)
                tensors = reader.tensors(num_tensors, alignment)
        except (OSError, ValueError) as error:
            raise InvalidGgufError(f"{path} is no readable GGUF model: {error}") from error
        return cls(path, scalars, arrays, tensors)

    @property
    def keys(self) -> frozenset[str]:
        return frozenset(self._scalars) | frozenset(self._arrays)

    def text(self, key: str) -> str | None:
        """Raises: InvalidGgufError if the key holds anything else."""
        value = self._scalars.get(key)
        if value is not None and not isinstance(value, str):
            self._wrong(key, "text")
        return value

    def integer(self, key: str) -> int | None:
        """Raises: InvalidGgufError if the key holds anything else."""
        value = self._scalars.get(key)
        if isinstance(value, str | float | bool):
            self._wrong(key, "a whole number")
        return value

    def number(self, key: str) -> float | None:
        """Raises: InvalidGgufError if the key holds anything else."""
        value = self._scalars.get(key)
        if isinstance(value, str | bool):
            self._wrong(key, "a number")
        return value

    def flag(self, key: str) -> bool | None:
        """Raises: InvalidGgufError if the key holds anything else."""
        value = self._scalars.get(key)
        if value is not None and not isinstance(value, bool):
            self._wrong(key, "a boolean")
        return value

    def texts(self, key: str) -> list[str]:
        """The strings of an array, none if the key is missing. Bytes that are no UTF-8 come as lone
        surrogates (`surrogateescape`).

        Raises: InvalidGgufError if the key holds anything else.
        """
        return self._items(key, "a list of texts", {_STRING})

    def numbers(self, key: str) -> list[int | float]:
        """The numbers of an array, none if the key is missing.

        Raises: InvalidGgufError if the key holds anything else.
        """
        return self._items(key, "a list of numbers", _SCALAR_FORMATS)

    @property
    def architecture(self) -> str:
        return self.text("general.architecture") or ""

    @property
    def context_tokens(self) -> int | None:
        """The longest context that the model was trained for."""
        return self.integer(f"{self.architecture}.context_length")

    @property
    def pooling(self) -> Pooling | None:
        """What the model's output is pooled to; None for a model that generates text."""
        kind = self.integer(f"{self.architecture}.pooling_type")
        if kind == _RANK_POOLING:
            return "rank"
        return "embed" if kind or self.architecture in _ENCODERS else None

    @property
    def chat_template(self) -> str | None:
        return self.text("tokenizer.chat_template")

    @property
    def adds_bos(self) -> bool:
        """Whether llama.cpp itself puts BOS before a prompt."""
        says = self.flag("tokenizer.ggml.add_bos_token")
        if says is not None:
            return says
        model = self.text("tokenizer.ggml.model")
        return model in {"llama", "bert"} or (
            self.text("tokenizer.ggml.pre") in _ADDS_BOS_BY_DEFAULT
        )

    @cached_property
    def special_tokens(self) -> dict[str, str]:
        """`bos_token` and `eos_token` as a chat template is to write them, those that the model has.
        BOS is empty where llama.cpp adds it: written as well, it would stand there twice."""
        ids = {name: self.integer(f"tokenizer.ggml.{name}_token_id") for name in ("bos", "eos")}
        tokens = self.texts("tokenizer.ggml.tokens") if any(ids.values()) else []
        found = {
            f"{name}_token": tokens[index]
            for name, index in ids.items()
            if index is not None and 0 <= index < len(tokens)
        }
        if self.adds_bos:
            found["bos_token"] = ""
        return found

    def _items(self, key: str, expected: str, kinds: Container[int]) -> list[Any]:
        if key in self._scalars:
            self._wrong(key, expected)
        array = self._arrays.get(key)
        if array is None:
            return []
        if array.kind not in kinds:
            self._wrong(key, expected)
        try:
            with _mapped(self._path) as data:
                return _Reader(data, array.offset).items(array)
        except (OSError, ValueError) as error:
            raise InvalidGgufError(f"{self._path} cannot be read again: {error}") from error

    def _wrong(self, key: str, expected: str) -> NoReturn:
        raise InvalidGgufError(f"{key} of {self._path} is not {expected}")


class _Reader:
    """Reads values one after the other. Raises ValueError for what no GGUF file holds."""

    def __init__(self, data: mmap.mmap, at: int = 0) -> None:
        self._data = data
        self._at = at

    def header(self) -> tuple[int, dict[str, Scalar], dict[str, _Array]]:
        if self._take(4) != _MAGIC:
            raise ValueError("it does not begin with GGUF")
        version: int = self._scalar("I")
        if version not in _VERSIONS:
            raise ValueError(f"its version {version} is neither 2 nor 3")
        num_tensors: int = self._scalar("Q")
        scalars: dict[str, Scalar] = {}
        arrays: dict[str, _Array] = {}
        for _ in range(self._scalar("Q")):
            key, kind = self._string(), self._scalar("I")
            if key in scalars or key in arrays:
                raise ValueError(f"the key {key} stands there twice")
            if kind == _ARRAY:
                arrays[key] = self._array()
            else:
                scalars[key] = self._value(kind)
        return num_tensors, scalars, arrays

    def tensors(self, num_tensors: int, alignment: Scalar) -> dict[str, GgufTensor]:
        """Go through the tensors' descriptions, behind the header: the file must hold them all."""
        if not isinstance(alignment, int) or alignment < 1:
            raise ValueError(f"its alignment {alignment!r} is no positive number")
        tensors: dict[str, GgufTensor] = {}
        for _ in range(num_tensors):
            name = self._string()
            if name in tensors:
                raise ValueError(f"the tensor {name} stands there twice")
            tensors[name] = self._tensor(name)
        start = -(-self._at // alignment) * alignment
        end = start + max(map(_end, tensors.values()), default=0)
        if tensors and end > len(self._data):
            raise ValueError(
                f"it is cut short: it has {len(self._data):,} bytes and its tensors end at {end:,}"
            )
        return {name: replace(each, offset=start + each.offset) for name, each in tensors.items()}

    def _tensor(self, name: str) -> GgufTensor:
        """Its offset is counted from the first one's beginning."""
        num_dimensions: int = self._scalar("I")
        if num_dimensions > _MAX_DIMENSIONS:
            raise ValueError(f"the tensor {name} has {num_dimensions} dimensions")
        shape = tuple(int(self._scalar("Q")) for _ in range(num_dimensions))[::-1]
        return GgufTensor(kind=self._scalar("I"), shape=shape, offset=self._scalar("Q"))

    def items(self, array: _Array) -> list[Any]:
        if array.kind == _STRING:
            return [self._string() for _ in range(array.num_items)]
        form = f"<{array.num_items}{_SCALAR_FORMATS[array.kind]}"
        return list(struct.unpack(form, self._take(struct.calcsize(form))))

    def _array(self) -> _Array:
        array = _Array(kind=self._scalar("I"), num_items=self._scalar("Q"), offset=self._at)
        if array.kind == _STRING:
            for _ in range(array.num_items):
                self._take(self._scalar("Q"))
        elif array.kind in _SCALAR_FORMATS:
            self._take(array.num_items * struct.calcsize("<" + _SCALAR_FORMATS[array.kind]))
        else:
            raise ValueError(f"an array has items of the unknown type {array.kind}")
        return array

    def _value(self, kind: int) -> Scalar:
        if kind == _STRING:
            return self._string()
        if kind not in _SCALAR_FORMATS:
            raise ValueError(f"a value has the unknown type {kind}")
        return self._scalar(_SCALAR_FORMATS[kind])

    def _string(self) -> str:
        return self._take(self._scalar("Q")).decode("utf-8", "surrogateescape")

    def _scalar(self, form: str) -> Any:
        (value,) = struct.unpack("<" + form, self._take(struct.calcsize("<" + form)))
        return value

    def _take(self, num_bytes: int) -> bytes:
        # The length comes from the file: checked before anything is allocated for it.
        end = self._at + num_bytes
        if end > len(self._data):
            raise ValueError("it is cut short")
        taken = self._data[self._at : end]
        self._at = end
        return taken


def _end(tensor: GgufTensor) -> int:
    # Of a type that came after this table, only the beginning is known.
    block, num_bytes = _BLOCKS.get(tensor.kind, (1, 0))
    return tensor.offset + math.prod(tensor.shape) // block * num_bytes


@contextmanager
def _mapped(path: Path) -> Generator[mmap.mmap, None, None]:
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        yield data

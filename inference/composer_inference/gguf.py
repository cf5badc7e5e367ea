"""The metadata of a GGUF file: what the engine must know of a model before and beside llama.cpp.

Source: the GGUF specification (ggml, docs/gguf.md), versions 2 and 3, little-endian.
"""

import mmap
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, cast

from composer_inference.backends.base import BackendError

Pooling = Literal["embed", "rank"]

_MAGIC = b"GGUF"
_MAX_COUNT = 10_000_000
"""Entries of an array or of the header: more means a damaged file."""

_SCALARS = {
    0: "<B", 1: "<b", 2: "<H", 3: "<h", 4: "<I", 5: "<i", 6: "<f",
    7: "<?", 10: "<Q", 11: "<q", 12: "<d",
}  # fmt: skip
_STRING, _ARRAY = 8, 9
_RANK_POOLING = 4
_ENCODERS = frozenset({"bert", "nomic-bert", "nomic-bert-moe", "jina-bert-v2", "modern-bert"})


class InvalidGgufError(BackendError):
    """The file is no GGUF that can be read; the message names it and the reason."""


@dataclass(frozen=True, slots=True)
class GgufMetadata:
    values: Mapping[str, Any]
    """Every key of the header; arrays are lists."""

    @classmethod
    def read(cls, path: Path) -> "GgufMetadata":
        """Raises: InvalidGgufError."""
        try:
            with (
                path.open("rb") as file,
                mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data,
            ):
                return cls(_Reader(data).metadata())
        except (OSError, ValueError, struct.error, UnicodeDecodeError) as error:
            raise InvalidGgufError(f"{path} is no readable GGUF model: {error}") from error

    @property
    def architecture(self) -> str:
        return str(self.values.get("general.architecture", ""))

    @property
    def pooling(self) -> Pooling | None:
        """What the model's output is pooled to; None for a model that generates text."""
        kind = self.values.get(f"{self.architecture}.pooling_type", 0)
        if kind == _RANK_POOLING:
            return "rank"
        return "embed" if kind or self.architecture in _ENCODERS else None

    @property
    def chat_template(self) -> str | None:
        return cast("str | None", self.values.get("tokenizer.chat_template"))

    @property
    def special_tokens(self) -> dict[str, str]:
        """`bos_token` and `eos_token` as text, those that the model has."""
        tokens: list[str] = self.values.get("tokenizer.ggml.tokens", [])
        found: dict[str, str] = {}
        for name in ("bos", "eos"):
            index = self.values.get(f"tokenizer.ggml.{name}_token_id")
            if isinstance(index, int) and 0 <= index < len(tokens):
                found[f"{name}_token"] = tokens[index]
        return found


class _Reader:
    def __init__(self, data: mmap.mmap) -> None:
        self._data = data
        self._at = 0

    def metadata(self) -> dict[str, Any]:
        if self._take(4) != _MAGIC:
            raise ValueError("it does not begin with GGUF")
        version = self._scalar("<I")
        if version not in (2, 3):
            raise ValueError(f"its version {version} is neither 2 nor 3")
        self._scalar("<Q")  # The number of tensors.
        return {self._string(): self._value(self._scalar("<I")) for _ in range(self._count())}

    def _value(self, kind: int) -> Any:
        if kind == _STRING:
            return self._string()
        if kind == _ARRAY:
            return self._array()
        if kind not in _SCALARS:
            raise ValueError(f"a value has the unknown type {kind}")
        return self._scalar(_SCALARS[kind])

    def _array(self) -> list[Any]:
        kind, count = self._scalar("<I"), self._count()
        if kind in _SCALARS:
            form = f"<{count}{_SCALARS[kind][1]}"
            return list(struct.unpack(form, self._take(struct.calcsize(form))))
        return [self._value(kind) for _ in range(count)]

    def _string(self) -> str:
        # A vocabulary may hold bytes that are no UTF-8; they must not lose the rest.
        return self._take(self._scalar("<Q")).decode("utf-8", "surrogateescape")

    def _count(self) -> int:
        count = self._scalar("<Q")
        if count > _MAX_COUNT:
            raise ValueError(f"it claims {count} entries")
        return count

    def _scalar(self, form: str) -> Any:
        (value,) = struct.unpack(form, self._take(struct.calcsize(form)))
        return value

    def _take(self, num_bytes: int) -> bytes:
        end = self._at + num_bytes
        if end > len(self._data):
            raise ValueError("it is cut short")
        taken = self._data[self._at : end]
        self._at = end
        return taken

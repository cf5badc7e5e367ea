"""Writes GGUF files: headers of any shape, and models small enough to make on the spot."""

import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

_KINDS: tuple[tuple[type, int, str], ...] = ((bool, 7, "?"), (int, 4, "I"), (float, 6, "f"))
_STRING, _ARRAY = 8, 9
_WIDTH = 32
"""Embedding width of the tiny models, and the alignment of tensors."""


def encode_string(text: str) -> bytes:
    data = text.encode("utf-8", "surrogateescape")
    return struct.pack("<Q", len(data)) + data


def encode_value(value: Any) -> bytes:
    """The value's type and bytes, as a header holds them."""
    if isinstance(value, str):
        return struct.pack("<I", _STRING) + encode_string(value)
    if isinstance(value, list | tuple):
        return struct.pack("<I", _ARRAY) + _encode_items(value)
    kind, form = _kind_of(value)
    return struct.pack(f"<I{form}", kind, value)


def _encode_items(items: Sequence[Any]) -> bytes:
    if all(isinstance(item, str) for item in items):
        body = b"".join(encode_string(item) for item in items)
        return struct.pack("<IQ", _STRING, len(items)) + body
    # llama.cpp wants its arrays of whole numbers signed and its single ones unsigned.
    kind, form = (6, "f") if isinstance(items[0], float) else (5, "i")
    return struct.pack(f"<IQ{len(items)}{form}", kind, len(items), *items)


def _kind_of(value: Any) -> tuple[int, str]:
    for python_type, kind, form in _KINDS:
        if isinstance(value, python_type):
            return kind, form
    raise TypeError(f"no GGUF type for {value!r}")


def header(values: Mapping[str, Any], *, version: int = 3, num_tensors: int = 0) -> bytes:
    start = b"GGUF" + struct.pack("<IQQ", version, num_tensors, len(values))
    return start + b"".join(encode_string(key) + encode_value(values[key]) for key in values)


def write_tiny_llama(path: Path, vocabulary: Mapping[str, Any]) -> Path:
    """A one-layer llama model with all weights zero and the vocabulary (`tokenizer.ggml.…`) given:
    enough for llama.cpp to load and tokenise."""
    num_tokens = len(vocabulary["tokenizer.ggml.tokens"])
    shapes = _tensor_shapes(num_tokens)
    values = {
        "general.architecture": "llama",
        "general.name": "tiny",
        "llama.context_length": 512,
        "llama.embedding_length": _WIDTH,
        "llama.block_count": 1,
        "llama.feed_forward_length": _WIDTH,
        "llama.attention.head_count": 1,
        "llama.attention.layer_norm_rms_epsilon": 1e-5,
        "llama.rope.dimension_count": _WIDTH,
        **vocabulary,
    }
    directory, size = b"", 0
    for name, shape in shapes.items():
        dimensions = struct.pack(f"<I{len(shape)}Q", len(shape), *shape)
        directory += encode_string(name) + dimensions + struct.pack("<IQ", 0, size)
        size += 4 * (shape[0] * shape[1] if len(shape) > 1 else shape[0])
    head = header(values, num_tensors=len(shapes)) + directory
    with path.open("wb") as file:
        file.write(head + bytes(-len(head) % _WIDTH))
        file.truncate(file.tell() + size)  # Zeros that take no room on the disk.
    return path


def _tensor_shapes(num_tokens: int) -> dict[str, tuple[int, ...]]:
    square = ("attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_down", "ffn_up")
    return {
        "token_embd.weight": (_WIDTH, num_tokens),
        "output_norm.weight": (_WIDTH,),
        **{f"blk.0.{name}.weight": (_WIDTH, _WIDTH) for name in square},
        **{f"blk.0.{name}.weight": (_WIDTH,) for name in ("attn_norm", "ffn_norm")},
    }

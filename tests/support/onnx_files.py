"""Writes ONNX models of a few hundred bytes, and a tokenizer for them.

Source: onnx.proto of the ONNX specification (IR version 8, operators of version 13), as protocol
buffers: a field is a varint of its number and its wire type, then a varint or bytes with their length.
"""

import json
import struct
from collections.abc import Sequence
from pathlib import Path

_FLOAT, _INT64 = 1, 7
"""Values of `TensorProto.DataType`."""

WORDS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "red", "green", "blue")
"""The vocabulary, in the order of the ids."""

INPUTS = ("input_ids", "attention_mask", "token_type_ids")


def write_embedder(
    path: Path, vectors: Sequence[Sequence[float]], inputs: Sequence[str] = INPUTS
) -> Path:
    """A model that gives each token `vectors[id]` plus the mean of all tokens' vectors: the first
    token's tells the whole text. The ids are the first of the inputs."""
    values = [value for vector in vectors for value in vector]
    table = _floats("table", [len(vectors), len(vectors[0])], values)
    nodes = [
        _node("Gather", ["table", inputs[0]], "own"),
        _node("ReduceMean", ["own"], "mean", axes=[1]),
        _node("Add", ["own", "mean"], "last_hidden_state"),
    ]
    return _write(path, inputs, nodes, [table], "last_hidden_state")


def write_reranker(path: Path, weights: Sequence[float]) -> Path:
    """A model whose logit is the sum of `weights[id]` over the second text's tokens."""
    tensors = [
        _floats("weights", [len(weights)], list(weights)),
        _ints("axes", [1]),
    ]
    nodes = [
        _node("Gather", ["weights", "input_ids"], "weighed"),
        _node("Cast", ["token_type_ids"], "is_second", to=_FLOAT),
        _node("Mul", ["weighed", "is_second"], "counted"),
        _node("ReduceSum", ["counted", "axes"], "logits"),
    ]
    return _write(path, INPUTS, nodes, tensors, "logits")


def write_tokenizer(path: Path) -> Path:
    """Cuts at white space and knows `WORDS`. Like one of the real ones it pads to 512 tokens, and it
    frames a text as BERT does."""
    special = [{"id": WORDS.index(word), "content": word} for word in WORDS[:4]]
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    first = [_special("[CLS]", 0), _sequence("A", 0), _special("[SEP]", 0)]
    pad = {"pad_id": 0, "pad_type_id": 0, "pad_token": "[PAD]", "pad_to_multiple_of": None}
    path.write_text(
        json.dumps(
            {
                "version": "1.0",
                "truncation": None,
                "padding": {"strategy": {"Fixed": 512}, "direction": "Right", **pad},
                "added_tokens": [{**token, **flags, "special": True} for token in special],
                "normalizer": None,
                "pre_tokenizer": {"type": "Whitespace"},
                "post_processor": {
                    "type": "TemplateProcessing",
                    "single": first,
                    "pair": [*first, _sequence("B", 1), _special("[SEP]", 1)],
                    "special_tokens": {
                        word: {"id": word, "ids": [WORDS.index(word)], "tokens": [word]}
                        for word in ("[CLS]", "[SEP]")
                    },
                },
                "decoder": None,
                "model": {
                    "type": "WordLevel",
                    "vocab": {word: index for index, word in enumerate(WORDS)},
                    "unk_token": "[UNK]",
                },
            }
        )
    )
    return path


def _special(word: str, kind: int) -> dict[str, object]:
    return {"SpecialToken": {"id": word, "type_id": kind}}


def _sequence(name: str, kind: int) -> dict[str, object]:
    return {"Sequence": {"id": name, "type_id": kind}}


def _write(
    path: Path, inputs: Sequence[str], nodes: list[bytes], tensors: list[bytes], output: str
) -> Path:
    graph = b"".join(_field(1, node) for node in nodes) + _field(2, b"g")
    graph += b"".join(_field(5, tensor) for tensor in tensors)
    graph += b"".join(_field(11, _value(name, _INT64, 2)) for name in inputs)
    graph += _field(12, _value(output, _FLOAT, 3 if output == "last_hidden_state" else 2))
    path.write_bytes(_field(1, 8) + _field(7, graph) + _field(8, _field(2, 13)))
    return path


def _node(operator: str, inputs: list[str], output: str, **attributes: int | list[int]) -> bytes:
    node = b"".join(_field(1, name.encode()) for name in inputs) + _field(2, output.encode())
    node += _field(4, operator.encode())
    for name, value in attributes.items():
        node += _field(5, _field(1, name.encode()) + _attribute(value))
    return node


def _attribute(value: int | list[int]) -> bytes:
    if isinstance(value, int):
        return _field(3, value) + _field(20, 2)
    return b"".join(_field(8, item) for item in value) + _field(20, 7)


def _value(name: str, kind: int, num_dimensions: int) -> bytes:
    """An input or output of this many dimensions, all of any size."""
    shape = b"".join(_field(1, _field(2, f"{name}{at}".encode())) for at in range(num_dimensions))
    return _field(1, name.encode()) + _field(2, _field(1, _field(1, kind) + _field(2, shape)))


def _floats(name: str, shape: list[int], values: list[float]) -> bytes:
    return _tensor(name, shape, _FLOAT, struct.pack(f"<{len(values)}f", *values))


def _ints(name: str, values: list[int]) -> bytes:
    return _tensor(name, [len(values)], _INT64, struct.pack(f"<{len(values)}q", *values))


def _tensor(name: str, shape: list[int], kind: int, data: bytes) -> bytes:
    dimensions = b"".join(_field(1, size) for size in shape)
    return dimensions + _field(2, kind) + _field(8, name.encode()) + _field(9, data)


def _field(number: int, value: int | bytes) -> bytes:
    if isinstance(value, int):
        return _varint(number << 3) + _varint(value)
    return _varint(number << 3 | 2) + _varint(len(value)) + value


def _varint(value: int) -> bytes:
    parts: list[int] = []
    while value > 0x7F:
        parts.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*parts, value])

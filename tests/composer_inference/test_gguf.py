"""The reader of GGUF headers, on whole, odd, damaged and random files."""

import struct
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from composer_inference.gguf import GgufMetadata, InvalidGgufError
from tests.support.gguf_files import encode_string, header

VALUES = {
    "general.architecture": "qwen2",
    "qwen2.context_length": 32768,
    "qwen2.rope.freq_base": 0.5,
    "tokenizer.ggml.tokens": ["<|bos|>", "a", "é🤖", "<|eos|>"],
    "tokenizer.ggml.scores": [0.0, -1.5, -2.0, 0.0],
    "tokenizer.ggml.token_type": [3, 1, 1, 3],
    "tokenizer.ggml.bos_token_id": 0,
    "tokenizer.ggml.eos_token_id": 3,
    "tokenizer.ggml.add_bos_token": False,
    "tokenizer.chat_template": "{{ messages }}",
}
WHOLE = header(VALUES)


@pytest.fixture
def read(tmp_path: Path):
    def read(content: bytes) -> GgufMetadata:
        path = tmp_path / "model.gguf"
        path.write_bytes(content)
        return GgufMetadata.read(path)

    return read


@pytest.mark.parametrize("version", [2, 3])
def test_every_kind_of_value(read, version):
    metadata = read(header(VALUES, version=version) + b"tensors")
    assert metadata.keys == VALUES.keys()
    assert metadata.architecture == "qwen2"
    assert metadata.context_tokens == 32768
    assert metadata.chat_template == "{{ messages }}"
    assert metadata.texts("tokenizer.ggml.tokens") == VALUES["tokenizer.ggml.tokens"]
    assert metadata.numbers("tokenizer.ggml.scores") == VALUES["tokenizer.ggml.scores"]
    assert metadata.numbers("tokenizer.ggml.token_type") == VALUES["tokenizer.ggml.token_type"]
    assert metadata.special_tokens == {"bos_token": "<|bos|>", "eos_token": "<|eos|>"}


def test_what_is_missing_is_none_or_empty(read):
    metadata = read(header({}))
    assert metadata.text("general.name") is None
    assert metadata.integer("x") is None
    assert metadata.flag("x") is None
    assert metadata.texts("x") == metadata.numbers("x") == []
    assert metadata.chat_template is None
    assert metadata.pooling is None
    assert metadata.special_tokens == {}


@pytest.mark.parametrize(
    ("values", "begins"),
    [
        ({"tokenizer.ggml.add_bos_token": True}, ""),
        ({"tokenizer.ggml.model": "llama"}, ""),
        ({"tokenizer.ggml.pre": "llama-bpe"}, ""),
        ({"tokenizer.ggml.model": "llama", "tokenizer.ggml.add_bos_token": False}, "<s>"),
        ({"tokenizer.ggml.pre": "qwen2"}, "<s>"),
    ],
)
def test_bos_is_left_to_llama_cpp_where_it_adds_one(read, values, begins):
    vocabulary = {"tokenizer.ggml.tokens": ["<unk>", "<s>"], "tokenizer.ggml.bos_token_id": 1}
    assert read(header({**vocabulary, **values})).special_tokens["bos_token"] == begins


def test_a_token_id_outside_the_vocabulary_names_no_token(read):
    values = {"tokenizer.ggml.tokens": ["a"], "tokenizer.ggml.eos_token_id": 7}
    assert read(header(values)).special_tokens == {}


@pytest.mark.parametrize(
    ("architecture", "kind", "pooling"),
    [("qwen2", None, None), ("qwen2", 0, None), ("qwen3", 3, "embed"), ("qwen3", 4, "rank"),
     ("bert", None, "embed"), ("bert", 4, "rank")],
)  # fmt: skip
def test_pooling(read, architecture, kind, pooling):
    values = {"general.architecture": architecture}
    if kind is not None:
        values[f"{architecture}.pooling_type"] = kind
    assert read(header(values)).pooling == pooling


@pytest.mark.parametrize(
    ("key", "ask"),
    [("general.architecture", "integer"), ("general.architecture", "texts"),
     ("qwen2.context_length", "text"), ("qwen2.context_length", "flag"),
     ("qwen2.rope.freq_base", "integer"), ("tokenizer.ggml.add_bos_token", "integer"),
     ("tokenizer.ggml.tokens", "numbers"), ("tokenizer.ggml.scores", "texts")],
)  # fmt: skip
def test_a_value_of_another_kind_is_named(read, key, ask):
    with pytest.raises(InvalidGgufError, match=f"{key} of .*model.gguf is not"):
        getattr(read(WHOLE), ask)(key)


def test_bytes_that_are_no_utf8_survive(read):
    tokens = read(header({"tokenizer.ggml.tokens": ["\udcff", "ok"]})).texts(
        "tokenizer.ggml.tokens"
    )
    assert tokens == ["\udcff", "ok"]


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        pytest.param(b"", "empty", id="empty"),
        pytest.param(b"PK\x03\x04 a zip", "does not begin with GGUF", id="another-format"),
        pytest.param(b"GGUF" + struct.pack("<I", 1), "version 1", id="old"),
        pytest.param(b"GGUF" + struct.pack(">I", 3), "version 50331648", id="big-endian"),
        pytest.param(
            b"GGUF" + struct.pack("<IQQ", 3, 0, 2**63), "cut short", id="more-keys-than-bytes"
        ),
        pytest.param(
            b"GGUF" + struct.pack("<IQQQ", 3, 0, 1, 2**64 - 1), "cut short", id="endless-key"
        ),
        pytest.param(
            header({"a": 1}) + b"", None, id="whole",
        ),
        pytest.param(
            header({})[:16] + struct.pack("<Q", 1) + encode_string("a") + struct.pack("<I", 99),
            "unknown type 99", id="unknown-type",
        ),
        pytest.param(
            header({})[:16] + struct.pack("<Q", 1) + encode_string("a")
            + struct.pack("<IIQ", 9, 4, 2**62),
            "cut short", id="endless-array",
        ),
        pytest.param(
            header({})[:16] + struct.pack("<Q", 1) + encode_string("a")
            + struct.pack("<IIQ", 9, 9, 1),
            "unknown type 9", id="nested-array",
        ),
        pytest.param(
            header({})[:16] + struct.pack("<Q", 2) + header({"a": 1})[24:] * 2,
            "stands there twice", id="same-key-twice",
        ),
    ],
)  # fmt: skip
def test_damage_is_told_with_the_files_name(read, content, reason):
    if reason is None:
        assert read(content).integer("a") == 1
        return
    with pytest.raises(InvalidGgufError, match=f"model.gguf .*{reason}"):
        read(content)


def test_a_header_cut_anywhere_is_refused(read):
    for length in range(len(WHOLE)):
        with pytest.raises(InvalidGgufError):
            read(WHOLE[:length])


def tensor(name: str, shape: tuple[int, ...], kind: int = 0, offset: int = 0) -> bytes:
    dimensions = struct.pack(f"<I{len(shape)}Q", len(shape), *shape)
    return encode_string(name) + dimensions + struct.pack("<IQ", kind, offset)


@pytest.mark.parametrize(
    ("tensors", "values", "num_bytes"),
    [
        ([tensor("a", (4, 2))], {}, 32),
        ([tensor("a", (4,)), tensor("b", (256, 3), kind=12, offset=32)], {}, 32 + 3 * 144),
        ([tensor("a", (4,), offset=64)], {"general.alignment": 64}, 64 + 16),
        ([tensor("a", (4,), kind=99, offset=64)], {}, 64),
    ],
    ids=["f32", "q4_k", "aligned", "unknown-type"],
)
def test_a_file_that_does_not_hold_its_tensors_is_cut_short(read, tensors, values, num_bytes):
    head = header(values, num_tensors=len(tensors)) + b"".join(tensors)
    head += bytes(-len(head) % values.get("general.alignment", 32))
    assert read(head + bytes(num_bytes)).keys == values.keys()
    with pytest.raises(InvalidGgufError, match=r"model.gguf .* cut short: it has [\d,]+ bytes"):
        read(head + bytes(num_bytes - 1))


@pytest.mark.parametrize(
    ("tensors", "reason"),
    [
        ([], "stands there twice|cut short"),
        ([tensor("a", (1,)), tensor("a", (1,))], "the tensor a stands there twice"),
        ([tensor("a", (1, 1, 1, 1, 1)), b""], "the tensor a has 5 dimensions"),
    ],
    ids=["missing", "twice", "dimensions"],
)
def test_damaged_descriptions_of_tensors(read, tensors, reason):
    with pytest.raises(InvalidGgufError, match=reason):
        read(header({}, num_tensors=max(2, len(tensors))) + b"".join(tensors) + bytes(999))


def test_a_bogus_number_of_tensors(read):
    with pytest.raises(InvalidGgufError, match="model.gguf"):
        read(header({}, num_tensors=2**60) + bytes(100_000))


@pytest.mark.parametrize("alignment", [0, "x", 0.5])
def test_an_alignment_that_is_none(read, alignment):
    with pytest.raises(InvalidGgufError, match="alignment"):
        read(header({"general.alignment": alignment}))


@pytest.mark.parametrize("path", ["missing.gguf", "."])
def test_a_path_that_cannot_be_read(tmp_path, path):
    with pytest.raises(InvalidGgufError, match="no readable GGUF"):
        GgufMetadata.read(tmp_path / path)


def test_a_file_that_changed_after_it_was_read(tmp_path):
    path = tmp_path / "model.gguf"
    path.write_bytes(WHOLE)
    metadata = GgufMetadata.read(path)
    path.write_bytes(WHOLE[:60])
    with pytest.raises(InvalidGgufError, match="cannot be read again"):
        metadata.texts("tokenizer.ggml.tokens")


@settings(max_examples=300, deadline=None)
@given(st.lists(st.tuples(st.integers(0, len(WHOLE) - 1), st.integers(0, 255)), max_size=12))
def test_random_damage_never_raises_anything_else(tmp_path_factory, changes):
    content = bytearray(WHOLE)
    for at, byte in changes:
        content[at] = byte
    path = tmp_path_factory.mktemp("gguf") / "model.gguf"
    path.write_bytes(content)
    try:
        metadata = GgufMetadata.read(path)
        for key in metadata.keys:
            for ask in (metadata.text, metadata.integer, metadata.texts, metadata.numbers):
                try:
                    ask(key)
                except InvalidGgufError:
                    continue
        assert metadata.special_tokens is not None
    except InvalidGgufError:
        return

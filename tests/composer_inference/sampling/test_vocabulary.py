"""Ids and bytes of vocabularies made here, and of the real models that are installed."""

import json
import subprocess
import sys
import unicodedata
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import (
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
)

from composer_inference.sampling.vocabulary import Vocabulary, read_vocabulary
from composer_inference.weights.errors import CheckpointError
from tests.support.gguf_files import header
from tests.support.models import model_path
from tests.support.vocabularies import byte_level_folder, byte_level_tokenizer

TEXTS = [
    "def add(a, b):\n\treturn a + b\r\n",
    "héllo 中文 👩‍👩‍👧‍👦 \x00\x7f\ufeff\U0010ffff",
    "   spaces   and\n\n\nlines ",
    "",
]
CONTROL = ["<s>", "</s>", "<|im_end|>"]


def joined(vocabulary: Vocabulary, text: str, **options: bool) -> bytes:
    return b"".join(map(vocabulary.token_bytes, vocabulary.encode(text, **options)))


@pytest.fixture(scope="module")
def byte_level(tmp_path_factory) -> Vocabulary:
    folder = byte_level_folder(tmp_path_factory.mktemp("byte-level"))
    return read_vocabulary(folder, num_embeddings=512)


def sentence_piece(folder: Path) -> Path:
    """A Llama-2-like tokenizer: a space in front, unknown characters as bytes."""
    words = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256))]
    words += [*"abcdefghij▁", "▁a", "ab", "▁ab", "▁▁", "<0xZZ>"]
    tokenizer: Any = Tokenizer(
        models.BPE(
            vocab={word: index for index, word in enumerate(words)},
            merges=[("▁", "a"), ("a", "b"), ("▁a", "b"), ("▁", "▁")],
            unk_token="<unk>",
            byte_fallback=True,
            fuse_unk=True,
        )
    )
    tokenizer.normalizer = normalizers.Sequence(
        [normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]
    )
    tokenizer.decoder = decoders.Sequence(
        [
            decoders.Replace("▁", " "),
            decoders.ByteFallback(),
            decoders.Fuse(),
            decoders.Strip(" ", 1),
        ]
    )
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A", special_tokens=[("<s>", 1)]
    )
    tokenizer.add_special_tokens(["<unk>", "<s>", "</s>"])
    tokenizer.save(str(folder / "tokenizer.json"))
    config = {"bos_token": {"content": "<s>"}, "eos_token": {"content": "</s>"}}
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    return folder


@pytest.fixture(scope="module")
def spaced(tmp_path_factory) -> Vocabulary:
    folder = sentence_piece(tmp_path_factory.mktemp("spaced"))
    return read_vocabulary(folder, num_embeddings=300)


@given(st.text())
@settings(max_examples=300, deadline=None)
def test_bytes_of_a_byte_level_folder_are_the_texts(byte_level, text):
    assert joined(byte_level, text, special=False) == text.encode()


@given(st.text(alphabet=st.one_of(st.sampled_from("ab ▁éx"), st.characters(codec="utf-8"))))
@settings(max_examples=300, deadline=None)
def test_bytes_of_a_sentence_piece_folder_are_the_texts(spaced, text):
    # The vocabulary's own sign for a space is a space.
    expected = text.replace("▁", " ").encode()
    assert joined(spaced, text, special=False) == (b" " + expected if text else b"")


def test_a_sentence_piece_folder_begins_a_prompt_with_bos(tmp_path):
    vocabulary = read_vocabulary(sentence_piece(tmp_path), num_embeddings=300)
    assert (vocabulary.bos_id, vocabulary.adds_bos, vocabulary.eos_ids) == (1, True, {2})
    assert vocabulary.special_tokens == {"bos_token": "", "eos_token": "</s>"}
    assert vocabulary.encode("ab")[0] != 1
    assert vocabulary.token_bytes(3 + 10) == b"\n"
    assert vocabulary.token_bytes(vocabulary.size - 1) == b""


def test_what_is_normalised_comes_back_normalised(tmp_path):
    tokenizer = byte_level_tokenizer()
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    vocabulary = read_vocabulary(tmp_path, num_embeddings=512)
    text = "e\u0301"
    assert joined(vocabulary, text) == unicodedata.normalize("NFC", text).encode() != text.encode()


def test_control_tokens_are_recognised_only_where_asked(byte_level):
    end = byte_level.encode("<|im_end|>")
    assert len(end) == 1
    assert byte_level.token_bytes(end[0]) == b""
    assert byte_level.token_text(end[0]) == "<|im_end|>"
    written = byte_level.encode("<|im_end|>", special=False)
    assert len(written) > 1
    assert b"".join(map(byte_level.token_bytes, written)) == b"<|im_end|>"


def test_a_token_that_the_file_takes_for_text_is_control_by_its_name(byte_level):
    """As Qwen's tokenizer.json has those of fill-in-the-middle."""
    assert joined(byte_level, "a<|fim_prefix|>b") == b"ab"
    assert joined(byte_level, "a<|fim_prefix|>b", special=False) == b"a<|fim_prefix|>b"


def test_an_added_token_that_is_text_is_found_in_any_text(byte_level):
    for special in (True, False):
        (token_id,) = byte_level.encode("<tool_call>", special=special)
        assert byte_level.token_bytes(token_id) == b"<tool_call>"


def test_a_token_is_named_for_people(byte_level):
    (token_id,) = byte_level.encode("\u00e9")[:1]
    assert byte_level.token_text(token_id) in ("é", "\ufffd")
    assert byte_level.token_text(byte_level.encode("\ud7ff", special=False)[0]) == "\ufffd"


ENDS: list[tuple[dict[str, Any], set[str]]] = [
    ({}, {"<|im_end|>"}),
    ({"config.json": {"eos_token_id": 1}}, {"<|im_end|>", "<|b|>"}),
    ({"generation_config.json": {"eos_token_id": [1, 3]}}, {"<|im_end|>", "<|b|>", "<|d|>"}),
    ({"tokenizer_config.json": {"eos_token": "<|d|>"}}, {"<|im_end|>", "<|d|>"}),
    ({"special_tokens_map.json": {"eos_token": {"content": "<|d|>"}}}, {"<|im_end|>", "<|d|>"}),
    ({"config.json": {"eos_token_id": None}}, {"<|im_end|>"}),
]


@pytest.mark.parametrize(("files", "ends"), ENDS, ids=range(len(ENDS)))
def test_tokens_that_end_a_text(tmp_path, files, ends):
    write_plain(tmp_path, ["<|a|>", "<|b|>", "<|c|>", "<|d|>", "<|im_end|>"], files)
    vocabulary = read_vocabulary(tmp_path, num_embeddings=600)
    assert {vocabulary.token_text(end) for end in vocabulary.eos_ids} == ends


def test_channels_end_without_ending_the_text(tmp_path):
    names = ["<|end|>", "<|return|>", "<|call|>", "<|message|>"]
    write_plain(tmp_path, names, {})
    vocabulary = read_vocabulary(tmp_path, num_embeddings=600)
    assert {vocabulary.token_text(end) for end in vocabulary.eos_ids} == {"<|return|>", "<|call|>"}
    assert joined(vocabulary, "a<|message|>b<|end|>") == b"a<|message|>b"


def write_plain(folder: Path, special: list[str], files: dict[str, dict[str, Any]]) -> None:
    """A byte-level tokenizer whose first ids are these control tokens, and other files."""
    characters = sorted(pre_tokenizers.ByteLevel.alphabet())
    words = {word: index for index, word in enumerate([*special, *characters])}
    tokenizer: Any = Tokenizer(models.BPE(vocab=words, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(special)
    tokenizer.save(str(folder / "tokenizer.json"))
    for name, content in files.items():
        (folder / name).write_text(json.dumps(content))


@pytest.mark.parametrize(
    ("says", "adds"),
    [({"add_bos_token": True}, True), ({"add_bos_token": False}, False), ({}, False)],
)
def test_the_tokenizers_configuration_says_whether_bos_is_added(tmp_path, says, adds):
    write_plain(tmp_path, ["<|b|>"], {"tokenizer_config.json": {"bos_token": "<|b|>", **says}})
    vocabulary = read_vocabulary(tmp_path, num_embeddings=600)
    assert vocabulary.adds_bos is adds
    assert vocabulary.special_tokens == {"bos_token": "" if adds else "<|b|>"}


@pytest.mark.parametrize(
    ("config", "file", "template"),
    [
        ({"chat_template": "A"}, None, "A"),
        ({"chat_template": "A"}, "B", "B"),
        ({"chat_template": [{"name": "x", "template": "X"}, {"name": "default", "template": "D"}]},
         None, "D"),
        ({"chat_template": ["x", {"name": "x"}, {"template": "X"}]}, None, None),
        ({}, None, None),
    ],
)  # fmt: skip
def test_chat_template(tmp_path, config, file, template):
    write_plain(tmp_path, ["<|b|>"], {"tokenizer_config.json": config})
    if file is not None:
        (tmp_path / "chat_template.jinja").write_text(file)
    assert read_vocabulary(tmp_path, num_embeddings=600).chat_template == template


def break_nothing(folder: Path) -> None: ...


def cut_short(folder: Path) -> None:
    path = folder / "tokenizer.json"
    path.write_bytes(path.read_bytes()[:-100])


def remove(folder: Path) -> None:
    (folder / "tokenizer.json").unlink()


def other_kind(folder: Path) -> None:
    path = folder / "tokenizer.json"
    decoder = {"type": "WordPiece", "prefix": "##", "cleanup": True}
    path.write_text(json.dumps({**json.loads(path.read_text()), "decoder": decoder}))


def unigram(folder: Path) -> None:
    path = folder / "tokenizer.json"
    model = {"type": "Unigram", "unk_id": 0, "vocab": [["<unk>", 0.0], ["\u2581a", -1.0]]}
    path.write_text(json.dumps({**json.loads(path.read_text()), "model": model}))


def word_pieces(folder: Path) -> None:
    path = folder / "tokenizer.json"
    model = {
        **{"type": "WordPiece", "unk_token": "<unk>", "continuing_subword_prefix": "##"},
        **{"max_input_chars_per_word": 100, "vocab": {"<unk>": 0, "##a": 1}},
    }
    path.write_text(json.dumps({**json.loads(path.read_text()), "model": model}))


def no_model(folder: Path) -> None:
    (folder / "tokenizer.json").write_text('{"model": 1, "added_tokens": [3]}')


def wrong_end(folder: Path) -> None:
    (folder / "generation_config.json").write_text('{"eos_token_id": [1, 99999]}')


def true_end(folder: Path) -> None:
    (folder / "config.json").write_text('{"eos_token_id": true}')


def broken_config(folder: Path) -> None:
    (folder / "tokenizer_config.json").write_text("{")


@pytest.mark.parametrize(
    ("damage", "num_embeddings", "message"),
    [
        (break_nothing, 100, r"tokenizer\.json has ids up to \d+ and .* 100 rows"),
        (cut_short, 512, r"tokenizer\.json is no JSON"),
        (remove, 512, r"tokenizer\.json is missing"),
        (other_kind, 512, r"tokenizer\.json has the decoder WordPiece"),
        (unigram, 512, r"tokenizer\.json has a Unigram model under the decoder ByteLevel"),
        (word_pieces, 512, r"tokenizer\.json has a WordPiece model under the decoder ByteLevel"),
        (no_model, 512, r"tokenizer\.json cannot be read as a tokenizer"),
        (wrong_end, 512, r"generation_config\.json has eos_token_id 99999"),
        (true_end, 512, r"config\.json has eos_token_id True"),
        (broken_config, 512, r"tokenizer_config\.json is no JSON"),
    ],
)
def test_a_folder_that_does_not_fit_is_refused_by_name(tmp_path, damage, num_embeddings, message):
    damage(byte_level_folder(tmp_path))
    with pytest.raises(CheckpointError, match=message):
        read_vocabulary(tmp_path, num_embeddings=num_embeddings)


def gguf(path: Path, **values: Any) -> Path:
    words = ["<unk>", "<s>", "</s>", "<|im_end|>", "<T>", "left out", *"abc▁", "▁a"]
    kinds = [2, 3, 3, 1, 4, 5, *[1] * 5]
    words += [f"<0x{byte:02X}>" for byte in range(256)]
    described = {
        "tokenizer.ggml.model": "llama",
        "tokenizer.ggml.tokens": words,
        "tokenizer.ggml.token_type": [*kinds, *[6] * 256],
        "tokenizer.ggml.scores": [0.0] * len(words),
        "tokenizer.ggml.bos_token_id": 1,
        "tokenizer.ggml.eos_token_id": 2,
        "tokenizer.ggml.eot_token_id": 4,
        "tokenizer.chat_template": "{{ messages }}",
        **values,
    }
    path.write_bytes(header({key: value for key, value in described.items() if value is not None}))
    return path


def test_a_sentence_piece_gguf(tmp_path):
    vocabulary = read_vocabulary(gguf(tmp_path / "m.gguf"), num_embeddings=300)
    assert (vocabulary.size, vocabulary.bos_id, vocabulary.adds_bos) == (300, 1, True)
    assert vocabulary.eos_ids == {2, 3, 4}
    assert vocabulary.special_tokens == {"bos_token": "", "eos_token": "</s>"}
    assert vocabulary.chat_template == "{{ messages }}"
    assert [vocabulary.token_bytes(each) for each in range(12)] == [
        b"", b"", b"", b"", b"<T>", b"", b"a", b"b", b"c", b" ", b" a", b"\x00",
    ]  # fmt: skip
    for text in TEXTS[1:]:
        assert joined(vocabulary, text) == (b" " + text.encode() if text else b"")


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({}, r"m\.gguf has 267 tokens and its embedding 266 rows"),
        ({"tokenizer.ggml.scores": [0.0]}, r"m\.gguf cannot be tokenised: .* 1 scores"),
        ({"tokenizer.ggml.tokens": None}, r"m\.gguf has 0 tokens"),
        ({"tokenizer.ggml.token_type": [1]}, r"m\.gguf has 267 tokens and the kinds of 1"),
        ({"tokenizer.ggml.eos_token_id": "x"}, r"eos_token_id of .*m\.gguf"),
    ],
)
def test_a_gguf_that_does_not_fit_is_refused_by_name(tmp_path, values, message):
    path = gguf(tmp_path / "m.gguf", **values)
    with pytest.raises(CheckpointError, match=message):
        read_vocabulary(path, num_embeddings=266 if not values else 300)


def test_a_file_that_is_missing_is_named(tmp_path):
    with pytest.raises(CheckpointError, match=r"none\.gguf"):
        read_vocabulary(tmp_path / "none.gguf", num_embeddings=1)


@pytest.mark.model
@pytest.mark.parametrize(
    ("name", "ends"),
    [
        ("smollm2-135m", {"<|im_end|>", "<|endoftext|>", "<reponame>"}),
        (
            "qwen2.5-coder-0.5b",
            {"<|im_end|>", "<|endoftext|>", "<|fim_pad|>", "<|repo_name|>", "<|file_sep|>", "</s>"},
        ),
    ],
)
def test_real_vocabularies(name, ends):
    vocabulary = read_vocabulary(model_path(name), num_embeddings=151936)
    assert {vocabulary.token_text(end) for end in vocabulary.eos_ids} == ends

    @given(st.text())
    @settings(max_examples=200, deadline=None)
    def check(text: str) -> None:
        assert joined(vocabulary, text, special=False) == _without_unknown(vocabulary, text)

    check()
    for text in [*TEXTS, Path(__file__).read_text(encoding="utf-8")]:
        assert joined(vocabulary, text, special=False) == _without_unknown(vocabulary, text)


def _without_unknown(vocabulary: Vocabulary, text: str) -> bytes:
    """llama.cpp leaves out bytes that have no token, as SmolLM2's vocabulary lacks some."""
    known = {vocabulary.token_bytes(each) for each in range(vocabulary.size)}
    return bytes(byte for byte in text.encode() if bytes([byte]) in known)


def test_torch_is_not_imported():
    code = (
        "import sys, composer_inference.sampling.vocabulary, composer_inference.sampling.text_stream\n"
        "sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0

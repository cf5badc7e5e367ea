"""Token ids compared with llama.cpp's own, on vocabularies made here and on real models."""

import json
import random
import secrets
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import xllamacpp
from tokenizers import Tokenizer as HuggingFaceTokenizer
from tokenizers import models, pre_tokenizers, trainers

from composer_inference.backends.base import MissingCapabilityError
from composer_inference.bpe import PATTERNS
from composer_inference.gguf import GgufMetadata
from composer_inference.tokenizer import Tokenizer, build_tokenizer
from tests.support.gguf_files import header, write_tiny_llama
from tests.support.models import model_path

Encode = Callable[..., list[int]]

CODE = [
    "def add(a, b):\n    return a + b  # it's o'clock, WE'RE done\n",
    "func (s *Set[T]) Len() int {\n\t\treturn len(s.items)\n}\r\n\r\n",
    'fn main() { println!("{:?}", vec![1_000u64, 0xFFu8 as u64]); }\n',
    "const f = async (x) => `${x ?? 'n/a'}`;\n\n\n\n  // ünïcödé ﬁ ǅ\n",
    "SELECT * FROM t WHERE a <> 'it''s' AND b BETWEEN 10 AND 12345678;\n",
    '<div class="a">&nbsp;</div>   \n   \t\n <!-- -->\n',
    "#define MAX(a,b) ((a)>(b)?(a):(b))\n\f\v\x00\x7f\x1b[0m",
]
TEXT = [
    "中文字符，測試。한국어 ひらがな カタカナ ไทย",
    "العربية עברית हिन्दी देवनागरी",
    "👩‍👩‍👧‍👦 🇩🇪 👍🏽 e\u0301 \u200d\u200b\ufeff",
    "\u00a0\u1680\u2003\u2028\u2029\u3000\u0085 x",
    "²³¼ Ⅷ ٣٤٥ 𝟘𝟙 ℝ µ ſ K",
    "\u0378\ue000\U0010ffff\U000e0001",
    "I'll I'LL he'D they'VE 'tis ' ''s",
]
CONTROL = "<|im_start|>user\nhi<|im_end|><|im_end|>\n<|im_ <|im_start|> <|im_start|>x"


class LlamaCpp:
    """llama.cpp's own tokenizer, reached through the HTTP server that xllamacpp runs."""

    def __init__(self, model: Path, folder: Path) -> None:
        params = xllamacpp.CommonParams()
        params.model.path = str(model)
        params.n_ctx = 256
        params.warmup = False
        params.verbosity = -1
        params.cpuparams.n_threads = 1
        path = folder / f"{secrets.token_hex(4)}.sock"
        params.hostnames = [str(path)]
        key = secrets.token_hex()
        params.api_keys = [key]
        self._server = xllamacpp.Server(params)
        self._client = httpx.Client(
            transport=httpx.HTTPTransport(uds=str(path)),
            base_url="http://llama",
            headers={"Authorization": f"Bearer {key}"},
            timeout=60,
        )

    def encode(self, text: str, *, special: bool = True) -> list[int]:
        answer = self._client.post("/tokenize", json={"content": text, "parse_special": special})
        return answer.json()["tokens"]

    def close(self) -> None:
        self._client.close()
        del self._server


@pytest.fixture
def pair() -> Iterator[Callable[[Path], tuple[Tokenizer, LlamaCpp]]]:
    """`pair(model)` is our tokenizer and llama.cpp's for one file."""
    folder = Path(tempfile.mkdtemp(prefix="c-"))
    peers: list[LlamaCpp] = []

    def both(model: Path) -> tuple[Tokenizer, LlamaCpp]:
        peers.append(LlamaCpp(model, folder))
        return build_tokenizer(GgufMetadata.read(model)), peers[-1]

    yield both
    for peer in peers:
        peer.close()
    shutil.rmtree(folder)


@pytest.fixture(scope="session")
def byte_level() -> dict[str, Any]:
    """A small byte-level vocabulary, trained on this file's texts, without tokens for some bytes."""
    tokenizer: Any = HuggingFaceTokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = trainers.BpeTrainer(
        vocab_size=900,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet()[3:],
        show_progress=False,
    )
    here = Path(__file__).read_text(encoding="utf-8")
    tokenizer.train_from_iterator([here, *CODE, *CODE, *TEXT, *TEXT], trainer)
    model = json.loads(tokenizer.to_str())["model"]
    words = sorted(model["vocab"], key=model["vocab"].get)
    special = ["<|im_start|>", "<|im_end|>", "<tool_call>", "</tool_call>", "<|im_", "<unk>"]
    return {
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.tokens": [*words, *special],
        "tokenizer.ggml.token_type": [*[1] * len(words), 3, 3, 4, 4, 4, 2],
        "tokenizer.ggml.merges": [" ".join(merge) for merge in model["merges"]],
        "tokenizer.ggml.bos_token_id": len(words),
        "tokenizer.ggml.eos_token_id": len(words) + 1,
        "tokenizer.ggml.add_bos_token": False,
    }


def sentence_piece(*, ties: bool, add_space_prefix: bool | None) -> dict[str, Any]:
    """A vocabulary of words over few letters, so that many merges compete."""
    draw = random.Random(1)
    special = {"<unk>": 2, "<s>": 3, "</s>": 3, "<|x|>": 3, "<|xy|>": 3, "[T]": 4}
    words = [
        *"abcdefxy0123▁",
        *("".join(draw.choices("aab▁", k=draw.randint(2, 6))) for _ in range(400)),
    ]
    words = [*dict.fromkeys(words), *(f"<0x{byte:02X}>" for byte in range(256))]
    num_words = len(words) - 256
    values: dict[str, Any] = {
        "tokenizer.ggml.model": "llama",
        "tokenizer.ggml.tokens": [*special, *words],
        "tokenizer.ggml.token_type": [*special.values(), *[1] * num_words, *[6] * 256],
        "tokenizer.ggml.scores": [
            *[0.0] * len(special), *(-float(i // (20 if ties else 1)) for i in range(len(words))),
        ],
        "tokenizer.ggml.bos_token_id": 1,
        "tokenizer.ggml.eos_token_id": 2,
    }  # fmt: skip
    if add_space_prefix is not None:
        values["tokenizer.ggml.add_space_prefix"] = add_space_prefix
    return values


def assert_equal(ours: Tokenizer, theirs: LlamaCpp, text: str) -> None:
    for special in (True, False):
        assert ours.encode(text, special=special) == theirs.encode(text, special=special), (
            ascii(text), special,
        )  # fmt: skip


def random_texts(count: int, *, seed: int) -> Iterator[str]:
    draw = random.Random(seed)
    letters = [chr(code) for code in range(1, 0x3000)] + list("".join(TEXT)) * 40
    letters += list(" \t\n\r'") * 500 + list("stmdlver STMDLVER 0123 (){};.,_=") * 60
    letters += ["<|im_start|>", "<|im_end|>", "<tool_call>"] * 100
    for _ in range(count):
        yield "".join(draw.choices(letters, k=draw.randint(1, 60)))


@pytest.mark.parametrize("pre", sorted(PATTERNS))
def test_byte_level_ids_are_llama_cpps(pair, byte_level, tmp_path, pre):
    values = {**byte_level, "tokenizer.ggml.pre": pre}
    ours, theirs = pair(write_tiny_llama(tmp_path / "m.gguf", values))
    for text in [*CODE, *TEXT, CONTROL, "", " ", "a", *random_texts(150, seed=0)]:
        assert_equal(ours, theirs, text)


@pytest.mark.parametrize("add_space_prefix", [True, False, None])
@pytest.mark.parametrize("ties", [True, False])
def test_sentence_piece_ids_are_llama_cpps(pair, tmp_path, ties, add_space_prefix):
    values = sentence_piece(ties=ties, add_space_prefix=add_space_prefix)
    ours, theirs = pair(write_tiny_llama(tmp_path / "m.gguf", values))
    draw = random.Random(2)
    letters = [*"aaaabb   ▁cdexy0\n\té中🤖", "<|x|>", "<|xy|>", "</s>", "[T]"]
    texts = ("".join(draw.choices(letters, k=draw.randint(1, 40))) for _ in range(300))
    for text in [*CODE, *TEXT, "", " ", "aaaaaaaa", *texts]:
        assert_equal(ours, theirs, text)


@pytest.mark.soak
@pytest.mark.parametrize(
    "pre", ["gpt-2", "smollm", "qwen2", "qwen35", "llama-bpe", "deepseek-coder", "seed-coder"]
)
def test_every_character_of_unicode(pair, byte_level, tmp_path, pre):
    values = {**byte_level, "tokenizer.ggml.pre": pre}
    ours, theirs = pair(write_tiny_llama(tmp_path / "m.gguf", values))
    codes = [code for code in range(1, 0x110000) if not 0xD800 <= code < 0xE000]
    for start in range(0, len(codes), 2048):
        characters = map(chr, codes[start : start + 2048])
        text = "".join(f"a{c}b 1{c}2 {c}{c} ,{c};\n" for c in characters)
        assert ours.encode(text) == theirs.encode(text), hex(codes[start])


@pytest.mark.model
@pytest.mark.parametrize("name", ["qwen2.5-coder-0.5b", "smollm2-135m"])
def test_real_vocabularies(pair, name):
    ours, theirs = pair(model_path(name))
    sources = [Path(__file__), Path(random.__file__), *Path(httpx.__file__).parent.glob("*.py")]
    texts = [path.read_text(encoding="utf-8") for path in sources]
    for text in [*texts, *CODE, *TEXT, CONTROL, *random_texts(300, seed=3)]:
        assert_equal(ours, theirs, text)


@pytest.mark.parametrize(
    ("values", "names"),
    [
        ({"tokenizer.ggml.model": "gpt2", "tokenizer.ggml.pre": "deepseek-v3"}, "'deepseek-v3'"),
        ({"tokenizer.ggml.model": "gpt2"}, "'default'"),
        ({"tokenizer.ggml.model": "t5"}, "'t5'"),
        ({}, "None"),
        ({"tokenizer.ggml.model": "llama"}, "<0x00>"),
        ({"tokenizer.ggml.model": "llama", "tokenizer.ggml.scores": [0.0]}, "1 scores"),
        ({"general.name": "Phi 3 mini"}, "None"),
        ({"general.name": "Phi-3-mini", "tokenizer.ggml.model": "llama"}, "Phi-3-mini"),
    ],
)
def test_what_is_not_exact_is_refused_by_name(tmp_path, values, names):
    path = tmp_path / "m.gguf"
    path.write_bytes(header(values))
    with pytest.raises(MissingCapabilityError, match=names):
        build_tokenizer(GgufMetadata.read(path))

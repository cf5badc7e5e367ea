from pathlib import Path

import pytest

from composer_inference.sampling.vocabulary import read_vocabulary
from composer_inference.weights.checkpoint import CheckpointError
from composer_inference.weights.tokenizer_files import add_tokenizer
from tests.support.gguf_files import header
from tests.support.models import model_path

TEXTS = [
    'def greet(name: str) -> str:\n\treturn f"häß {name} 漢字 🦊"  # 0123456789\n\n\n',
    "<|im_start|>user\nWhat's <tool_call>{}</tool_call>?<|im_end|>\n<|fim_prefix|>a<|fim_suffix|>",
    "\x00\x07 \t \r\n  spaces   and\u00a0more",
]


@pytest.mark.model
@pytest.mark.parametrize(
    ("name", "num_embeddings"), [("qwen2.5-coder-0.5b", 151936), ("smollm2-135m", 49152)]
)
def test_is_the_vocabulary_of_the_gguf(name: str, num_embeddings: int, tmp_path: Path) -> None:
    path = model_path(name)
    add_tokenizer(path, tmp_path)
    original = read_vocabulary(path, num_embeddings=num_embeddings)
    written = read_vocabulary(tmp_path, num_embeddings=num_embeddings)
    for text in [*TEXTS, Path(__file__).read_text()]:
        for special in (True, False):
            assert written.encode(text, special=special) == original.encode(text, special=special)
    for token_id in range(num_embeddings):
        assert written.token_bytes(token_id) == original.token_bytes(token_id)
    assert written.eos_ids == original.eos_ids
    assert written.bos_id == original.bos_id
    assert written.adds_bos == original.adds_bos
    assert written.special_tokens == original.special_tokens
    assert written.chat_template == original.chat_template


@pytest.mark.parametrize(
    ("metadata", "kind"),
    [
        ({"tokenizer.ggml.model": "llama"}, "its kind is llama"),
        ({"tokenizer.ggml.model": "gpt2", "tokenizer.ggml.pre": "viking"}, "is gpt2 viking"),
    ],
)
def test_vocabulary_of_another_kind(metadata: dict[str, str], kind: str, tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    path.write_bytes(header({"general.architecture": "llama", **metadata}))
    with pytest.raises(CheckpointError, match=rf"{kind}; take the model's safetensors folder"):
        add_tokenizer(path, tmp_path)

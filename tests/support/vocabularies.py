"""A small tokenizer in Hugging Face's layout, made on the spot."""

import json
from pathlib import Path
from typing import Any

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers

SAMPLE = [
    'def greet(name):\n    return f"hello {name}"\n' * 3,
    '{"name": "Ada", "age": 36, "tags": ["a", "b"], "ok": true, "none": null}\n' * 3,
    "The quick brown fox jumps over the lazy dog. Überall café 中文\n",
]


def byte_level_tokenizer() -> Any:
    """Of some 400 ids: every byte, words of code and JSON, and control tokens like Qwen's."""
    tokenizer: Any = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=400,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(SAMPLE, trainer)
    tokenizer.add_special_tokens(["<|im_start|>", "<|im_end|>", "<|endoftext|>"])
    tokenizer.add_tokens([AddedToken(text) for text in ("<|fim_prefix|>", "<tool_call>")])
    return tokenizer


def byte_level_folder(folder: Path) -> Path:
    """`tokenizer.json` and `tokenizer_config.json` of that tokenizer in the folder, which is returned."""
    byte_level_tokenizer().save(str(folder / "tokenizer.json"))
    config = {"bos_token": None, "eos_token": "<|im_end|>", "add_bos_token": False}
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    return folder

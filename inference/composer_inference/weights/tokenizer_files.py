"""What a model folder needs beside its weights: the tokenizer, the chat template, how to generate."""

import json
import shutil
from pathlib import Path
from typing import Any

from tokenizers import AddedToken, decoders

from composer_inference.backends.base import MissingCapabilityError
from composer_inference.bpe import PATTERNS, byte_level_tokenizer
from composer_inference.gguf import GgufMetadata, InvalidGgufError
from composer_inference.tokenizer import (
    ALWAYS_CONTROL,
    CONTROL,
    UNKNOWN,
    UNUSED,
    USER_DEFINED,
)
from composer_inference.weights.errors import CheckpointError

_COPIED = (
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "tokenizer.model",
    "vocab.json",
    "merges.txt",
    "chat_template.jinja",
    "chat_template.json",
    "generation_config.json",
)


def add_tokenizer(source: Path, folder: Path) -> None:
    """Copies a model folder's files, or writes what a GGUF file has within it.

    Raises: CheckpointError for a GGUF vocabulary that cannot be written exactly, OSError.
    """
    if source.is_dir():
        for name in _COPIED:
            if (source / name).is_file():
                shutil.copyfile(source / name, folder / name)
        return
    try:
        _write_tokenizer(GgufMetadata.read(source), folder)
    except (InvalidGgufError, MissingCapabilityError) as error:
        raise CheckpointError(
            f"the vocabulary of {source} cannot be written as tokenizer.json: {error}; take the"
            " model's safetensors folder"
        ) from error


def _write_tokenizer(metadata: GgufMetadata, folder: Path) -> None:
    model = metadata.text("tokenizer.ggml.model")
    pre = metadata.text("tokenizer.ggml.pre") or ""
    if model != "gpt2" or pre not in PATTERNS:
        raise MissingCapabilityError(f"its kind is {model} {pre}".rstrip())
    names = metadata.texts("tokenizer.ggml.tokens")
    kinds = metadata.numbers("tokenizer.ggml.token_type")
    described = list(enumerate(zip(names, kinds, strict=True)))
    vocabulary = {name: token_id for token_id, (name, kind) in described if kind != UNUSED}
    tokenizer: Any = byte_level_tokenizer(pre, vocabulary, metadata.texts("tokenizer.ggml.merges"))
    tokenizer.decoder = decoders.ByteLevel()
    for _, (name, kind) in described:
        is_control = kind in (CONTROL, UNKNOWN) or ALWAYS_CONTROL.fullmatch(name) is not None
        if is_control or kind == USER_DEFINED:
            add = tokenizer.add_special_tokens if is_control else tokenizer.add_tokens
            add([AddedToken(name, special=is_control, normalized=False)])
    tokenizer.save(str(folder / "tokenizer.json"))
    _write_settings(metadata, names, folder)


def _write_settings(metadata: GgufMetadata, names: list[str], folder: Path) -> None:
    settings: dict[str, Any] = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "add_bos_token": metadata.adds_bos,
    }
    for name in ("bos", "eos"):
        token_id = metadata.integer(f"tokenizer.ggml.{name}_token_id")
        if token_id is not None and 0 <= token_id < len(names):
            settings[f"{name}_token"] = names[token_id]
    text = json.dumps(settings, indent=2, ensure_ascii=False) + "\n"
    (folder / "tokenizer_config.json").write_text(text, encoding="utf-8")
    if (template := metadata.chat_template) is not None:
        (folder / "chat_template.jinja").write_text(template, encoding="utf-8")

"""What the tokens of a vocabulary stand for, listed by id.

Source of the names that end a text: llama.cpp, src/llama-vocab.cpp (`special_eog_ids`).
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

SPACE = "▁"
"""Stands for a space in a SentencePiece vocabulary."""

_ENDS = frozenset(
    {
        *("</s>", "<eos>", "[EOS]", "<｜end▁of▁sentence｜>", "<|endoftext|>", "<|end_of_text|>"),
        *("<|im_end|>", "<|eot_id|>", "<|eom_id|>", "<end_of_turn>", "<turn|>", "<EOT>", "_<EOT>"),
        *("[EOT]", "<|end|>", "<|return|>", "<|call|>", "<|calls|>", "<|flush|>"),
        "<end_of_utterance>",
        # What a model writes behind the text that was to be filled in.
        *("<|fim_pad|>", "<fim-pad>", "<fim_pad>", "<PAD>", "[PAD]"),
        *("<|fim_repo|>", "<|repo_name|>", "<fim-repo>", "<REPO>", "<reponame>", "<|file_sep|>"),
    }
)
_BETWEEN_CHANNELS = frozenset({"<|return|>", "<|call|>", "<|end|>"})
"""A vocabulary with all three (gpt-oss) ends a channel by `<|end|>`, not the text."""

SHOWN_CONTROL = frozenset({"<|channel|>", "<|message|>", "<|start|>", "<|constrain|>"})
"""Control tokens that are text to whoever reads the answer: they part gpt-oss's channels."""

_BYTE_TOKEN = re.compile("<0x([0-9A-F]{2})>")


class Encode(Protocol):
    def __call__(self, text: str, *, special: bool = True) -> list[int]: ...


@dataclass(frozen=True, kw_only=True, slots=True)
class TokenTable:
    """A `Vocabulary` (`vocabulary.py`) whose tokens are listed."""

    encoder: Encode
    tokens: Sequence[bytes]
    """By id; those beyond the list have no token."""
    control: Mapping[int, str]
    """Names of the control tokens, whose bytes are empty."""
    size: int
    eos_ids: frozenset[int]
    bos_id: int | None
    adds_bos: bool
    chat_template: str | None
    special_tokens: Mapping[str, str]

    def encode(self, text: str, *, special: bool = True) -> list[int]:
        return self.encoder(text, special=special)

    def token_bytes(self, token_id: int) -> bytes:
        return self.tokens[token_id] if token_id < len(self.tokens) else b""

    def token_text(self, token_id: int) -> str:
        name = self.control.get(token_id)
        return self.token_bytes(token_id).decode("utf-8", "replace") if name is None else name


def ending_ids(control: Iterable[tuple[int, str]]) -> set[int]:
    """Of these control tokens, those that end a text by their names."""
    ids = {name: token_id for token_id, name in control if name in _ENDS}
    if ids.keys() >= _BETWEEN_CHANNELS:
        del ids["<|end|>"]
    return set(ids.values())


def template_tokens(bos: str | None, eos: str | None, *, adds_bos: bool) -> dict[str, str]:
    """`Vocabulary.special_tokens`, of the tokens that the model has."""
    named = {"bos_token": "" if adds_bos else bos, "eos_token": eos}
    return {key: text for key, text in named.items() if text is not None}


def byte_level_bytes(token: str) -> bytes:
    """Of a byte-level vocabulary's token. A character that stands for no byte is itself."""
    return b"".join(_BYTES.get(character) or _utf8(character) for character in token)


def sentence_piece_bytes(token: str, *, is_byte: bool) -> bytes:
    """Of a SentencePiece vocabulary's token; `is_byte`: one that is named like `<0x0A>` is a byte."""
    match = _BYTE_TOKEN.fullmatch(token) if is_byte else None
    return bytes([int(match[1], 16)]) if match else _utf8(token.replace(SPACE, " "))


def written_bytes(token: str) -> bytes:
    """Of a token that stands for its own text."""
    return _utf8(token)


def _utf8(text: str) -> bytes:
    # A GGUF's bytes that are no UTF-8 are lone surrogates, which is undone here.
    return text.encode("utf-8", "surrogateescape")


def _byte_characters() -> dict[str, bytes]:
    """GPT-2's: a printable Latin-1 character is its own byte, the others count up from U+0100."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in printable]
    characters = [*map(chr, printable), *(chr(0x100 + n) for n in range(len(others)))]
    return {
        character: bytes([byte])
        for character, byte in zip(characters, [*printable, *others], strict=True)
    }


_BYTES = _byte_characters()

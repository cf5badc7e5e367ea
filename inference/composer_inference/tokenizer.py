"""A model's tokenizer, built from the vocabulary in its GGUF file; the ids are llama.cpp's own.

xllamacpp offers no tokenizer. Source of what is special: llama.cpp, src/llama-vocab.cpp
(`tokenizer_st_partition` and the loading of `tokenizer.ggml.token_type`).
"""

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

from composer_inference.backends.base import MissingCapabilityError
from composer_inference.bpe import BytePairEncoder
from composer_inference.gguf import GgufMetadata
from composer_inference.spm import SentencePieceEncoder

UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = 2, 3, 4, 5, 6
"""Values of `tokenizer.ggml.token_type`."""

ALWAYS_CONTROL = re.compile(
    r"<\|(eot_id|im_end|end|return|calls?|flush|endoftext|eom_id|end_of_text|tool_response)\|?>"
    r"|<\|(fim_(prefix|suffix|middle|pad|repo)|(code_)?(prefix|suffix|middle))\|>"
    r"|<\|(repo_name|file_sep)\|>|<fim[-_](prefix|suffix|middle|pad)>|<fim-repo>|<reponame>"
    r"|▁?<(PRE|SUF|MID)>|<(PAD|REPO|EOT|eos)>|_<EOT>|\[(EOT|EOS|PAD)\]|</s>|<turn\|>|\[e~\["
    r"|<end_of_(turn|utterance)>|<｜(fim▁(begin|hole|end)|end▁of▁sentence)｜>"
)
"""Tokens that llama.cpp takes for control tokens by their text, whatever their file says."""

_PATCHED_MODELS = re.compile("phi-?3|modern-bert", re.IGNORECASE)
"""Names of models whose special tokens swallow the spaces beside them, by a table in llama.cpp."""


class _Encode(Protocol):
    def __call__(self, text: str, *, after_special: bool) -> list[int]: ...


class Tokenizer:
    def __init__(
        self, encode: _Encode, always: Sequence[tuple[str, int]], control: Sequence[tuple[str, int]]
    ) -> None:
        """`always`: tokens found in any text, with their ids; `control`: only where asked for."""
        self._encode = encode
        self._cut_always = _cutter(always)
        self._cut_all = _cutter([*always, *control])

    def encode(self, text: str, *, special: bool = True) -> list[int]:
        """Token ids, without BOS; `special` recognises control tokens that are written in the text."""
        ids: list[int] = []
        after_special = True
        for part in (self._cut_all if special else self._cut_always)(text):
            if isinstance(part, int):
                ids.append(part)
            else:
                ids += self._encode(part, after_special=after_special)
            after_special = isinstance(part, int)
        return ids


def build_tokenizer(metadata: GgufMetadata) -> Tokenizer:
    """Raises: MissingCapabilityError for a vocabulary that is not known to be encoded exactly;
    InvalidGgufError."""
    name = metadata.text("general.name") or ""
    if _PATCHED_MODELS.search(name):
        raise MissingCapabilityError(f"no exact tokenizer is known for the model {name!r}")
    tokens = [
        token or f"[EMPTY_{index}]"
        for index, token in enumerate(metadata.texts("tokenizer.ggml.tokens"))
    ]
    kinds = metadata.numbers("tokenizer.ggml.token_type")
    always: list[tuple[str, int]] = []
    control: list[tuple[str, int]] = []
    for token_id, (token, kind) in enumerate(zip(tokens, kinds, strict=False)):
        if ALWAYS_CONTROL.fullmatch(token) or kind in (UNKNOWN, CONTROL):
            control.append((token, token_id))
        elif kind == USER_DEFINED:
            always.append((token, token_id))
    return Tokenizer(_encoder(metadata, tokens), always, control)


def _encoder(metadata: GgufMetadata, tokens: Sequence[str]) -> _Encode:
    match metadata.text("tokenizer.ggml.model"):
        case "gpt2":
            pre = metadata.text("tokenizer.ggml.pre") or "default"
            return BytePairEncoder(pre, tokens, metadata.texts("tokenizer.ggml.merges")).encode
        case "llama":
            prefix = metadata.flag("tokenizer.ggml.add_space_prefix")
            return SentencePieceEncoder(
                tokens,
                metadata.numbers("tokenizer.ggml.scores"),
                add_space_prefix=prefix is None or prefix,
            ).encode
        case other:
            raise MissingCapabilityError(f"no exact tokenizer is known for a {other!r} vocabulary")


def _cutter(special: Sequence[tuple[str, int]]) -> Callable[[str], Iterator[str | int]]:
    """Cuts a text at special tokens, the longest first wherever it stands in the text."""
    longest_first = sorted(special, key=lambda entry: -len(entry[0].encode("utf-8", "replace")))
    any_of = re.compile("|".join(re.escape(token) for token, _ in longest_first) or r"(?!)")

    def cut(text: str) -> Iterator[str | int]:
        parts: list[str | int] = [text]
        # Few of the thousands of tokens that some models have occur in one text.
        if any_of.search(text):
            for token, token_id in longest_first:
                if token in text:
                    parts = [piece for part in parts for piece in _split(part, token, token_id)]
        return (part for part in parts if part != "")

    return cut


def _split(part: str | int, token: str, token_id: int) -> Iterator[str | int]:
    if isinstance(part, int):
        yield part
        return
    before, *others = part.split(token)
    yield before
    for other in others:
        yield token_id
        yield other

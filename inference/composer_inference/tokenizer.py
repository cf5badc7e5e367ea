"""A model's tokenizer, built from the vocabulary in its GGUF file.

xllamacpp offers no tokeniser, so the `tokenizers` library gets the same vocabulary, merges and
pre-tokeniser as llama.cpp uses (src/llama-vocab.cpp, `llm_tokenizer_bpe`).
"""

from typing import Any, cast

from tokenizers import AddedToken, Regex, decoders, models, pre_tokenizers
from tokenizers import Tokenizer as HuggingFaceTokenizer

from composer_inference.backends.base import MissingCapabilityError
from composer_inference.gguf import GgufMetadata

_WORDS = (
    r"(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])|[^\r\n\p{L}\p{N}]?\p{L}+"
    r"|\p{N}%s| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
_GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)"

_PATTERNS: dict[str, tuple[str, ...]] = {
    "qwen2": (_WORDS % "",),
    "deepseek-r1-qwen": (_WORDS % "",),
    "llama-bpe": (_WORDS % "{1,3}",),
    "llama3": (_WORDS % "{1,3}",),
    "gpt-2": (_GPT2,),
    "default": (_GPT2,),
    "smollm": (r"\p{N}", _GPT2),
    "starcoder": (r"\p{N}", _GPT2),
    "refact": (r"\p{N}", _GPT2),
    "codeshell": (r"\p{N}", _GPT2),
    "command-r": (r"\p{N}", _GPT2),
}
"""Regular expressions that cut a text before merges, by `tokenizer.ggml.pre`."""

_SPECIAL_KINDS = frozenset({3, 4})
"""Control and user-defined tokens of `tokenizer.ggml.token_type`."""


class Tokenizer:
    def __init__(self, plain: HuggingFaceTokenizer, special: HuggingFaceTokenizer) -> None:
        self._plain = plain
        self._special = special

    def encode(self, text: str, *, special: bool = True) -> list[int]:
        """Token ids; `special` recognises control tokens that are written in the text."""
        tokenizer = self._special if special else self._plain
        return tokenizer.encode(text, add_special_tokens=False).ids

    def decode(self, token_ids: list[int]) -> str:
        return self._special.decode(token_ids, skip_special_tokens=False)


def build_tokenizer(metadata: GgufMetadata) -> Tokenizer:
    """Raises: MissingCapabilityError for a kind of vocabulary that is not known to be exact."""
    kind = metadata.values.get("tokenizer.ggml.model")
    pre = str(metadata.values.get("tokenizer.ggml.pre", "default"))
    if kind != "gpt2" or pre not in _PATTERNS:
        raise MissingCapabilityError(
            f"no exact tokenizer is known for the vocabulary {kind!r} with pre-tokenizer {pre!r}"
        )
    return Tokenizer(
        _bpe(metadata.values, _PATTERNS[pre], with_special=False),
        _bpe(metadata.values, _PATTERNS[pre], with_special=True),
    )


def _bpe(values: Any, patterns: tuple[str, ...], *, with_special: bool) -> HuggingFaceTokenizer:
    tokens: list[str] = values["tokenizer.ggml.tokens"]
    merges = [tuple(merge.split(" ", 1)) for merge in values["tokenizer.ggml.merges"]]
    vocabulary = {token: index for index, token in enumerate(tokens)}
    tokenizer = HuggingFaceTokenizer(
        models.BPE(vocab=vocabulary, merges=merges, ignore_merges=False)
    )
    cuts: list[Any] = [
        pre_tokenizers.Split(Regex(pattern), behavior="isolated") for pattern in patterns
    ]
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [*cuts, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]
    )
    tokenizer.decoder = decoders.ByteLevel()
    if with_special:
        kinds: list[int] = values.get("tokenizer.ggml.token_type", [])
        cast(Any, tokenizer).add_special_tokens(
            [
                AddedToken(token, special=True, normalized=False)
                for token, kind in zip(tokens, kinds, strict=False)
                if kind in _SPECIAL_KINDS
            ]
        )
    return tokenizer

"""Byte-level byte-pair encoding as llama.cpp does it, by the `tokenizers` library.

Source: llama.cpp, src/llama-vocab.cpp (`llm_tokenizer_bpe`) and src/unicode.cpp. llama.cpp cuts a
text by each regular expression in turn, and so does a sequence of isolating splits.
"""

from collections.abc import Sequence
from typing import Any

from tokenizers import Regex, Tokenizer, models, pre_tokenizers

from composer_inference.backends.base import MissingCapabilityError

_CONTRACTIONS = r"(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])"
_LINES_AND_SPACES = r"\s*[\r\n]+|\s+(?!\S)|\s+"
_LLAMA3 = (
    rf"{_CONTRACTIONS}|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|\p{{N}}{{1,3}}"
    rf"| ?[^\s\p{{L}}\p{{N}}]+[\r\n]*|{_LINES_AND_SPACES}"
)
_QWEN2 = _LLAMA3.replace("{1,3}", "")
_QWEN35 = (
    rf"{_CONTRACTIONS}|[^\r\n\p{{L}}\p{{N}}]?[\p{{L}}\p{{M}}]+|\p{{N}}"
    rf"| ?[^\s\p{{L}}\p{{M}}\p{{N}}]+[\r\n]*|{_LINES_AND_SPACES}"
)
_SEED_CODER = (
    rf"{_CONTRACTIONS}|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|\p{{N}}"
    rf"| ?[^\s\p{{L}}\p{{N}}\r\n]+|{_LINES_AND_SPACES}"
)
_GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
_CJK = r"[一-龥ࠀ-一가-퟿&&\S]+"
"""The second range holds wide spaces, which llama.cpp has replaced by a vertical tab before."""

PATTERNS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("llama-bpe", "llama3", "llama-v3", "glm4", "chatglm-bpe"), (_LLAMA3,)),
    **dict.fromkeys(("qwen2", "deepseek-r1-qwen", "megrez", "stablelm2"), (_QWEN2,)),
    **dict.fromkeys(("gpt-2", "phi-2", "mellum", "olmo"), (_GPT2,)),
    **dict.fromkeys(
        ("smollm", "starcoder", "refact", "command-r", "codeshell", "mellum2"), (r"\p{N}", _GPT2)
    ),
    "qwen35": (_QWEN35,),
    "seed-coder": (_SEED_CODER,),
    "deepseek-coder": (r"[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", _CJK, r"\p{N}"),
}
"""Regular expressions that cut a text, by `tokenizer.ggml.pre`: those whose ids were compared with
llama.cpp's own."""

_WHOLE_WORDS_FIRST = frozenset({"llama-bpe", "llama3", "llama-v3"})
"""Pre-tokenizers of models that take a word of their vocabulary as it stands, merges or not."""


class BytePairEncoder:
    """Raises: MissingCapabilityError if the vocabulary cannot be encoded exactly."""

    def __init__(self, pre: str, tokens: Sequence[str], merges: Sequence[str]) -> None:
        if pre not in PATTERNS:
            raise MissingCapabilityError(
                f"no exact tokenizer is known for the pre-tokenizer {pre!r}; those known are: "
                + ", ".join(sorted(PATTERNS))
            )
        vocabulary = {token: token_id for token_id, token in enumerate(tokens)}
        self._num_tokens = len(vocabulary)
        # llama.cpp leaves out bytes that have no token, after the merges: they get ids here that
        # are dropped from the result. Left out before, they would let their neighbours merge.
        for character in sorted(pre_tokenizers.ByteLevel.alphabet()):
            vocabulary.setdefault(character, len(vocabulary))
        self._tokenizer = byte_level_tokenizer(pre, vocabulary, merges)

    def encode(self, text: str, *, after_special: bool = False) -> list[int]:
        """`after_special` changes nothing: a byte-level vocabulary adds no spaces."""
        ids = self._tokenizer.encode(text, add_special_tokens=False).ids
        return [token_id for token_id in ids if token_id < self._num_tokens]


def byte_level_tokenizer(pre: str, vocabulary: dict[str, int], merges: Sequence[str]) -> Tokenizer:
    """Without special tokens. `pre`: one of `PATTERNS`.

    Raises: MissingCapabilityError for merges that are not of this vocabulary.
    """
    pairs = [_pair(merge) for merge in merges]
    try:
        model = models.BPE(vocab=vocabulary, merges=pairs, ignore_merges=pre in _WHOLE_WORDS_FIRST)
    except Exception as error:  # `tokenizers` raises bare exceptions from Rust.
        raise MissingCapabilityError(f"the vocabulary's merges are not usable: {error}") from error
    tokenizer: Any = Tokenizer(model)
    cuts = [pre_tokenizers.Split(Regex(pattern), behavior="isolated") for pattern in PATTERNS[pre]]
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [*cuts, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]
    )
    return tokenizer


def _pair(merge: str) -> tuple[str, str]:
    # A piece may itself begin with a space in odd vocabularies, but never holds one later.
    at = merge.find(" ", 1)
    return merge[:at], merge[at + 1 :]

"""Which tokens may come next, so that the whole text is of a JSON schema or a grammar.

llguidance reads the text so far and says which tokens can follow. Dimension V: the vocabulary.
"""

import json
import threading
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, Protocol

import numpy as np
import torch
from jaxtyping import Bool
from llguidance import LLMatcher, LLParserLimits, LLTokenizer, TokenizerWrapper
from numpy.typing import NDArray
from torch import Tensor

from composer_inference.backends.base import RejectedRequestError
from composer_inference.sampling.gbnf import lark_of
from composer_inference.sampling.vocabulary import Vocabulary

LIMITS = LLParserLimits(
    initial_lexer_fuel=1_000_000,
    step_lexer_fuel=50_000,
    step_max_items=50_000,
    max_items_in_row=2_000,
    max_lexer_states=50_000,
    max_grammar_size=200_000,
    # Its details are of the parser, and long.
    verbose_errors=False,
)
"""Some 100 MB and half a second at most. Above, a request is rejected."""

_WHITESPACE = r"( |\n{1,2}[ \t]{0,20})"
"""Between JSON's tokens, as in llama.cpp's grammars: small models else write blanks without end."""


class Constraint(Protocol):
    @property
    def is_complete(self) -> bool:
        """Whether the text is whole, and nothing but its end may follow."""
        ...

    def mask(self) -> Bool[Tensor, " V"]:
        """True for the tokens that may follow, on the CPU; those that end the text only where it may
        end. Where the text is forced, they are those that the tokenizer would write it with.

        Raises: RejectedRequestError if the grammar is too complex to tell.
        """
        ...

    def advance(self, token_id: int) -> None:
        """Takes a token that the mask allows; any other is an error of the caller's.

        Raises: RejectedRequestError as `mask`.
        """
        ...


class GrammarConstraint:
    """A `Constraint` of one request."""

    def __init__(self, matcher: LLMatcher, eos_ids: frozenset[int], vocab_size: int) -> None:
        self._matcher = matcher
        self._eos_ids = eos_ids
        self._vocab_size = vocab_size
        self._has_ended = False
        """Whether a token that ends the text was taken; llguidance takes none behind a whole text."""

    @property
    def is_complete(self) -> bool:
        stopped = self._matcher.is_stopped() and self._matcher.is_accepting()
        return self._has_ended or (stopped and not self._matcher.is_error())

    def mask(self) -> Bool[Tensor, " V"]:
        bits = np.frombuffer(self._bits(), dtype=np.uint8)
        allowed = np.unpackbits(bits, count=self._vocab_size, bitorder="little")
        return _tensor(allowed).view(torch.bool)

    def advance(self, token_id: int) -> None:
        if token_id in self._eos_ids:
            assert self._has_ended or self._matcher.is_accepting(), "the text may not end here"
            self._has_ended = True
            return
        is_taken = not self._has_ended and self._matcher.try_consume_tokens([token_id]) == 1
        _check(self._matcher)
        assert is_taken, f"token {token_id} is not allowed here"

    def _bits(self) -> bytes:
        if self._has_ended:
            allowed = np.zeros(-(-self._vocab_size // 32) * 32, dtype=np.uint8)
            allowed[list(self._eos_ids)] = 1
            return np.packbits(allowed, bitorder="little").tobytes()
        bits = self._matcher.compute_bitmask()
        # After an error the mask would allow the end, whatever the text is.
        _check(self._matcher)
        return bits


class ConstraintFactory:
    """Of one vocabulary. What llguidance must know of it is built for the first constraint, in a second
    or two for 150,000 tokens. Threads may share it."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._vocabulary = vocabulary
        self._lock = threading.Lock()

    def json_schema(self, schema: Mapping[str, Any]) -> GrammarConstraint:
        """Raises: RejectedRequestError for a schema that is malformed, cannot be met or enforced, or is
        too complex."""
        return self._constraint(
            LLMatcher.grammar_from_json_schema(
                json.dumps(schema), overrides={"whitespace_pattern": _WHITESPACE}
            )
        )

    def gbnf(self, grammar: str) -> GrammarConstraint:
        """Raises: RejectedRequestError for a grammar that is malformed or too complex."""
        try:
            lark = lark_of(grammar)
        except ValueError as error:
            raise RejectedRequestError(f"the grammar cannot be read: {error}") from error
        return self._constraint(LLMatcher.grammar_from_lark(lark))

    def _constraint(self, grammar: str) -> GrammarConstraint:
        with self._lock:
            tokenizer = self._tokenizer
        matcher = LLMatcher(tokenizer, grammar, log_level=0, limits=LIMITS)
        constraint = GrammarConstraint(matcher, self._vocabulary.eos_ids, self._vocabulary.size)
        # What is malformed, or too complex from the first token on, is rejected here.
        constraint.mask()
        return constraint

    @cached_property
    def _tokenizer(self) -> LLTokenizer:
        if not self._vocabulary.eos_ids:
            raise RejectedRequestError("the model has no token that ends a text, so no grammar")
        ends = sorted(self._vocabulary.eos_ids)
        return LLTokenizer(TokenizerWrapper(_Tokens(self._vocabulary)), eos_token=ends)


class _Tokens:
    """A vocabulary as llguidance's `TokenizerWrapper` wants it."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self.special_token_ids = sorted(vocabulary.eos_ids)
        self.eos_token_id = self.special_token_ids[0]
        self.bos_token_id = None
        self.tokens = [vocabulary.token_bytes(token_id) for token_id in range(vocabulary.size)]
        for token_id in self.special_token_ids:
            self.tokens[token_id] = vocabulary.token_text(token_id).encode()
        self._encode = vocabulary.encode

    def __call__(self, text: str | bytes) -> Sequence[int]:
        if isinstance(text, bytes):
            raise TypeError("texts are tokenised, not bytes")
        return self._encode(text, special=False)


def _tensor(array: NDArray[Any]) -> Tensor:
    return torch.from_numpy(array)  # pyright: ignore[reportUnknownMemberType]


def _check(matcher: LLMatcher) -> None:
    if matcher.is_error():
        reason = matcher.get_error().removesuffix("<non-verbose/>").strip()
        raise RejectedRequestError(f"the text cannot be constrained: {reason}")

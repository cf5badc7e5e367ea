"""Drafts by a smaller model of the same vocabulary: what it would say, a token at a time.

It pays where the larger model verifies several tokens in hardly more time than one takes it, as on a GPU.
Everything here belongs to the loop's thread.
"""

import logging
import time
from collections.abc import Sequence
from math import prod
from pathlib import Path

import torch
from torch import Tensor

from composer_inference.backends.base import BackendError
from composer_inference.batching.pace import STEP_S, Pace
from composer_inference.decoder.batch import Batch, Span
from composer_inference.decoder.config import ConfigReader
from composer_inference.decoder.graphs import DecodeGraphs
from composer_inference.decoder.model import Decoder
from composer_inference.kv.pool import KVPool
from composer_inference.kv.prefix_cache import Lease, OutOfBlocksError, PrefixCache
from composer_inference.sampling.vocabulary import Vocabulary, read_vocabulary
from composer_inference.weights.checkpoint import Checkpoint
from composer_inference.weights.loading import load_decoder
from composer_inference.weights.open import open_checkpoint

logger = logging.getLogger(__name__)

_FIRST_TOKENS = 4
_MAX_TOKENS = 12
_LEAST_PROBABILITY = 0.4
"""Of a token by the smaller model, for it and what follows to be worth verifying."""
_FIRST_CATCH_UP_TOKENS = 64


class DraftModel:
    """The smaller decoder with its own memory, for all requests."""

    def __init__(
        self,
        decoder: Decoder,
        pool: KVPool,
        vocabulary: Vocabulary,
        *,
        graphs: DecodeGraphs | None = None,
        draft_s: float = STEP_S,
    ) -> None:
        """`vocabulary`: the larger model's. `draft_s`: what drafts may take between two of its steps, for
        all requests together."""
        self.decoder = decoder
        self.pool = pool
        self.cache = PrefixCache(num_blocks=pool.num_blocks, block_size=pool.block_size)
        self.eos_ids = frozenset(vocabulary.eos_ids)
        self.num_tokens = min(vocabulary.size, decoder.config.vocab_size)
        """Ids that both models have."""
        self.draft_s = draft_s
        self.spent_s = 0.0
        """Since the larger model's last step."""
        self._graphs = graphs
        self.pace = Pace(_FIRST_CATCH_UP_TOKENS)
        """Of texts that the model catches up with, between two steps of the larger one."""
        self.is_broken = False

    def begin_step(self) -> None:
        """Drafts for the larger model's next step begin."""
        self.spent_s = 0.0

    @property
    def has_time(self) -> bool:
        return self.spent_s <= self.draft_s

    @property
    def weights_bytes(self) -> int:
        return self.decoder.num_bytes

    def best(self, token_ids: Sequence[int], num_cached: int, lease: Lease) -> tuple[int, float]:
        """Computes tokens behind those that the lease holds; the likeliest next one, and how likely."""
        began = time.monotonic()
        span = Span(token_ids=token_ids, num_cached=num_cached, blocks=lease.blocks)
        with torch.inference_mode():
            logits_RV = self._logits(span)[:, : self.num_tokens]
            best, place = logits_RV[-1].softmax(-1).max(-1)
        probability, token_id = float(best), int(place)
        self.spent_s += time.monotonic() - began
        return token_id, probability

    def _logits(self, span: Span) -> Tensor:
        """[R, V]"""
        if self._graphs is not None and self._graphs.covers([span]):
            return self._graphs.forward([span])
        batch = Batch.of([span], block_size=self.pool.block_size, device=self.pool.device)
        return self.decoder(batch, self.pool)


class ModelDrafter:
    """Implements `Drafter` for one request."""

    def __init__(self, model: DraftModel, prompt_ids: Sequence[int]) -> None:
        self._model = model
        self._tokens = list(prompt_ids)
        self._draft: list[int] = []
        self._lease: Lease | None = None
        self._num_computed: int = 0
        """Tokens of the text whose keys and values the smaller model has."""
        self._num_wanted = _FIRST_TOKENS

    def propose(self, max_tokens: int) -> list[int]:
        """Nothing while its model has not caught up with the text, and where its memory or the time for
        drafts is used up."""
        self._draft = []
        if self._model.is_broken or not self._model.has_time or max_tokens < 1:
            return []
        try:
            self._draft = self._proposed(min(max_tokens, self._num_wanted))
        except OutOfBlocksError:
            self.release()
        except (RuntimeError, MemoryError):
            # The text does not depend on it.
            logger.exception("the draft model failed; nothing is drafted by it any more")
            self._model.is_broken = True
            self.release()
        return self._draft

    def observe(self, token_ids: Sequence[int]) -> None:
        num_right = _num_equal(self._draft, token_ids)
        self._num_computed = min(self._num_computed, len(self._tokens) + num_right)
        if self._draft:
            is_right = num_right == len(self._draft)
            wanted = self._num_wanted + 2 if is_right else num_right + 1
            self._num_wanted = min(max(wanted, 1), _MAX_TOKENS)
        self._tokens += token_ids
        self._draft = []

    def release(self) -> None:
        if self._lease is not None:
            self._lease.release()
            self._lease = None
        self._num_computed = 0

    def _proposed(self, max_tokens: int) -> list[int]:
        """Raises: OutOfBlocksError, RuntimeError, MemoryError."""
        model, tokens = self._model, self._tokens
        if len(tokens) + max_tokens > model.decoder.config.max_positions:
            return []
        if max(tokens[self._num_computed :], default=0) >= model.num_tokens:
            return []
        if self._lease is None:
            self._lease = model.cache.acquire(tokens)
            self._num_computed = self._lease.num_cached
        lease = self._lease
        lease.reserve(len(tokens) + max_tokens)
        spent_s = model.spent_s
        end = min(len(tokens), self._num_computed + model.pace.num_tokens)
        new_ids = tokens[self._num_computed : end]
        token_id, probability = model.best(new_ids, self._num_computed, lease)
        self._num_computed = end
        model.pace.observe(len(new_ids), model.spent_s - spent_s)
        lease.commit(tokens[:end])
        if end < len(tokens):
            return []
        draft: list[int] = []
        while probability >= _LEAST_PROBABILITY and token_id not in model.eos_ids:
            draft.append(token_id)
            if len(draft) == max_tokens or not model.has_time:
                break
            token_id, probability = model.best([token_id], self._num_computed, lease)
            self._num_computed += 1
        return draft


def load_draft_decoder(
    path: Path,
    vocabulary: Vocabulary,
    larger: Checkpoint,
    *,
    dtype: torch.dtype,
    device: torch.device,
) -> Decoder:
    """`vocabulary`: of the larger model.

    Raises: BackendError for files that cannot be used, of another vocabulary, or of a model that is
        larger than the one that it is to draft for.
    """
    try:
        checkpoint = open_checkpoint(path)
        num_embeddings = ConfigReader(checkpoint.config).integer("vocab_size")
        smaller_vocabulary = read_vocabulary(path, num_embeddings=num_embeddings)
        _check_same(path, smaller_vocabulary, vocabulary)
        _check_smaller(path, checkpoint, larger)
        return load_decoder(checkpoint, dtype=dtype, device=device)
    except BackendError as error:
        raise BackendError(f"the draft model: {error}") from error


def _check_smaller(path: Path, checkpoint: Checkpoint, larger: Checkpoint) -> None:
    num_weights, num_others = (
        sum(prod(shape) for shape in each.shapes.values()) for each in (checkpoint, larger)
    )
    if num_weights > num_others:
        raise BackendError(
            f"{path} has {num_weights:,} weights, and the model that it is to draft for {num_others:,};"
            " take a smaller one"
        )


def _check_same(path: Path, smaller: Vocabulary, larger: Vocabulary) -> None:
    for token_id in range(min(smaller.size, larger.size)):
        one, other = smaller.token_text(token_id), larger.token_text(token_id)
        if one != other:
            raise BackendError(
                f"{path} cannot draft for this model: its token {token_id} is {one!r}, and here that is"
                f" {other!r}; take a smaller model of the same family"
            )


def _num_equal(one: Sequence[int], other: Sequence[int]) -> int:
    for place, (left, right) in enumerate(zip(one, other, strict=False)):
        if left != right:
            return place
    return min(len(one), len(other))

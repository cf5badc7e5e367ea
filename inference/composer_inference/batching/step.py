"""One step: the model over a batch, and for each sequence the tokens that its logits give.

A drafted token is never trusted: the sampler draws at each position as if there were no draft, and the
next drafted position counts only if what it drew is what was drafted. So the text is the same as
without drafts, token for token, also with a temperature (its randomness is keyed by the position).
"""

from collections.abc import Sequence as Items
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

import torch
from torch import Tensor

from composer_inference.backends.base import (
    BackendError,
    FinishReason,
    GenerateChunk,
    TokenLogprob,
)
from composer_inference.batching.batcher import Work
from composer_inference.batching.followers import Followers
from composer_inference.batching.sequence import Sequence
from composer_inference.decoder.batch import Batch, Span
from composer_inference.decoder.graphs import DecodeGraphs
from composer_inference.decoder.model import Decoder
from composer_inference.kv.pool import KVPool
from composer_inference.kv.prefix_cache import PrefixCache
from composer_inference.sampling.sampler import Sampled, greedy
from composer_inference.sampling.vocabulary import Vocabulary
from composer_inference.weights.checkpoint import Checkpoint
from composer_inference.weights.loading import reload_decoder


@dataclass(slots=True)
class StepCounts:
    """Of all steps so far."""

    num_steps: int = 0
    num_tokens: int = 0
    """Computed."""
    num_drafted: int = 0
    num_draft_accepted: int = 0


class Stepper:
    """Computes with one model and its pool."""

    def __init__(
        self,
        decoder: Decoder,
        pool: KVPool,
        vocabulary: Vocabulary,
        followers: Followers | None = None,
        graphs: DecodeGraphs | None = None,
    ) -> None:
        """`followers`: the processes that compute the decoder's other parts. `graphs`: of a decoder
        without such."""
        self.decoder = decoder
        self.pool = pool
        self.counts = StepCounts()
        self.weights_version = 0
        self._vocabulary = vocabulary
        self._eos_ids = frozenset(vocabulary.eos_ids)
        self._followers = followers
        self._graphs = graphs

    def run(self, works: Items[Work]) -> list[GenerateChunk | BackendError]:
        """A chunk for each work, in order, or why its sequence cannot go on; those with a finish
        reason are the sequences' last.

        Raises: FollowersError where another rank has failed: no further step can be computed.
        """
        spans = tuple(work.span for work in works)
        self.counts.num_steps += 1
        self.counts.num_tokens += sum(len(span.token_ids) for span in spans)
        choices: list[Tensor] = []
        wanted = any(work.sequence.router_choices is not None for work in works)
        with self._computing_along(spans), torch.inference_mode():
            logits_RV = self._logits(spans, choices if wanted else None)
            best_R = greedy(logits_RV)
        if choices:
            _keep_choices(works, torch.stack(choices, dim=1))
        chunks: list[GenerateChunk | BackendError] = []
        row = 0
        for work in works:
            rows = slice(row, row + work.num_logits)
            try:
                chunks.append(self._advanced(work, logits_RV[rows], best_R[rows]))
            except BackendError as error:
                chunks.append(error)
            row = rows.stop
        return chunks

    def reload(self, checkpoint: Checkpoint, cache: PrefixCache) -> int:
        """Other weights in place of these; what was cached of them is forgotten. Between two steps,
        while nothing runs. Returns the new version.

        Raises: CheckpointError, and the old weights are in place then; MixedWeightsError.
        """
        try:
            reload_decoder(self.decoder, checkpoint)
        finally:
            if self._graphs is not None:
                self._graphs.weights_changed()
        cache.clear()
        self.weights_version += 1
        return self.weights_version

    def _computing_along(self, spans: tuple[Span, ...]) -> AbstractContextManager[None]:
        return nullcontext() if self._followers is None else self._followers.computing(spans)

    def _logits(self, spans: tuple[Span, ...], router_choices: list[Tensor] | None) -> Tensor:
        """[R, V]"""
        if self._graphs is not None and self._graphs.covers(spans):
            return self._graphs.forward(spans, router_choices=router_choices)
        batch = Batch.of(spans, block_size=self.pool.block_size, device=self.pool.device)
        return self.decoder(batch, self.pool, router_choices=router_choices)

    def _advanced(self, work: Work, logits_RV: Tensor, best_R: list[int | None]) -> GenerateChunk:
        """Raises: BackendError."""
        sequence = work.sequence
        assert sequence.lease is not None
        sampled = self._sampled(work, logits_RV, best_R)
        num_accepted = max(0, len(sampled) - 1)
        self.counts.num_drafted += len(work.draft)
        self.counts.num_draft_accepted += num_accepted
        sequence.num_drafted += len(work.draft)
        sequence.num_draft_accepted += num_accepted
        num_before = sequence.num_computed
        sequence.num_computed += work.num_tokens + num_accepted
        sequence.clock.computed(min(sequence.num_computed, sequence.num_prompt_tokens))
        size = self.pool.block_size
        if num_before // size < sequence.num_computed // size:
            sequence.lease.commit(sequence.tokens[: sequence.num_computed])
        if sampled:
            sequence.clock.decodes()
            if sequence.drafter is not None:
                sequence.drafter.observe([each.token_id for each in sampled])
        # The last token that was decoded is not computed yet.
        num_known = len(sequence.tokens) - (sequence.num_decoded > 0)
        return self._chunk(sequence, sampled, is_prompt_done=sequence.num_computed >= num_known)

    def _sampled(self, work: Work, logits_RV: Tensor, best_R: list[int | None]) -> list[Sampled]:
        """The tokens that follow, which the sequence has then."""
        sequence = work.sequence
        sampled: list[Sampled] = []
        for place, (logits_V, best) in enumerate(zip(logits_RV, best_R, strict=True)):
            constraint = sequence.constraint
            if best is not None and sequence.sampler.is_plain_greedy and constraint is None:
                drawn = Sampled(token_id=best)
            else:
                mask = None if constraint is None else constraint.mask()
                drawn = sequence.sampler.sample(logits_V, len(sequence.tokens), mask)
            sampled.append(drawn)
            sequence.tokens.append(drawn.token_id)
            if constraint is not None:
                constraint.advance(drawn.token_id)
            if self._is_end(sequence, drawn.token_id):
                break
            if place == len(work.draft) or work.draft[place] != drawn.token_id:
                break
        return sampled

    def _is_end(self, sequence: Sequence, token_id: int) -> bool:
        ends = token_id in self._eos_ids and not sequence.request.sampling.ignore_eos
        return ends or sequence.max_new_tokens == 0 or self._is_complete(sequence)

    def _is_complete(self, sequence: Sequence) -> bool:
        return sequence.constraint is not None and sequence.constraint.is_complete

    def _chunk(
        self, sequence: Sequence, sampled: list[Sampled], *, is_prompt_done: bool
    ) -> GenerateChunk:
        text = ""
        reason: FinishReason | None = None
        shown: list[Sampled] = []
        for each in sampled:
            if each.token_id in self._eos_ids and not sequence.request.sampling.ignore_eos:
                shown.append(each)
                reason = "stop"
                break
            text += sequence.text.push(each.token_id)
            shown.append(each)
            if sequence.text.stopped:
                reason = "stop"
                break
        if reason is None and sampled and self._is_complete(sequence):
            reason = "stop"
        if reason is None and is_prompt_done and sequence.max_new_tokens <= 0:
            reason = "length"
        if reason is not None:
            text += "" if sequence.text.stopped else sequence.text.finish()
            # Drafts may have been right beyond the end.
            del sequence.tokens[len(sequence.tokens) - (len(sampled) - len(shown)) :]
        return GenerateChunk(
            text=text,
            token_ids=tuple(each.token_id for each in shown),
            logprobs=tuple(self._logprob(each) for each in shown if each.logprob is not None),
            finish_reason=reason,
            timings=sequence.timings,
            weights_version=self.weights_version,
            router_choices=None if reason is None else _choices(sequence),
        )

    def _logprob(self, sampled: Sampled) -> TokenLogprob:
        assert sampled.logprob is not None
        text = self._vocabulary.token_text
        return TokenLogprob(
            token=text(sampled.token_id),
            token_id=sampled.token_id,
            logprob=sampled.logprob,
            top=tuple((text(token_id), logprob) for token_id, logprob in sampled.top),
        )


def _keep_choices(works: Items[Work], choices_TLK: Tensor) -> None:
    """Also of drafts that turn out wrong: the tokens in their places are computed later."""
    start = 0
    for work in works:
        span = work.span
        end = start + len(span.token_ids)
        if (kept := work.sequence.router_choices) is not None:
            kept.add(span.num_cached, choices_TLK[start:end])
        start = end


def _choices(sequence: Sequence) -> list[list[list[int]]] | None:
    if sequence.router_choices is None:
        return None
    # The last decoded token is computed only if it was drafted.
    num_tokens = len(sequence.tokens) - (sequence.num_decoded > 0)
    return sequence.router_choices.lists(num_tokens)

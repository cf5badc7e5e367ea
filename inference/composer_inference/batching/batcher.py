"""Who computes in the next step, and how much: continuous batching in order of priority.

A step holds, of the most urgent priority that has work, one token of each sequence that decodes, with
drafts to be verified, and then parts of prompts, as many tokens as the step has room for. Less
urgent sequences decode along where that costs the urgent ones little (`decodes_along`), else they
stand still between two steps and keep their cache. Memory is given in the same order: a sequence for
which there is none takes it from the least urgent, latest one, which waits and is computed anew, from
the cache as far as that has kept it. No tensor is touched here.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from composer_inference.batching.sequence import Sequence
from composer_inference.decoder.batch import Span
from composer_inference.kv.prefix_cache import Lease, OutOfBlocksError, PrefixCache


@dataclass(frozen=True, kw_only=True, slots=True)
class BatchLimits:
    max_sequences: int
    """That hold cache at a time."""
    max_draft_tokens: int = 64
    """Verified in one step; 0 drafts nothing."""
    decodes_along: bool = False
    """Whether less urgent sequences decode in the steps of more urgent ones. On a GPU that costs next
    to nothing; on a CPU the urgent ones would feel it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Work:
    """One sequence's part of a step."""

    sequence: Sequence
    num_tokens: int
    """Of the sequence's own tokens."""
    draft: tuple[int, ...] = ()
    """Tokens that may follow them."""

    @property
    def num_logits(self) -> int:
        ends = self.sequence.num_computed + self.num_tokens == len(self.sequence.tokens)
        return 1 + len(self.draft) if ends and self.sequence.max_new_tokens > 0 else 0

    @property
    def span(self) -> Span:
        sequence = self.sequence
        assert sequence.lease is not None
        end = sequence.num_computed + self.num_tokens
        return Span(
            token_ids=[*sequence.tokens[sequence.num_computed : end], *self.draft],
            num_cached=sequence.num_computed,
            blocks=sequence.lease.blocks,
            num_logits=self.num_logits,
        )


class StepDrafts(Protocol):
    """What drafts for all sequences."""

    def begin_step(self) -> None:
        """Drafts for the next step begin."""
        ...


class Batcher:
    def __init__(
        self, cache: PrefixCache, limits: BatchLimits, drafts: StepDrafts | None = None
    ) -> None:
        """`drafts`: what the sequences' drafters share, if they do."""
        self._cache = cache
        self._limits = limits
        self._drafts = drafts
        self._waiting: list[Sequence] = []
        self._running: list[Sequence] = []
        self.is_admitting = True
        """False: what waits goes on waiting, and what runs ends."""

    @property
    def num_waiting(self) -> int:
        return len(self._waiting)

    @property
    def running(self) -> tuple[Sequence, ...]:
        return tuple(self._running)

    @property
    def sequences(self) -> tuple[Sequence, ...]:
        return (*self._running, *self._waiting)

    def add(self, sequence: Sequence) -> None:
        self._waiting.append(sequence)

    def remove(self, sequence: Sequence) -> None:
        """Frees what it holds."""
        for group in (self._waiting, self._running):
            if sequence in group:
                group.remove(sequence)
        sequence.release()

    def plan(self, max_tokens: int) -> list[Work]:
        """The next step; empty if nothing can be computed now. Of prompts it has parts until there
        are `max_tokens` with what is decoded."""
        self._admit()
        if not self._running:
            return []
        most_urgent = max(sequence.priority for sequence in self._running)
        works: list[Work] = []
        if self._drafts is not None:
            self._drafts.begin_step()
        # Decoding first: a long prompt must not hold back those who are read.
        room = self._limits.max_draft_tokens
        for sequence in self._in_order():
            is_urgent = sequence.priority == most_urgent
            if sequence.is_prefilling or not (is_urgent or self._limits.decodes_along):
                continue
            if sequence not in self._running:
                continue  # Pre-empted by one before it.
            work = self._decoding(sequence, room if is_urgent else 0, works)
            if work is not None:
                works.append(work)
                room -= len(work.draft)
        room = max_tokens - sum(work.num_tokens + len(work.draft) for work in works)
        for sequence in self._in_order():
            if room > 0 and sequence.is_prefilling and sequence.priority == most_urgent:
                num_left = len(sequence.tokens) - sequence.num_computed
                works.append(Work(sequence=sequence, num_tokens=min(room, num_left)))
                room -= works[-1].num_tokens
        return works

    def _in_order(self) -> list[Sequence]:
        return sorted(self._running, key=_urgency)

    def _decoding(self, sequence: Sequence, room: int, planned: Iterable[Work]) -> Work | None:
        """`room`: tokens that may be drafted."""
        lease = sequence.lease
        assert lease is not None
        num_tokens = len(sequence.tokens)
        draft: list[int] = []
        # The token after the last drafted one is sampled too.
        room = min(room, sequence.max_new_tokens - 1)
        if room > 0 and sequence.drafter is not None:
            draft = sequence.drafter.propose(room)
        try:
            lease.reserve(num_tokens + len(draft))
        except OutOfBlocksError:
            draft = []
            if not self._reserve(sequence, lease, num_tokens, planned):
                return None
        return Work(sequence=sequence, num_tokens=1, draft=tuple(draft))

    def _reserve(
        self, sequence: Sequence, lease: Lease, num_tokens: int, planned: Iterable[Work]
    ) -> bool:
        """Memory for its tokens, if need be another's; False: it waits itself now."""
        untouchable = {id(work.sequence) for work in planned}
        while True:
            try:
                lease.reserve(num_tokens)
                return True
            except OutOfBlocksError:
                others = [
                    other
                    for other in self._running
                    if id(other) not in untouchable and _urgency(other) > _urgency(sequence)
                ]
                if others:
                    self._preempt(max(others, key=_urgency))
                    continue
                self._preempt(sequence)
                return False

    def _preempt(self, sequence: Sequence) -> None:
        sequence.release()
        sequence.clock.num_preemptions += 1
        sequence.clock.queued()
        self._running.remove(sequence)
        self._waiting.append(sequence)

    def _admit(self) -> None:
        for sequence in sorted(self._waiting, key=_urgency):
            if not self.is_admitting:
                return
            if self._is_computed_by_another(sequence):
                continue  # Its prompt's beginning will be in the cache soon.
            if not self._has_place(sequence):
                return
            lease = self._cache.acquire(sequence.shareable)
            if not self._reserve_whole(sequence, lease):
                lease.release()
                return  # Whoever comes later in order would only take what this one waits for.
            sequence.lease = lease
            sequence.num_computed = lease.num_cached
            if sequence.clock.num_cached is None:
                sequence.clock.num_cached = lease.num_cached
            sequence.clock.prefills()
            self._waiting.remove(sequence)
            self._running.append(sequence)

    def _has_place(self, sequence: Sequence) -> bool:
        if len(self._running) < self._limits.max_sequences:
            return True
        last = max(self._running, key=_urgency)
        if last.priority >= sequence.priority:
            return False
        self._preempt(last)
        return True

    def _reserve_whole(self, sequence: Sequence, lease: Lease) -> bool:
        """All of the prompt, and the token after it if there is to be one."""
        num_tokens = len(sequence.tokens) + (sequence.max_new_tokens > 0)
        while True:
            try:
                lease.reserve(num_tokens)
                return True
            except OutOfBlocksError:
                less_urgent = [each for each in self._running if each.priority < sequence.priority]
                if not less_urgent:
                    return False
                self._preempt(max(less_urgent, key=_urgency))

    def _is_computed_by_another(self, sequence: Sequence) -> bool:
        """Whether one that runs is about to compute what this one begins with."""
        block_size = self._cache.block_size
        tokens = sequence.shareable
        wanted = tokens[: self._cache.num_matching(tokens) + block_size]
        return len(tokens) > len(wanted) and any(
            other.is_prefilling
            and other.priority >= sequence.priority
            and other.num_computed < len(wanted) <= len(other.tokens)
            and other.tokens[: len(wanted)] == wanted
            for other in self._running
        )


def _urgency(sequence: Sequence) -> tuple[int, int]:
    """The most urgent first, then who came first."""
    return -sequence.priority, sequence.order

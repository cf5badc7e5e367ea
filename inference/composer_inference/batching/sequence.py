"""One request on its way through the batches: its tokens, its cache, what it has decoded."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Protocol

from composer_inference.backends.base import (
    GenerateChunk,
    GenerateRequest,
    Timings,
)
from composer_inference.batching.router_choices import RouterChoices
from composer_inference.drafts.drafter import Drafter
from composer_inference.kv.prefix_cache import Lease
from composer_inference.priority import Priority
from composer_inference.sampling.constraint import Constraint
from composer_inference.sampling.sampler import TokenSampler
from composer_inference.sampling.text_stream import TextStream

Deliver = Callable[[GenerateChunk | Exception], None]
"""Called in the loop's thread; a chunk with a finish reason, or an exception, is the last."""

_order = count()


class Clock(Protocol):
    def __call__(self) -> float:
        """Seconds, never going back."""
        ...


@dataclass(eq=False, slots=True)
class Sequence:
    """Belongs to the loop's thread, but for `is_cancelled`, which anyone may set."""

    request: GenerateRequest
    tokens: list[int]
    """Prompt and output."""
    sampler: TokenSampler
    text: TextStream
    deliver: Deliver
    constraint: Constraint | None = None
    drafter: Drafter | None = None
    num_prompt_tokens: int = 0
    num_computed: int = 0
    """Tokens whose keys and values are in the lease's blocks."""
    lease: Lease | None = None
    """None while it waits."""
    num_drafted: int = 0
    num_draft_accepted: int = 0
    router_choices: RouterChoices | None = None
    """None where nobody asked for them."""
    is_cancelled: bool = False
    order: int = field(default_factory=lambda: next(_order))
    clock: "SequenceClock" = field(default_factory=lambda: SequenceClock(time.monotonic))

    def __post_init__(self) -> None:
        self.num_prompt_tokens = len(self.tokens)
        if self.request.return_router_choices:
            self.router_choices = RouterChoices()

    @property
    def priority(self) -> Priority:
        return self.request.priority

    @property
    def num_decoded(self) -> int:
        return len(self.tokens) - self.num_prompt_tokens

    @property
    def shareable(self) -> list[int]:
        """Tokens that need not be computed if others were before: none where each one's router
        choices are asked for."""
        return self.tokens if self.router_choices is None else []

    @property
    def is_prefilling(self) -> bool:
        """Whether more than the last token has yet to be computed."""
        return self.num_computed < len(self.tokens) - 1

    @property
    def max_new_tokens(self) -> int:
        """That may still be decoded."""
        return self.request.sampling.max_tokens - self.num_decoded

    def release(self) -> None:
        """The blocks; what is computed in them may stay cached for others, and for this one."""
        if self.lease is not None:
            self.lease.release()
            self.lease = None
        if self.drafter is not None:
            self.drafter.release()
        self.num_computed = 0

    @property
    def timings(self) -> Timings:
        timings = self.clock.timings(num_decoded=self.num_decoded)
        return replace(
            timings, num_drafted=self.num_drafted, num_draft_accepted=self.num_draft_accepted
        )


class SequenceClock:
    """Where a sequence's time goes. It waits, prefills or decodes."""

    def __init__(self, now: Clock) -> None:
        self._now = now
        self._since = now()
        self._ms = {"queue": 0.0, "prefill": 0.0, "decode": 0.0}
        self._part = "queue"
        self.num_cached: int | None = None
        """Prompt tokens that the first admission found in the cache."""
        self.num_prefilled = 0
        self.num_preemptions = 0

    def queued(self) -> None:
        self._enter("queue")

    def prefills(self) -> None:
        self._enter("prefill")

    def decodes(self) -> None:
        self._enter("decode")

    def computed(self, num_prompt_tokens: int) -> None:
        """So many of the prompt's tokens are there, cached ones among them. Those that are computed
        again after a pre-emption count once."""
        self.num_prefilled = max(self.num_prefilled, num_prompt_tokens - (self.num_cached or 0))

    def timings(self, *, num_decoded: int) -> Timings:
        self._enter(self._part)
        return Timings(
            queue_ms=self._ms["queue"],
            num_cached_tokens=self.num_cached or 0,
            num_prefill_tokens=self.num_prefilled,
            prefill_ms=self._ms["prefill"],
            num_decoded_tokens=num_decoded,
            decode_ms=self._ms["decode"],
            num_preemptions=self.num_preemptions,
        )

    def _enter(self, part: str) -> None:
        now = self._now()
        self._ms[self._part] += 1000 * (now - self._since)
        self._since, self._part = now, part

"""The next token of one request, from its row of logits.

Dimensions: V the vocabulary, R rows.
"""

import secrets
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from math import isfinite

import numpy as np
from jaxtyping import Bool, Float32
from torch import Tensor

from composer_inference.backends.base import RejectedRequestError, SamplingParams
from composer_inference.sampling.count_penalties import CountPenalties
from composer_inference.sampling.drawing import Floats, checked_max, draw, kth_largest
from composer_inference.sampling.penalties import RepetitionPenalty

_COLDEST = 1e-5
"""Temperatures up to this one are greedy: nothing but rounding would come of them."""

_LEAST_REPEAT_PENALTY = 1e-3
"""Logits are divided by it, and must stay numbers."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Sampled:
    token_id: int
    logprob: float | None = None
    """By the model's own distribution, before temperature, penalties, filters and masks. None if the
    request reports none."""
    top: tuple[tuple[int, float], ...] = ()
    """The likeliest tokens and their log-probabilities, likeliest first, the lower id first of equals."""


class TokenSampler:
    """One a request. The same logits, seed and position give the same token, whatever was drawn between:
    so the text depends neither on the batch, nor on pre-emption, nor on drafts."""

    def __init__(self, params: SamplingParams, prompt_ids: Sequence[int], vocab_size: int) -> None:
        """Raises: RejectedRequestError."""
        if params.repeat_penalty < _LEAST_REPEAT_PENALTY:
            raise RejectedRequestError(
                f"repeat_penalty is {params.repeat_penalty:g} and must be at least "
                f"{_LEAST_REPEAT_PENALTY:g}; 1 changes nothing"
            )
        self._params = params
        self._seed = secrets.randbits(64) if params.seed is None else params.seed % 2**64
        self._penalties = _penalties(params, prompt_ids, vocab_size)

    @property
    def is_plain_greedy(self) -> bool:
        """Whether its token is the largest logit and nothing else is asked for: `greedy` will do."""
        return self._is_greedy and not self._penalties and self._params.num_logprobs == 0

    @property
    def _is_greedy(self) -> bool:
        return self._params.temperature <= _COLDEST

    def sample(
        self,
        logits_V: Float32[Tensor, " V"],
        position: int,
        mask: Bool[Tensor, " V"] | None = None,
    ) -> Sampled:
        """The token at `position` of prompt and answer, counted from 0, on any device. `mask` is True
        where a token is allowed. With penalties, positions are asked for in turn; one may go
        back to an earlier one, and what was drawn from there on is forgotten.

        Raises: NoTokenError for logits that are NaN or infinite, or a mask that allows none.
        """
        own_V: Floats = logits_V.numpy(force=True)
        changed_V = own_V
        for penalty in self._penalties:
            changed_V = penalty.applied(changed_V, position)
        if mask is not None:
            changed_V = np.where(mask.numpy(force=True), changed_V, np.float32(-np.inf))
        token_id = (
            _largest(changed_V)
            if self._is_greedy
            else draw(changed_V, self._params, _uniform(self._seed, position))
        )
        for penalty in self._penalties:
            penalty.observe(token_id)
        return self._reported(own_V, token_id)

    def _reported(self, logits_V: Floats, token_id: int) -> Sampled:
        num_top = min(self._params.num_logprobs, len(logits_V))
        if num_top == 0:
            return Sampled(token_id=token_id)
        largest = checked_max(logits_V)
        total = largest + float(np.log(np.exp(logits_V - largest).sum(dtype=np.float64)))
        ids = np.flatnonzero(logits_V >= kth_largest(logits_V, num_top))
        likeliest = ids[np.argsort(-logits_V[ids], kind="stable")][:num_top]
        return Sampled(
            token_id=token_id,
            logprob=float(logits_V[token_id]) - total,
            top=tuple((int(each), float(logits_V[each]) - total) for each in likeliest),
        )


def _penalties(
    params: SamplingParams, prompt_ids: Sequence[int], vocab_size: int
) -> list[RepetitionPenalty | CountPenalties]:
    """In the order in which they change the logits."""
    found: list[RepetitionPenalty | CountPenalties] = []
    if params.repeat_penalty != 1:
        found.append(RepetitionPenalty(params.repeat_penalty, prompt_ids, vocab_size))
    if params.frequency_penalty or params.presence_penalty:
        found.append(
            CountPenalties(
                frequency=params.frequency_penalty,
                presence=params.presence_penalty,
                num_prompt_tokens=len(prompt_ids),
                vocab_size=vocab_size,
            )
        )
    return found


def greedy(logits_RV: Float32[Tensor, "R V"]) -> list[int | None]:
    """The largest logit of each row, the lower id of equals; None where it is NaN or infinite."""
    if logits_RV.is_cpu:  # torch's takes ten times as long there.
        rows = logits_RV.numpy(force=True)
        ids = [int(logits_V.argmax()) for logits_V in rows]
        largest = [float(logits_V[each]) for logits_V, each in zip(rows, ids, strict=True)]
    else:
        largest_R, ids_R = logits_RV.max(dim=-1)
        ids = list(map(int, ids_R.numpy(force=True)))
        largest = list(map(float, largest_R.numpy(force=True)))
    return [each if isfinite(value) else None for each, value in zip(ids, largest, strict=True)]


def _largest(logits_V: Floats) -> int:
    token_id = int(logits_V.argmax())
    checked_max(logits_V[token_id : token_id + 1])
    return token_id


def _uniform(seed: int, position: int) -> float:
    """From 0 to below 1, in 53 bits."""
    digest = blake2b(struct.pack("<QQ", seed, position), digest_size=8).digest()
    return (int.from_bytes(digest, "little") >> 11) * 2.0**-53

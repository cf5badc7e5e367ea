"""What may come next in the output: proposed without the model, and verified by it."""

from collections.abc import Sequence
from typing import Protocol

from composer_inference.drafts.lookup import LookupDrafter
from composer_inference.drafts.prediction import PredictionDrafter

MAX_DRAFT_TOKENS = 64
_FIRST_DRAFT_TOKENS = 8
_MIN_DRAFT_TOKENS = 2
_DRAFTED_PER_AGREED = 4
_MIN_AGREED = 2
_MAX_AGREED = 6
"""What a draft needs after one that was right, and after many that were wrong."""


class Drafter(Protocol):
    """One request's. A draft may be wrong; it costs the computing of its tokens and nothing else."""

    def propose(self, max_tokens: int) -> list[int]:
        """What may follow all that was observed, so many tokens at most; often none."""
        ...

    def observe(self, token_ids: Sequence[int]) -> None:
        """What one step decoded, whether or not it was proposed."""
        ...

    def release(self) -> None:
        """Free what it holds of memory; it may propose again."""
        ...


class _Source(Protocol):
    @property
    def num_agreed(self) -> int:
        """The output's last tokens that are those before the draft too; 0 if there is no draft."""
        ...

    def propose(self, max_tokens: int) -> list[int]: ...

    def observe(self, token_ids: Sequence[int]) -> None: ...


class Drafts:
    """From a prediction, or from what a lookup finds where that agrees with more of the output; where
    neither has any, by another drafter, such as a smaller model.

    A draft is short where little agrees before it. Drafts grow while all of them is right, shrink
    when not even their first token is, and then wait for more to agree.
    """

    def __init__(
        self,
        prompt_ids: Sequence[int],
        prediction: Sequence[int] = (),
        otherwise: Drafter | None = None,
    ) -> None:
        self._sources: tuple[_Source, ...] = (
            PredictionDrafter(prediction),
            LookupDrafter(prompt_ids),
        )
        self._otherwise = otherwise
        self._max_tokens = _FIRST_DRAFT_TOKENS
        self._min_agreed = _MIN_AGREED
        self._draft: list[int] = []

    def propose(self, max_tokens: int) -> list[int]:
        self._draft = []
        source = max(self._sources, key=lambda each: each.num_agreed)
        if source.num_agreed >= self._min_agreed:
            trusted = min(self._max_tokens, source.num_agreed * _DRAFTED_PER_AGREED)
            self._draft = source.propose(min(max_tokens, trusted))
        if not self._draft and self._otherwise is not None:
            return self._otherwise.propose(max_tokens)
        return self._draft

    def observe(self, token_ids: Sequence[int]) -> None:
        if self._draft and token_ids:
            self._learn(token_ids)
        self._draft = []
        for source in self._sources:
            source.observe(token_ids)
        if self._otherwise is not None:
            self._otherwise.observe(token_ids)

    def release(self) -> None:
        if self._otherwise is not None:
            self._otherwise.release()

    def _learn(self, token_ids: Sequence[int]) -> None:
        if self._draft[0] != token_ids[0]:
            self._max_tokens = max(self._max_tokens // 4, _MIN_DRAFT_TOKENS)
            self._min_agreed = min(self._min_agreed + 1, _MAX_AGREED)
            return
        self._min_agreed = _MIN_AGREED
        if self._draft == list(token_ids[: len(self._draft)]):
            self._max_tokens = min(2 * self._max_tokens, MAX_DRAFT_TOKENS)

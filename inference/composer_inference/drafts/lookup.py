"""Drafts of what followed the last tokens when they occurred before, in the prompt or the output.

Source: Saxena, Prompt Lookup Decoding.
"""

from collections.abc import Sequence

from composer_inference.drafts.ngrams import NgramIndex, common_suffix

_RUN_SIZE = 3
_NUM_CANDIDATES = 8
_TAIL = 16
"""Tokens of the output that an occurrence is judged by."""


class LookupDrafter:
    def __init__(self, prompt_ids: Sequence[int]) -> None:
        self._token_ids = list(prompt_ids)
        self._index = NgramIndex(_RUN_SIZE, prompt_ids)
        self._place = 0
        self.num_agreed = 0
        """Tokens before the draft that are the output's last ones too; 0: there is no draft."""
        self._find()

    def propose(self, max_tokens: int) -> list[int]:
        if not self.num_agreed:
            return []
        return self._token_ids[self._place : self._place + max_tokens]

    def observe(self, token_ids: Sequence[int]) -> None:
        self._token_ids += token_ids
        self._index.extend(token_ids)
        self._find()

    def _find(self) -> None:
        """The longest agreement among the latest occurrences, the latest of equal ones."""
        self.num_agreed = 0
        tail = self._token_ids[-_TAIL:]
        ends = self._index.ends(tail[-_RUN_SIZE:])
        for end in reversed(ends[-1 - _NUM_CANDIDATES : -1]):
            length = common_suffix(self._token_ids, end, tail, _TAIL)
            if length > self.num_agreed:
                self._place, self.num_agreed = end, length

"""Makes tokens less likely that the prompt or the answer already has.

Source: Keskar et al., "CTRL", section 4.1, as transformers' `RepetitionPenaltyLogitsProcessor` does it.
"""

from collections import Counter
from collections.abc import Sequence

import numpy as np

from composer_inference.sampling.drawing import Floats


class RepetitionPenalty:
    def __init__(self, penalty: float, prompt_ids: Sequence[int], vocab_size: int) -> None:
        """`penalty`: above 0; above 1 it discourages."""
        self._penalty = np.float32(penalty)
        self._prompt_tokens = len(prompt_ids)
        self._tokens = list(prompt_ids)
        self._counts = Counter(prompt_ids)
        self._seen_V = np.zeros(vocab_size, dtype=np.bool_)
        self._seen_V[list(self._counts)] = True

    def applied(self, logits_V: Floats, position: int) -> Floats:
        """A copy for the token at `position` of prompt and answer. What was observed there or behind
        is forgotten."""
        assert self._prompt_tokens <= position <= len(self._tokens), (position, len(self._tokens))
        for token_id in self._tokens[position:]:
            self._counts[token_id] -= 1
            self._seen_V[token_id] = self._counts[token_id] > 0
        del self._tokens[position:]
        seen = np.flatnonzero(self._seen_V)
        logits_V = logits_V.copy()
        old = logits_V[seen]
        logits_V[seen] = np.where(old < 0, old * self._penalty, old / self._penalty)
        return logits_V

    def observe(self, token_id: int) -> None:
        """The token that was drawn at the position that `applied` was last called for."""
        self._tokens.append(token_id)
        self._counts[token_id] += 1
        self._seen_V[token_id] = True

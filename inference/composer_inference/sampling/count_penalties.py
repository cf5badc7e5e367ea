"""Makes tokens less likely by how often the answer has them; the prompt does not count.

Source: OpenAI's API reference, `frequency_penalty` and `presence_penalty` of completions.

Dimensions: V the vocabulary.
"""

import numpy as np

from composer_inference.sampling.drawing import Floats


class CountPenalties:
    def __init__(
        self, *, frequency: float, presence: float, num_prompt_tokens: int, vocab_size: int
    ) -> None:
        """`frequency` is taken from a logit for each time, `presence` once; negative ones add."""
        self._frequency = np.float32(frequency)
        self._presence = np.float32(presence)
        self._num_prompt_tokens = num_prompt_tokens
        self._answer: list[int] = []
        self._counts_V = np.zeros(vocab_size, dtype=np.int32)

    def applied(self, logits_V: Floats, position: int) -> Floats:
        """A copy for the token at `position` of prompt and answer. What was observed there or behind
        is forgotten."""
        num_kept = position - self._num_prompt_tokens
        assert 0 <= num_kept <= len(self._answer), (position, len(self._answer))
        for token_id in self._answer[num_kept:]:
            self._counts_V[token_id] -= 1
        del self._answer[num_kept:]
        seen = np.flatnonzero(self._counts_V)
        logits_V = logits_V.copy()
        counts = self._counts_V[seen].astype(np.float32)
        logits_V[seen] -= self._frequency * counts + self._presence
        return logits_V

    def observe(self, token_id: int) -> None:
        """The token that was drawn at the position that `applied` was last called for."""
        self._answer.append(token_id)
        self._counts_V[token_id] += 1

"""Encodes with a SentencePiece vocabulary as llama.cpp does it.

Source: llama.cpp, src/llama-vocab.cpp (`llm_tokenizer_spm`): neighbours are joined, the pair whose
joint token has the highest score first and the leftmost among equals, until no pair has a token.
What has none then is written as bytes. `tokenizers` orders merges by pair, not by score and place,
which differs where two pairs make the same token.
"""

from collections.abc import Sequence
from heapq import heapify, heappop, heappush

from composer_inference.backends.base import MissingCapabilityError

SPACE = "▁"
"""Stands for a space in the vocabulary."""


class SentencePieceEncoder:
    """Raises: MissingCapabilityError if the vocabulary lacks tokens for single bytes."""

    def __init__(
        self, tokens: Sequence[str], scores: Sequence[float], *, add_space_prefix: bool
    ) -> None:
        """`add_space_prefix`: a text at the beginning or after a special token begins with a space."""
        if len(scores) != len(tokens):
            raise MissingCapabilityError(
                f"the vocabulary has {len(tokens)} tokens and {len(scores)} scores"
            )
        self._ids = {token: token_id for token_id, token in enumerate(tokens)}
        self._scores = scores
        self._add_space_prefix = add_space_prefix
        try:
            self._byte_ids = [self._ids[f"<0x{byte:02X}>"] for byte in range(256)]
        except KeyError as error:
            raise MissingCapabilityError(f"the vocabulary has no token {error}") from None

    def encode(self, text: str, *, after_special: bool) -> list[int]:
        prefix = " " if self._add_space_prefix and after_special else ""
        ids: list[int] = []
        for piece in self._merged((prefix + text).replace(" ", SPACE)):
            if piece in self._ids:
                ids.append(self._ids[piece])
            else:
                ids += (self._byte_ids[byte] for byte in piece.encode())
        return ids

    def _merged(self, text: str) -> list[str]:
        pieces: list[str] = list(text)
        # A linked list: the end of each piece, and the start of the one before it.
        following = [index + 1 for index in range(len(pieces))]
        preceding = [index - 1 for index in range(len(pieces))]
        queue = [
            entry
            for left in range(len(pieces) - 1)
            if (entry := self._candidate(pieces, left, left + 1)) is not None
        ]
        heapify(queue)
        while queue:
            _, left, right, joint = heappop(queue)
            # One of the two has been merged meanwhile: emptied, or grown.
            if not pieces[right] or pieces[left] + pieces[right] != joint:
                continue
            pieces[left], pieces[right] = joint, ""
            after = following[left] = following[right]
            if after < len(pieces):
                preceding[after] = left
            for pair in ((preceding[left], left), (left, after)):
                entry = self._candidate(pieces, *pair)
                if entry is not None:
                    heappush(queue, entry)
        return [piece for piece in pieces if piece]

    def _candidate(
        self, pieces: Sequence[str], left: int, right: int
    ) -> tuple[float, int, int, str] | None:
        if left < 0 or right >= len(pieces):
            return None
        joint = pieces[left] + pieces[right]
        token_id = self._ids.get(joint)
        return None if token_id is None else (-self._scores[token_id], left, right, joint)

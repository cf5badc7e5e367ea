"""The text of an answer as its tokens come: whole characters, up to the first stop string.

Knows no torch.
"""

import codecs
from collections.abc import Sequence
from typing import Protocol


class TokenBytes(Protocol):
    """What of a `Vocabulary` is needed here."""

    def token_bytes(self, token_id: int) -> bytes: ...


class TextStream:
    """The text ends before the stop string that is complete first; of several that end with the same
    character, before the longest. So it is the same however its bytes are split into tokens.
    """

    def __init__(self, vocabulary: TokenBytes, stops: Sequence[str] = ()) -> None:
        """`stops`: none of them empty."""
        self._vocabulary = vocabulary
        self._stops = tuple(stops)
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self._withheld = ""
        self._stopped = False

    @property
    def stopped(self) -> bool:
        """Whether a stop string was met; nothing more comes then."""
        return self._stopped

    def push(self, token_id: int) -> str:
        """The text that is certain now and was not before. Bytes that are no UTF-8 are U+FFFD, as soon
        as that is certain."""
        if self._stopped:
            return ""
        return self._released(self._decoder.decode(self._vocabulary.token_bytes(token_id)))

    def finish(self) -> str:
        """The rest, when no more tokens come."""
        if self._stopped:
            return ""
        text = self._released(self._decoder.decode(b"", final=True)) + self._withheld
        self._withheld = ""
        return text

    def _released(self, text: str) -> str:
        text = self._withheld + text
        at = self._first_stop(text)
        if at is not None:
            self._stopped = True
            self._withheld = ""
            return text[:at]
        num_certain = len(text) - self._num_of_a_beginning(text)
        self._withheld = text[num_certain:]
        return text[:num_certain]

    def _first_stop(self, text: str) -> int | None:
        """Where the stop string begins that is complete first."""
        found = ((text.find(stop), len(stop)) for stop in self._stops)
        ends = [(at + length, at) for at, length in found if at >= 0]
        return min(ends)[1] if ends else None

    def _num_of_a_beginning(self, text: str) -> int:
        """Characters at the text's end, as many as possible, that a stop string begins with."""
        return max((_overlap(text, stop) for stop in self._stops), default=0)


def _overlap(text: str, stop: str) -> int:
    longest = min(len(text), len(stop) - 1)
    return next((n for n in range(longest, 0, -1) if text.endswith(stop[:n])), 0)

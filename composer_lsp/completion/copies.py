"""What the user copied of late: likely to be pasted, or written once more in another form."""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

_NUM_KEPT = 3
_MIN_CHARS = 12
"""Less is a name, which says little."""
_MAX_CHARS = 4000


@dataclass(frozen=True, kw_only=True, slots=True)
class Copy:
    uri: str
    language_id: str
    first_line: int
    """1-based."""
    text: str


class Copies:
    """Of one window."""

    def __init__(self) -> None:
        self._copies: deque[Copy] = deque(maxlen=_NUM_KEPT)

    def add(self, copy: Copy) -> bool:
        """Returns whether it is worth being kept: neither too short nor too long."""
        if not _MIN_CHARS <= len(copy.text.strip()) <= _MAX_CHARS:
            return False
        same = [each for each in self._copies if each.text == copy.text]
        for each in same:
            self._copies.remove(each)
        self._copies.append(copy)
        return True

    def recent(self) -> Sequence[Copy]:
        """The newest first."""
        return [*reversed(self._copies)]

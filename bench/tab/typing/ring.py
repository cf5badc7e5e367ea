"""The chunks of other places that llama.vim tells the model (see `llama_vim`)."""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

_NUM_CHUNKS = 16
_CHUNK_LINES = 64
_SCOPE_LINES = 1024
_MAX_QUEUED = 16
_MIN_LINES = 3
_MOVED_LINES = 32
_PREFIX_LINES, _SUFFIX_LINES = 256, 64
_SAME = 0.9
_LIKE_CONTEXT = 0.5


@dataclass(frozen=True, slots=True)
class _Chunk:
    lines: tuple[str, ...]
    path: str


class Ring:
    UPDATE_S: ClassVar[float] = 1.0
    """Between two chunks that join, once the cursor rests for:"""
    REST_S: ClassVar[float] = 3.0

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance
        self._chunks: list[_Chunk] = []
        self._queued: list[_Chunk] = []
        self._picked_at = -9999

    def enter(self, lines: Sequence[str], number: int, path: str) -> None:
        """A file is shown, with the cursor in line `number`, from 0."""
        self._pick(_near(lines, number), path, evicts=True)

    def moved(self, lines: Sequence[str], number: int, path: str) -> None:
        """The cursor is in this line; far from where chunks were picked, others are: from beyond what
        the prompt has of the file."""
        if abs(number - self._picked_at) <= _MOVED_LINES:
            return
        self._picked_at = number
        start, end = max(0, number - _SCOPE_LINES), max(0, number - _PREFIX_LINES)
        self._pick(lines[start : end + 1], path, evicts=False)
        below = number + _SUFFIX_LINES
        self._pick(lines[below : below + _CHUNK_LINES + 1], path, evicts=False)

    def evict_like(self, lines: Sequence[str], number: int) -> None:
        """Drop what is much like the text around the cursor, which would be repeated."""
        near = self._cut(_near(lines, number))
        self._chunks = [
            chunk
            for index, chunk in enumerate(self._chunks)
            if index == 0 or _similarity(chunk.lines, near) <= _LIKE_CONTEXT
        ]

    def take_queued(self) -> bool:
        """Let the oldest of those that wait join; False when none waits."""
        if not self._queued:
            return False
        if len(self._chunks) == _NUM_CHUNKS:
            self._chunks.pop(0)
        self._chunks.append(self._queued.pop(0))
        return True

    def extra(self) -> list[dict[str, Any]]:
        """As `/infill` takes them."""
        return [
            {"text": "\n".join(chunk.lines) + "\n", "filename": chunk.path}
            for chunk in self._chunks
        ]

    def _pick(self, lines: Sequence[str], path: str, *, evicts: bool) -> None:
        if len(lines) < _MIN_LINES:
            return
        chunk = _Chunk(lines=tuple(self._cut(lines)), path=path)
        if any(each.lines == chunk.lines for each in (*self._chunks, *self._queued)):
            return
        for held in (self._queued, self._chunks):
            for index in range(len(held) - 1, 0, -1):
                if _similarity(held[index].lines, chunk.lines) > _SAME:
                    if not evicts:
                        return
                    del held[index]
        if len(self._queued) == _MAX_QUEUED:
            self._queued.pop(0)
        self._queued.append(chunk)

    def _cut(self, lines: Sequence[str]) -> Sequence[str]:
        if len(lines) + 1 < _CHUNK_LINES:
            return lines
        half = _CHUNK_LINES // 2
        start = self._chance.randint(0, max(0, len(lines) - half))
        return lines[start : start + half + 1]


def _near(lines: Sequence[str], number: int) -> Sequence[str]:
    half = _CHUNK_LINES // 2
    return lines[max(0, number - half) : number + half + 1]


def _similarity(some: Sequence[str], others: Sequence[str]) -> float:
    known = set(others)
    num_common = sum(line in known for line in some)
    return 2 * num_common / (len(some) + len(others))

"""Which blocks of the pool are free, as runs of consecutive ones."""

from bisect import bisect_left, insort
from collections.abc import Iterable
from itertools import pairwise

from composer_inference.backends.base import BackendError

_GROWTH_BLOCKS = 64
"""Left free, where there is room, between a sequence and the one that is placed behind it."""


class OutOfBlocksError(BackendError):
    """The cache cannot hold more tokens until a request ends."""

    def __init__(self, needed: int, available: int) -> None:
        super().__init__(
            f"The KV cache has {available} blocks left and {needed} are needed: wait for a running "
            "request to end, shorten the prompt, or give the engine more memory."
        )
        self.needed = needed
        self.available = available


class FreeBlocks:
    """Adjacent free runs are always one. O(log n) comparisons a run taken or given."""

    def __init__(self, num_blocks: int) -> None:
        """All blocks from 0 on are free."""
        self._num_blocks = num_blocks
        self._num_free = 0
        self._size_at: dict[int, int] = {}
        self._start_before: dict[int, int] = {}
        """A run's start by the block behind its last one."""
        self._by_size: list[tuple[int, int]] = []
        """(size, start), ascending."""
        if num_blocks:
            self._add(0, num_blocks)

    def __len__(self) -> int:
        return self._num_free

    def take(self, num_blocks: int, *, after: int | None = None) -> list[int]:
        """Of the run behind the block `after` first, then in as few runs as can be seen at once.
        A new run keeps away from what lies before it, so that both may grow in place.

        There must be as many free.
        """
        assert num_blocks <= self._num_free, f"{num_blocks} of {self._num_free} free blocks"
        taken: list[int] = []
        if num_blocks and after is not None and after + 1 in self._size_at:
            size = min(num_blocks, self._size_at[after + 1])
            taken += self._take_from(after + 1, gap=0, size=size)
        while len(taken) < num_blocks:
            left = num_blocks - len(taken)
            roomy = bisect_left(self._by_size, (left + 2 * _GROWTH_BLOCKS, 0))
            run_size, start = self._by_size[min(roomy, len(self._by_size) - 1)]
            size = min(left, run_size)
            gap = min((run_size - size) // 2, _GROWTH_BLOCKS) if start else 0
            taken += self._take_from(start, gap=gap, size=size)
        return taken

    def give(self, blocks: Iterable[int]) -> None:
        """In any order; none of them may be free already."""
        ordered = sorted(blocks)
        ends = [
            index for index, (one, other) in enumerate(pairwise(ordered), 1) if other != one + 1
        ]
        for first, last in pairwise([0, *ends, len(ordered)]):
            if last > first:
                self._add(ordered[first], last - first)

    def check_integrity(self) -> set[int]:
        """All free blocks.

        Raises: AssertionError for runs that overlap or touch, or that the indices disagree on.
        """
        runs = sorted((start, start + size) for start, size in self._size_at.items())
        assert all(end < start for (_, end), (start, _) in pairwise(runs)), "free runs touch"
        assert not runs or (runs[0][0] >= 0 and runs[-1][1] <= self._num_blocks), "no such block"
        assert self._start_before == {end: start for start, end in runs}, "ends of free runs"
        assert self._by_size == sorted((end - start, start) for start, end in runs), "run sizes"
        free = {block for start, end in runs for block in range(start, end)}
        assert len(free) == self._num_free, f"{self._num_free} counted, {len(free)} are free"
        return free

    def _take_from(self, start: int, *, gap: int, size: int) -> range:
        run_size = self._remove(start)
        if gap:
            self._insert(start, gap)
        if run_size > gap + size:
            self._insert(start + gap + size, run_size - gap - size)
        return range(start + gap, start + gap + size)

    def _add(self, start: int, size: int) -> None:
        if start in self._start_before:
            before = self._start_before[start]
            size += self._remove(before)
            start = before
        if start + size in self._size_at:
            size += self._remove(start + size)
        self._insert(start, size)

    def _insert(self, start: int, size: int) -> None:
        self._size_at[start] = size
        self._start_before[start + size] = start
        insort(self._by_size, (size, start))
        self._num_free += size

    def _remove(self, start: int) -> int:
        size = self._size_at.pop(start)
        del self._start_before[start + size]
        del self._by_size[bisect_left(self._by_size, (size, start))]
        self._num_free -= size
        return size

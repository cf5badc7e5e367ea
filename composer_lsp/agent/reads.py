"""Which lines of which files a run has seen: what it may claim, and what it may write over."""

from collections import defaultdict
from collections.abc import Sequence

from composer_lsp.agent.edits.hunks import Hunk


class ReadLog:
    def __init__(self) -> None:
        self._lines: defaultdict[str, set[int]] = defaultdict(set)
        self._num_lines: dict[str, int] = {}

    def add(self, path: str, first: int, last: int, num_lines: int | None = None) -> None:
        """Lines `first` to `last` (1-based, both included) were shown whole; `num_lines`: how many
        the file has, where that is known."""
        self._lines[path].update(range(first, last + 1))
        if num_lines is not None:
            self._num_lines[path] = num_lines

    def forget(self, path: str) -> None:
        """Its lines are others now."""
        self._lines.pop(path, None)
        self._num_lines.pop(path, None)

    def carry(self, path: str, hunks: Sequence[Hunk]) -> None:
        """The file was changed: what was seen of it and stands there still is elsewhere now."""
        moved: set[int] = set()
        passed = offset = 0
        for number in sorted(self._lines.get(path, ())):
            while passed < len(hunks) and hunks[passed].end < number:
                offset += hunks[passed].offset
                passed += 1
            if passed == len(hunks) or number <= hunks[passed].start:
                moved.add(number + offset)
        if path in self._lines:
            self._lines[path] = moved

    def has_seen(self, path: str, first: int, last: int) -> bool:
        """Whether all of these lines were shown."""
        seen = self._lines.get(path, set[int]())
        return all(number in seen for number in range(first, last + 1))

    def is_whole(self, path: str) -> bool:
        num_lines = self._num_lines.get(path)
        return num_lines is not None and self.has_seen(path, 1, num_lines)

    def ranges(self, path: str) -> list[tuple[int, int]]:
        """The lines that were shown, in order: first and last of each stretch."""
        found: list[tuple[int, int]] = []
        for number in sorted(self._lines.get(path, ())):
            if found and found[-1][1] == number - 1:
                found[-1] = (found[-1][0], number)
            else:
                found.append((number, number))
        return found

    def num_lines(self, path: str) -> int | None:
        return self._num_lines.get(path)

    @property
    def paths(self) -> list[str]:
        return list(self._lines)

"""Answers before the index is there: from the files' text and their names, within a second.

Lines that have the query's words are gathered into windows; a window scores by the distinct words
in it, each by how few files have it, and by the words in its path.
"""

import math
import time
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from composer_index.search.result import Result
from composer_index.search.ripgrep import Line, matching_lines, read_text
from composer_index.store.records import Filter
from composer_index.store.sql import matches
from composer_index.words import split_words

DEADLINE_S = 0.8
_WINDOW = 20
"""Lines of a result."""
_MAX_LINES = 50_000
"""Matching lines that are looked at: enough to rank by, and a bound on memory."""
_MIN_LENGTH = 3
"""Letters of a word worth looking for; shorter ones are on every line."""
_PATH_WEIGHT = 0.5
"""Of a word in the path, against one in the window."""


@dataclass(slots=True)
class _Window:
    path: str
    first: int
    words: set[str]


def search_text(
    root: Path,
    paths: Sequence[str],
    query: str,
    k: int = 10,
    path_glob: str | None = None,
    deadline_s: float = DEADLINE_S,
) -> list[Result]:
    """Returns the `k` best windows of `paths` (what the index would hold, relative to `root`), best
    first: what was found within `deadline_s` seconds. Reads no other files."""
    deadline = time.monotonic() + deadline_s
    words = _wanted(query)
    chosen = Filter(path_glob=path_glob or "")
    if path_glob:
        paths = [path for path in paths if matches(chosen, path, "")]
    by_path: defaultdict[str, list[tuple[int, set[str]]]] = defaultdict(list)
    for count, line in enumerate(matching_lines(root, paths, words, deadline)):
        by_path[line.path].append((line.number, _words_in(line, words)))
        if count == _MAX_LINES:
            break
    weights = _weights(words, by_path.values(), len(paths))
    windows = [_best_window(path, lines, weights) for path, lines in by_path.items()]
    windows += _named(paths, by_path, words)
    scored = [(_score(window, weights), window) for window in windows]
    scored.sort(key=lambda each: (-each[0], each[1].path))
    return [_result(root, window, score) for score, window in scored[:k]]


def _wanted(query: str) -> list[str]:
    """Stems: they are found within the words as written."""
    stems = dict.fromkeys(word for word in split_words(query) if len(word) >= _MIN_LENGTH)
    return list(stems)


def _words_in(line: Line, words: Sequence[str]) -> set[str]:
    low = line.text.lower()
    return {word for word in words if word in low}


def _weights(
    words: Sequence[str], files: Iterable[Sequence[tuple[int, set[str]]]], num_files: int
) -> dict[str, float]:
    having = dict.fromkeys(words, 0)
    for lines in files:
        for word in set[str]().union(*(found for _, found in lines)):
            having[word] += 1
    return {word: math.log(1 + (num_files + 0.5) / (each + 0.5)) for word, each in having.items()}


def _best_window(
    path: str, lines: Sequence[tuple[int, set[str]]], weights: dict[str, float]
) -> _Window:
    best = _Window(path, 1, set())
    highest = -1.0
    for index, (first, _) in enumerate(lines):
        here = set[str]()
        for number, found in lines[index:]:
            if number >= first + _WINDOW:
                break
            here |= found
        score = sum(weights[word] for word in here)
        if score > highest:
            best, highest = _Window(path, first, here), score
    return best


def _named(
    paths: Sequence[str], found: dict[str, list[tuple[int, set[str]]]], words: Sequence[str]
) -> list[_Window]:
    """Files that only their path speaks for."""
    return [
        _Window(path, 1, set())
        for path in paths
        if path not in found and any(word in path.lower() for word in words)
    ]


def _score(window: _Window, weights: dict[str, float]) -> float:
    path = window.path.lower()
    named = sum(weight for word, weight in weights.items() if word in path)
    return sum(weights[word] for word in window.words) + _PATH_WEIGHT * named


def _result(root: Path, window: _Window, score: float) -> Result:
    lines = read_text(root / window.path).splitlines()
    # The line before is often what the first match belongs to: a comment, a decorator.
    first = max(1, window.first - 1)
    shown = lines[first - 1 : first - 1 + _WINDOW]
    why = (f"word: {' '.join(sorted(window.words))}",) if window.words else ("path",)
    return Result(
        path=window.path,
        start_line=first,
        end_line=first + max(1, len(shown)) - 1,
        symbol="",
        signature="",
        language="",
        score=score,
        why=why,
        text="\n".join(shown),
    )

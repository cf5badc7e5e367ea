"""Answers before the index is there: from the files' text and their names, within a second.

Lines that have the question's words are gathered into windows, and the files with the best windows
are read and cut into chunks. Those are ranked as the index would rank them, by BM25 and by what
names them, so that an answer looks the same before and after.
"""

import math
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from heapq import nlargest
from operator import itemgetter
from pathlib import Path

from composer_index.chunk import ParsedFile
from composer_index.files.read import ReadError, read_file
from composer_index.languages import language_of
from composer_index.parsing import parse_file
from composer_index.search.boost import Candidate, boost
from composer_index.search.result import Result
from composer_index.search.ripgrep import Line, matching_lines
from composer_index.search.shadow import Shadow
from composer_index.store.records import Filter, Hit, StoredChunk
from composer_index.store.sql import glob_within, matches
from composer_index.words import query_words, split_words, written_words

DEADLINE_S = 1.2
_MATCHING = 0.7
"""Of that time, for looking through all files; the rest is for reading the best ones."""
MAX_FILE_BYTES = 200_000
"""A larger file takes too long to parse."""
_NUM_FILES = 24
"""Files that are read, at most …"""
_NUM_BYTES = 300_000
"""… and their size together: some 0.15 s of parsing."""
_WINDOW = 20
"""Lines that belong together."""
_MAX_LINES = 50_000
"""Matching lines that are looked at: enough to rank by, and a bound on memory."""
_MIN_LENGTH = 2
"""Letters of a word worth looking for; shorter ones are on every line."""
_PATH_WEIGHT = 0.5
"""Of a word in the path, against one in the window."""
_MEAN_WORDS = 100.0
"""Of a chunk."""
_ASKING = frozenset(split_words("where what how who why which does do we you"))
"""Words of questions that no answer has."""

_Lines = list[tuple[int, frozenset[str]]]
"""A file's lines by number, and the words in each."""


def search_text(
    root: Path,
    paths: Sequence[str],
    query: str,
    k: int = 10,
    path_glob: str | None = None,
    language: str | None = None,
    deadline_s: float = DEADLINE_S,
) -> list[Result]:
    """Returns the `k` best chunks of `paths` (what the index would hold, relative to `root`), best
    first: of what was found within `deadline_s` seconds. Reads no other files; what comes first
    among `paths` is looked through first."""
    started = time.monotonic()
    words = _wanted(query)
    if path_glob or language:
        glob = glob_within(path_glob or "", str(root))
        chosen = Filter(path_glob=glob, language=language or "")
        paths = [path for path in paths if matches(chosen, path, language_of(path, b"").id)]
    found = _matching(root, paths, words, started + _MATCHING * deadline_s)
    weights = _Weights(words, found.values(), len(paths))
    likely = found.keys() | _named(paths, words)
    scores = {path: _score(query, path, found.get(path, []), words, weights) for path in likely}
    best = nlargest(_NUM_FILES, sorted(filter(scores.get, scores)), key=scores.__getitem__)
    shadow = Shadow(files={file.path: file for file in _parsed(root, best, started + deadline_s)})
    hits = shadow.match_words(words, Filter(), weights)
    ranked = nlargest(k, ((_boosted(query, words, hit), hit) for hit in hits), key=itemgetter(0))
    return [_result(shadow.chunk(hit.path, hit.ordinal), score, query) for score, hit in ranked]


def _wanted(query: str) -> list[str]:
    words = [word for word in query_words(query) if len(word) >= _MIN_LENGTH]
    return [word for word in words if word not in _ASKING] or words


def _matching(
    root: Path, paths: Sequence[str], words: Sequence[str], deadline: float
) -> dict[str, _Lines]:
    by_path: defaultdict[str, _Lines] = defaultdict(list)
    for count, line in enumerate(matching_lines(root, paths, words, deadline)):
        if here := _words_in(line, words):
            by_path[line.path].append((line.number, here))
        if count == _MAX_LINES:
            break
    return by_path


def _words_in(line: Line, words: Sequence[str]) -> frozenset[str]:
    low = line.text.lower()
    found = frozenset(word for word in words if word in low)
    # To split a line takes four times as long; of one word the pattern that found the line is sure.
    return found if len(found) < 2 else found.intersection(split_words(line.text))


def _named(paths: Iterable[str], words: Sequence[str]) -> set[str]:
    """Paths that may have one of the words."""
    lowered = ((path, path.lower()) for path in paths)
    return {path for path, low in lowered if any(word in low for word in words)}


class _Weights:
    """How much a word tells, by how few files have it."""

    def __init__(self, words: Sequence[str], files: Iterable[_Lines], num_files: int) -> None:
        having = dict.fromkeys(words, 0)
        for lines in files:
            for word in frozenset[str]().union(*(found for _, found in lines)):
                having[word] += 1
        self._weights = {
            word: math.log(1 + (num_files + 0.5) / (each + 0.5)) for word, each in having.items()
        }

    def weight(self, word: str) -> float:
        return self._weights[word]

    def average_length(self) -> float:
        return _MEAN_WORDS

    def of(self, words: Iterable[str]) -> float:
        return sum(self._weights[word] for word in words)


def _score(query: str, path: str, lines: _Lines, words: Sequence[str], weights: _Weights) -> float:
    """How likely a file is to hold an answer; 0 if it has none of the words."""
    named = weights.of(frozenset(words).intersection(split_words(path)))
    score = _best_window(lines, weights) + _PATH_WEIGHT * named
    if not score:
        return 0.0
    language = language_of(path, b"").id
    return score * boost(
        query, words, Candidate(path=path, language=language, names=(), is_function=False)
    )


def _best_window(lines: Sequence[tuple[int, frozenset[str]]], weights: _Weights) -> float:
    best = 0.0
    for index, (first, _) in enumerate(lines):
        here: set[str] = set()
        for number, found in lines[index : index + _WINDOW]:
            if number >= first + _WINDOW:
                break
            here |= found
        best = max(best, weights.of(here))
    return best


def _parsed(root: Path, paths: Iterable[str], deadline: float) -> Iterator[ParsedFile]:
    num_bytes = 0
    for path in paths:
        try:
            data = read_file(str(root), path, max_bytes=MAX_FILE_BYTES)
        except ReadError:
            continue
        num_bytes += len(data)
        parsed = parse_file(path, data)
        if isinstance(parsed, ParsedFile):
            yield parsed
        if num_bytes > _NUM_BYTES or time.monotonic() > deadline:
            return


def _boosted(query: str, words: Sequence[str], hit: Hit) -> float:
    candidate = Candidate(
        path=hit.path, language=hit.language, names=hit.names, is_function=hit.is_function
    )
    return hit.score * boost(query, words, candidate)


def _result(chunk: StoredChunk, score: float, query: str) -> Result:
    here, written = set(split_words(chunk.text)), written_words(query)
    matched = [written[word] for word in _wanted(query) if word in here]
    why = (f"word: {' '.join(matched)}",) if matched else ("path",)
    return Result.of(chunk, score=score, why=why)

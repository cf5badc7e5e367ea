"""What belongs to a place in the code, for Tab: what it imports, its siblings, its test, and what is
edited together with it."""

import posixpath
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from composer_index.search.history import History
from composer_index.search.imports import Places, places
from composer_index.search.result import Result
from composer_index.search.shadow import Shadow
from composer_index.search.tested import tested_stem
from composer_index.store.records import StoredChunk

if TYPE_CHECKING:
    from composer_index.store.store import Store

_MAX_IMPORTS = 40
"""Of a file's, that are looked up."""
_MAX_FILES = 12
"""Imported files whose text is looked at."""
_KINDS = {"import": (1.0, 8), "sibling": (0.8, 4), "test": (0.6, 2), "edited together": (0.5, 4)}
"""The score of the first of each kind, and how many there are at most."""
_IDENTIFIER = re.compile(r"[^\W\d]\w*")


@dataclass(frozen=True, slots=True)
class _Place:
    """Where the caret is."""

    path: str
    line: int
    language: str
    chunks: Sequence[StoredChunk]
    here: StoredChunk
    identifiers: frozenset[str]
    """Around the caret: what another piece of code has to define to matter."""


def find_related(
    store: "Store",
    shadow: Shadow,
    path: str,
    line: int,
    *,
    history: History | None = None,
    limit: int = 12,
) -> list[Result]:
    """Returns pieces of code that belong to `line` (1-based) of `path`, best first, each with the
    kind of tie in `why`; nothing for a file that is not indexed."""
    files = _Files(store, shadow)
    place = _place(files, path, line)
    if place is None:
        return []
    found = [
        *_results("import", _imported(files, place)),
        *_results("sibling", _siblings(place)),
        *_results("test", _best_chunks(files, place, _tests(files, path))),
        *_results("edited together", _best_chunks(files, place, _together(files, path, history))),
    ]
    distinct: dict[tuple[str, int], Result] = {}
    for result in sorted(found, key=lambda each: -each.score):
        distinct.setdefault((result.path, result.start_line), result)
    return list(distinct.values())[:limit]


def _place(files: "_Files", path: str, line: int) -> _Place | None:
    chunks = files.chunks_of([path])
    if not chunks:
        return None
    here = min(chunks, key=lambda chunk: _distance(chunk, line))
    identifiers = frozenset(_IDENTIFIER.findall(here.text))
    return _Place(path, line, here.language, chunks, here, identifiers)


def _distance(chunk: StoredChunk, line: int) -> int:
    return max(chunk.start_line - line, line - chunk.end_line, 0)


def _imported(files: "_Files", place: _Place) -> list[StoredChunk]:
    """Of the imported files, the pieces that define what is named around the caret."""
    imports = files.imports_of(place.path)[:_MAX_IMPORTS]
    found = resolve(place.path, place.language, imports, files.existing, files.ending)
    chunks = files.chunks_of([path for path in found if path != place.path][:_MAX_FILES])
    named = [chunk for chunk in chunks if not place.identifiers.isdisjoint(chunk.names)]
    # By how many of a piece's own names occur, and the files in the order of their imports.
    order = {path: rank for rank, path in enumerate(found)}
    named.sort(key=lambda chunk: (-_num_named(chunk, place), order[chunk.path], chunk.ordinal))
    return named


def _num_named(chunk: StoredChunk, place: _Place) -> int:
    return len(place.identifiers.intersection(chunk.names))


def resolve(
    path: str,
    language: str,
    imports: Iterable[str],
    existing: Callable[[Sequence[str]], set[str]],
    ending: Callable[[Sequence[str]], list[str]],
) -> list[str]:
    """Returns the files that `imports` mean, in their order.

    `existing` tells which of some paths are there, `ending` which paths have one of some endings;
    each is asked once.
    """
    wanted = [places(path, language, name) for name in imports]
    there = existing([each for one in wanted for each in one.paths])
    missing = [one for one in wanted if there.isdisjoint(one.paths)]
    endings = list(dict.fromkeys(each for one in missing for each in one.endings))
    ended = ending(endings) if endings else []
    found: dict[str, None] = {}
    for one in wanted:
        direct = next((each for each in one.paths if each in there), None)
        for each in [direct] if direct else _nearest(path, one, ended):
            found[each] = None
    return list(found)


def _nearest(path: str, wanted: Places, ended: Sequence[str]) -> list[str]:
    """The longest ending that any file has; of several files, the one nearest to `path`; of a
    folder, all its files."""
    for end in wanted.endings:
        if end.endswith("/"):
            matching = [
                each for each in ended if f"/{each.rpartition('/')[0]}/".endswith(f"/{end}")
            ]
            if matching:
                return matching
        else:
            matching = [each for each in ended if f"/{each}".endswith(f"/{end}")]
            if matching:
                return [max(matching, key=lambda each: len(posixpath.commonprefix([each, path])))]
    return []


def _siblings(place: _Place) -> list[StoredChunk]:
    """Pieces of the same class before others, and the near before the far."""
    around = place.here.symbol.rpartition(".")[0]
    others = [chunk for chunk in place.chunks if chunk.ordinal != place.here.ordinal]
    return sorted(
        others,
        key=lambda chunk: (
            not (around and chunk.symbol.startswith(around)),
            _distance(chunk, place.line),
        ),
    )


def _tests(files: "_Files", path: str) -> list[str]:
    """The test of a source file, or the source of a test, by their names."""
    stem, extension = posixpath.splitext(posixpath.basename(path))
    if (bare := tested_stem(path)) is not None:
        names = [f"{bare}{extension}"]
    else:
        ends = ("_test", "_spec", ".test", ".spec", "Test", "Tests", "IT", "Spec")
        names = [f"test_{stem}{extension}", *(f"{stem}{end}{extension}" for end in ends)]
    found = [each for each in files.ending(names) if each != path]
    shared = {each: len(posixpath.commonprefix([each, path])) for each in found}
    return sorted(found, key=lambda each: (-shared[each], len(each)))


def _together(files: "_Files", path: str, history: History | None) -> list[str]:
    if history is None:
        return []
    found = history.together(path, 2 * _KINDS["edited together"][1])
    there = files.existing(found)
    return [each for each in found if each in there]


def _best_chunks(files: "_Files", place: _Place, paths: Sequence[str]) -> list[StoredChunk]:
    """Of each file the piece that has most in common with the place."""
    paths = paths[: max(most for _, most in _KINDS.values())]
    best: dict[str, tuple[int, StoredChunk]] = {}
    for chunk in files.chunks_of(paths):
        common = len(place.identifiers.intersection(_IDENTIFIER.findall(chunk.text)))
        if chunk.path not in best or common > best[chunk.path][0]:
            best[chunk.path] = (common, chunk)
    return [best[path][1] for path in paths if path in best]


def _results(kind: str, chunks: Sequence[StoredChunk]) -> list[Result]:
    first, most = _KINDS[kind]
    return [
        Result.of(chunk, score=first - 0.05 * rank, why=(kind,))
        for rank, chunk in enumerate(chunks[:most])
    ]


class _Files:
    """The store's files, the buffers in place of the disk's."""

    def __init__(self, store: "Store", shadow: Shadow) -> None:
        self._store = store
        self._shadow = shadow

    def chunks_of(self, paths: Sequence[str]) -> list[StoredChunk]:
        """In the order of `paths`, and of the files."""
        shadowed = self._shadow.files
        stored = self._store.chunks_of([path for path in paths if path not in shadowed])
        unsaved = [
            self._shadow.chunk(path, ordinal)
            for path in paths
            if path in shadowed
            for ordinal in range(len(shadowed[path].chunks))
        ]
        order = {path: rank for rank, path in enumerate(paths)}
        return sorted([*stored, *unsaved], key=lambda chunk: (order[chunk.path], chunk.ordinal))

    def imports_of(self, path: str) -> tuple[str, ...]:
        unsaved = self._shadow.files.get(path)
        return self._store.imports_of(path) if unsaved is None else unsaved.imports

    def existing(self, paths: Sequence[str]) -> set[str]:
        return self._store.indexed_among(paths) | self._shadow.paths.intersection(paths)

    def ending(self, endings: Sequence[str]) -> list[str]:
        return self._store.paths_ending(endings)

"""Several roots, asked as one."""

from collections.abc import Iterator, Sequence
from itertools import zip_longest
from typing import TYPE_CHECKING

from composer_index.ignores import ComposerIgnore
from composer_index.search.language_filter import check_language
from composer_index.search.ranking import search_all
from composer_index.search.result import Result

if TYPE_CHECKING:
    from composer_index.root import RootIndex


def search_roots(
    indexes: "Sequence[RootIndex]",
    query: str,
    k: int = 10,
    path_glob: str | None = None,
    language: str | None = None,
) -> list[Result]:
    """Returns the `k` best places of all roots, best first, each once: roots may be nested. Of those
    that are not complete, the text of what is not indexed yet is searched as well.

    Raises: GlobError, LanguageError.
    """
    if language:
        check_language(language)
    searchers = {
        index.root: searcher for index in indexes if (searcher := index.searcher) is not None
    }
    # Of nested roots each may find the same.
    found = search_all(searchers, query, k * len(searchers), path_glob, language)
    # What was hidden just now, the stores have not forgotten yet.
    ignore = ComposerIgnore()
    indexed = [each for each in found if ignore.hidden_by(f"{each.root}/{each.path}") is None]
    for index in indexes:
        index.was_asked([each.path for each in indexed[:k] if each.root == index.root])
    cold = [
        each for index in indexes for each in index.search_unindexed(query, k, path_glob, language)
    ]
    cold.sort(key=lambda each: -each.score)
    distinct: dict[tuple[str, int, int], Result] = {}
    for each in _in_turn(indexed, cold):
        place = f"{each.root}/{each.path}", each.start_line, each.end_line
        distinct.setdefault(place, each)
    return list(distinct.values())[:k]


def _in_turn(indexed: Sequence[Result], cold: Sequence[Result]) -> Iterator[Result]:
    """Results of both kinds by turns: their scores do not compare. Where they show the same lines
    the indexed one, which knows more, stays."""
    fresh = [each for each in cold if not any(_overlap(each, other) for other in indexed)]
    pairs = zip_longest(indexed, fresh)
    return (each for pair in pairs for each in pair if each is not None)


def _overlap(one: Result, other: Result) -> bool:
    return (
        (one.root, one.path) == (other.root, other.path)
        and one.start_line <= other.end_line
        and other.start_line <= one.end_line
    )

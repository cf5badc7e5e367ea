"""Several roots, one ranking: as if one store held them all."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from composer_index.search.query import Searcher
from composer_index.search.ranking import search_all
from composer_index.search.result import Result
from composer_index.search.shadow import Shadow
from composer_index.store.store import Store
from tests.composer_index.search.test_query import TopicEmbedder
from tests.composer_index.store.building import indexed, parsed

Files = dict[str, tuple[str, ...]]

ONE: Files = {
    f"one/f{number}.py": (f"parse_{number} alpha url text", f"write_{number} text " * number)
    for number in range(1, 13)
}
OTHER: Files = {
    f"other/g{number}.py": (f"render_{number} text beta", f"url_{number} parse gamma words words")
    for number in range(3)
}
QUERIES = ["parse alpha url", "text", "render beta", "words of an url", "nothing here matches"]


@pytest.fixture
def searcher(tmp_path: Path) -> Iterator[Callable[[Files], Searcher]]:
    opened: list[Store] = []

    def make(files: Files) -> Searcher:
        store = Store.open(tmp_path / f"store{len(opened)}")
        opened.append(store)
        vectors = TopicEmbedder()
        store.upsert_files(
            [
                indexed(path, *texts, vectors={"topics": vectors.embed(texts)})
                for path, texts in files.items()
            ]
        )
        return Searcher(store, vectors)

    yield make
    for store in opened:
        store.close()


def scores(results: Sequence[Result]) -> dict[tuple[str, int], float]:
    return {(each.path, each.start_line): each.score for each in results}


def test_several_stores_rank_as_one_would(searcher: Callable[[Files], Searcher]):
    whole = searcher(ONE | OTHER)
    parts = {"/one": searcher(ONE), "/other": searcher(OTHER)}
    for query in QUERIES:
        found, expected = search_all(parts, query, 50), whole.search(query, 50)
        assert scores(found) == pytest.approx(scores(expected), rel=1e-3)
        assert len(found) == len(expected)


def test_a_root_that_knows_no_answer_stays_below_one_that_does(
    searcher: Callable[[Files], Searcher],
):
    relevant = searcher({f"f{n}.py": (f"parse_{n} url of an address",) for n in range(5)})
    irrelevant = searcher({f"g{n}.py": ("menu lists an address",) for n in range(5)})
    found = search_all({"/a": irrelevant, "/b": relevant}, "parse url address", 8)
    assert [each.root for each in found] == ["/b"] * 5 + ["/a"] * 3


def test_one_file_among_a_large_root(searcher: Callable[[Files], Searcher]):
    large = searcher({f"f{n}.py": (f"parse_{n} text of a page",) for n in range(40)})
    small = searcher({"only.py": ("socket text is parsed of a page",)})
    roots = {"/large": large, "/small": small}
    assert search_all(roots, "open a socket", 5)[0].root == "/small"
    assert {each.root for each in search_all(roots, "parse_7 page", 5)} == {"/large"}


def test_unsaved_text_takes_part(searcher: Callable[[Files], Searcher]):
    one, other = searcher(ONE), searcher(OTHER)
    one.shadow = Shadow(files={"new.py": parsed("new.py", "quaternion rotates a body")})
    (first, *_) = search_all({"/one": one, "/other": other}, "quaternion text", 5)
    assert (first.root, first.path) == ("/one", "new.py")


def test_an_empty_root_changes_nothing(searcher: Callable[[Files], Searcher]):
    one = searcher(ONE)
    both = search_all({"/one": one, "/empty": searcher({})}, "parse alpha url", 5)
    assert [each.path for each in both] == [each.path for each in one.search("parse alpha url", 5)]


def test_a_glob_may_name_a_root(searcher: Callable[[Files], Searcher]):
    roots = {"/one": searcher(ONE), "/other": searcher(OTHER)}
    found = search_all(roots, "text", 50, path_glob="/other/other/g0.py")
    assert {(each.root, each.path) for each in found} == {("/other", "other/g0.py")}

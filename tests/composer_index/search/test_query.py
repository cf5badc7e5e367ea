"""Search over a small store: filters, unsaved buffers, reasons, symbols, references, reranking."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest

from composer_index.chunk import ParsedFile
from composer_index.parsing import parse_file
from composer_index.search import symbols
from composer_index.search.query import Searcher
from composer_index.search.shadow import Shadow
from composer_index.store.records import FileStat, IndexedFile
from composer_index.store.store import Store
from tests.composer_index.store.building import DIM, indexed, parsed, stat_of


class TopicEmbedder:
    """A text's vector is the topic that it names: "alpha" is the first, and so on."""

    name = "topics"
    dim = DIM
    topics = ("alpha", "beta", "gamma", "delta")

    def embed(self, texts: Sequence[str]):
        vectors = np.zeros((len(texts), DIM), np.float32)
        for row, text in zip(vectors, texts, strict=True):
            row[next((n for n, topic in enumerate(self.topics) if topic in text), 7)] = 1
        return vectors


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    opened = Store.open(tmp_path / "store")
    yield opened
    opened.close()


def put(store: Store, path: str, *texts: str) -> None:
    store.upsert_files([indexed(path, *texts, vectors={"topics": TopicEmbedder().embed(texts)})])


def put_prose(store: Store, text: str) -> None:
    """In a test's folder: what no boost favours."""
    prose = parsed("tests/a.md", text, language="markdown")
    vectors = {"topics": TopicEmbedder().embed([text])}
    store.upsert_files([IndexedFile(parsed=prose, stat=stat_of(1), vectors=vectors)])


def paths(searcher: Searcher, query: str, **filters: str) -> list[str]:
    return [result.path for result in searcher.search(query, **filters)]


def test_words_and_meaning_are_found_and_say_so(store: Store):
    put(store, "a.py", "parse_url splits an address")
    put(store, "b.py", "unrelated alpha")
    put(store, "c.py", "another")
    results = Searcher(store, TopicEmbedder()).search("parse alpha", k=2)
    assert [result.path for result in results] == ["a.py", "b.py"]
    assert results[0].why == ("word: parse", "symbol")
    assert results[1].why == ("word: alpha", "meaning")
    assert results[0].text == "parse_url splits an address"
    assert (results[0].start_line, results[0].end_line) == (1, 1)


class KnowsFewWords(TopicEmbedder):
    """All zero for a text with none of the topics."""

    def embed(self, texts: Sequence[str]):
        vectors = super().embed(texts)
        vectors[:, 7] = 0
        return vectors


def test_the_only_place_of_a_word_that_meaning_does_not_know_is_all_that_is_found(store: Store):
    for number in range(40):
        put(store, f"f{number}.py", f"alpha_{number} text")
    put_prose(store, "title of walruscounter")
    assert paths(Searcher(store, KnowsFewWords()), "walruscounter") == ["tests/a.md"]


def test_a_word_alone_comes_before_meaning(store: Store):
    for number in range(40):
        put(store, f"f{number}.py", f"alphabetic_{number} text")
    put_prose(store, "title of Alpha")
    found = Searcher(store, TopicEmbedder()).search("alpha")
    assert found[0].path == "tests/a.md"
    assert [result.why for result in found[1:]] == [("meaning",)] * 9


def test_all_words_of_a_name_come_before_some(store: Store):
    for number in range(40):
        put(store, f"f{number}.py", "counter text" if number < 9 else "text")
    put_prose(store, "title of walrus_counter")
    assert paths(Searcher(store), "walrusCounter")[0] == "tests/a.md"


def test_a_question_with_a_word_that_meaning_does_not_know_goes_by_words(store: Store):
    for number in range(40):
        put(store, f"f{number}.py", f"alphabetic_{number} text")
    put_prose(store, "title of walruscounter")
    searcher = Searcher(store, KnowsFewWords())
    assert paths(searcher, "walruscounter alpha")[0] == "tests/a.md"


def test_without_words_nothing_is_found(store: Store):
    put(store, "a.py", "parse text")
    assert paths(Searcher(store, TopicEmbedder()), "???") == []


def test_filters_choose_before_ranking(store: Store):
    for number in range(150):
        put(store, f"many/f{number}.py", "parse parse parse")
    put(store, "few/g.py", "other parse words here")
    searcher = Searcher(store, TopicEmbedder())
    assert paths(searcher, "parse", path_glob="few/**") == ["few/g.py"]
    assert paths(searcher, "parse", path_glob="few/**", language="go") == []
    assert len(paths(searcher, "parse", language="python")) == 10


def test_a_script_of_a_page_is_found_by_its_own_language(store: Store):
    page = "<p>parse</p>\n<script>\nparse(page);\n</script>\n"
    file = parse_file("page.html", page.encode())
    assert isinstance(file, ParsedFile)
    stat = FileStat(size=len(page), mtime_ns=1, content_hash="")
    store.upsert_files([IndexedFile(parsed=file, stat=stat)])
    searcher = Searcher(store)
    for _ in ("stored", "unsaved"):
        found = searcher.search("parse page", language="javascript")
        assert [(each.language, each.start_line) for each in found] == [("javascript", 2)]
        searcher.shadow = Shadow(files={"page.html": file})


def test_an_unsaved_buffer_hides_the_disks_and_is_ranked_among_the_store(store: Store):
    put(store, "a.py", "parse_url here")
    for number in range(20):
        put(store, f"f{number}.py", f"filler words {number}")
    put(store, "b.py", "parse_json there with a longer text about other things")
    searcher = Searcher(store, TopicEmbedder())
    assert paths(searcher, "parse url")[0] == "a.py"
    text = "parse_url now in an unsaved buffer"
    searcher.shadow = Shadow(
        files={"a.py": parsed("a.py", "emptied"), "new.py": parsed("new.py", text)},
        vectors={"new.py": TopicEmbedder().embed([text])},
    )
    found = searcher.search("parse url")
    assert [result.path for result in found[:2]] == ["new.py", "b.py"]
    assert found[0].text == text
    assert "a.py" not in paths(searcher, "parse url here")


def test_the_shadow_scores_as_the_store_does(store: Store):
    texts = ["parse_url splits", "parse_json reads more text than that", "url url url"]
    for number in range(30):
        put(store, f"f{number}.py", f"filler text {number}")
    for number, text in enumerate(texts):
        put(store, f"p{number}.py", text)
    store.refresh_indices()
    searcher = Searcher(store)
    before = [(each.path, round(each.score, 2)) for each in searcher.search("parse url", k=3)]
    searcher.shadow = Shadow(files={"p1.py": parsed("p1.py", texts[1])})
    after = [(each.path, round(each.score, 2)) for each in searcher.search("parse url", k=3)]
    assert [path for path, _ in after] == [path for path, _ in before]
    for (_, one), (_, other) in zip(before, after, strict=True):
        assert other == pytest.approx(one, rel=0.1)  # one chunk fewer moves the weights a little


def test_definitions_and_references(store: Store):
    put(store, "a.py", "get_url = 1", "call get_url\nget_urls\nx get_url")
    put(store, "b.py", "get_url again")
    searcher = Searcher(store)
    assert [each.path for each in searcher.definitions("get_url")] == ["a.py", "b.py"]
    assert [(each.path, each.line) for each in searcher.references("get_url")] == [
        ("a.py", 1),
        ("a.py", 11),
        ("a.py", 13),
        ("b.py", 1),
    ]
    searcher.shadow = Shadow(files={"b.py": parsed("b.py", "nothing", "calls get_url")})
    assert [each.path for each in searcher.definitions("get_url")] == ["a.py"]
    assert [(each.path, each.line) for each in searcher.references("get_url")][-1] == ("b.py", 11)


SYMBOLS = {
    "get_query_set": ["get_query_set"],
    "get_q": ["get_query_set"],
    "gqs": ["get_query_set", "GetQuerySet"],
    "GQS": ["GetQuerySet"],
    "QuerySet": ["GetQuerySet"],
    "gtqry": ["get_query_set", "GetQuerySet"],
    "zzz": [],
}


@pytest.mark.parametrize(("query", "names"), SYMBOLS.items(), ids=list(SYMBOLS))
def test_symbols_by_a_part_of_their_name(store: Store, query: str, names: list[str]):
    put(store, "a.py", "get_query_set", "GetQuerySet", "unrelated")
    found = [each.name for each in Searcher(store).symbols(query)]
    assert found[: len(names)] == names or sorted(found) == sorted(names)


def test_an_exact_name_is_found_among_very_many(store: Store, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(symbols, "_MAX_SCANNED", 2)
    put(store, "a.py", "r_u_n_a", "r_u_n_b", "run")
    assert Searcher(store).symbols("run")[0].name == "run"


def test_a_query_of_special_characters_is_no_error(store: Store):
    put(store, "a.py", "text")
    searcher = Searcher(store, TopicEmbedder())
    for query in ("", "'", "\\", '"a" AND (', "*", "naïve ☃", "a\nb", "\0", "%_", "[", "x" * 5000):
        searcher.search(query)
        searcher.symbols(query)
        searcher.references(query)
        searcher.definitions(query)
    for glob in (
        "",
        "'",
        '"a" AND (',
        "*",
        "naïve ☃",
        "a\nb",
        "\0",
        "%_",
        "]",
        "\ud800",
        "x" * 999,
    ):
        searcher.search("text", path_glob=glob)


class Backwards:
    """Scores later texts higher."""

    def rerank(self, query: str, texts: Sequence[str]) -> Sequence[float]:
        return [float(rank) for rank in range(len(texts))]


class Unreachable:
    def rerank(self, query: str, texts: Sequence[str]) -> Sequence[float]:
        raise ConnectionRefusedError("no engine")


def test_a_reranker_has_a_word_while_it_can_be_reached(store: Store):
    for number in range(5):
        put(store, f"f{number}.py", "parse " * (number + 1))
    plain = paths(Searcher(store), "parse text")
    turned = [plain[place] for place in (4, 0, 3, 1, 2)]
    assert paths(Searcher(store, reranker=Backwards()), "parse text") == turned
    assert paths(Searcher(store, reranker=Unreachable()), "parse text") == plain


def test_a_word_alone_is_not_reranked(store: Store):
    for number in range(5):
        put(store, f"f{number}.py", "parse " * (number + 1))
    assert paths(Searcher(store, reranker=Backwards()), "parse") == paths(Searcher(store), "parse")


def test_an_embedder_that_cannot_be_reached_costs_only_meaning(store: Store):
    put(store, "a.py", "parse text")

    class Gone(TopicEmbedder):
        def embed(self, texts: Sequence[str]):
            raise ConnectionRefusedError("no engine")

    assert paths(Searcher(store, Gone()), "parse") == ["a.py"]

"""The store's promises: what was put in is found, replaced as a whole, and gone when deleted."""

import re
from pathlib import Path

import pytest

from composer_index.chunk import SkippedFile
from composer_index.store.errors import NotWriterError
from composer_index.store.records import Filter, StoreEvent
from composer_index.store.sql import GlobError, glob_within, matches
from composer_index.store.store import Store
from composer_index.words import split_words
from tests.composer_index.store.building import indexed, one_hot, stat_of, texts_in

EVERYTHING = Filter()


@pytest.fixture
def store(tmp_path: Path):
    opened = Store.open(tmp_path / "store")
    yield opened
    opened.close()


def found(store: Store, query: str, chosen: Filter = EVERYTHING) -> list[str]:
    return [hit.path for hit in store.match_words(split_words(query), 10, chosen)]


def test_finds_what_was_stored_before_and_after_indexing(store: Store):
    store.upsert_files([indexed("a.py", "parse_url text"), indexed("b.py", "read_file other")])
    assert found(store, "url") == ["a.py"]
    store.refresh_indices()
    store.upsert_files([indexed("c.py", "join_url more")])
    assert sorted(found(store, "url")) == ["a.py", "c.py"]


def test_replaces_a_file_as_a_whole(store: Store):
    store.upsert_files([indexed("a.py", "one", "two", "three")])
    store.upsert_files([indexed("a.py", "four", number=2)])
    assert texts_in(store) == {"a.py": ["four"]}
    assert store.definitions_named("two") == []
    assert [each.symbol for each in store.definitions_named("four")] == ["four"]
    assert [file.stat for file in store.known_files()] == [stat_of(2)]


def test_a_file_without_chunks_is_known(store: Store):
    store.upsert_files([indexed("a.py", "one")])
    store.upsert_files([indexed("a.py", number=2)])
    assert texts_in(store) == {"a.py": []}
    assert found(store, "one") == []


def test_skipped_files_lose_what_was_indexed(store: Store):
    store.upsert_files([indexed("a.py", "one")])
    store.mark_skipped([(SkippedFile(path="a.py", reason="secret"), stat_of(2))])
    assert found(store, "one") == []
    assert [(file.path, file.skipped) for file in store.known_files()] == [("a.py", "secret")]
    assert store.counts().num_skipped == {"secret": 1}


def test_deletes_files(store: Store):
    store.upsert_files([indexed("a.py", "one"), indexed("b.py", "one")])
    store.delete_files(["a.py", "unknown.py"])
    assert texts_in(store) == {"b.py": ["one"]}
    assert found(store, "one") == ["b.py"]


@pytest.mark.parametrize(
    "path",
    [
        "it's.py",
        "naïve/ß.py",
        "line\nbreak.py",
        "undecodable\udcff\udc80.py",
        "100%_\\.py",
        '"q".py',
    ],
)
def test_any_path_can_be_stored_replaced_filtered_and_deleted(store: Store, path: str):
    store.upsert_files([indexed(path, "one"), indexed("other.py", "one")])
    store.upsert_files([indexed(path, "two")])
    assert texts_in(store) == {path: ["two"], "other.py": ["one"]}
    assert found(store, "two", chosen=Filter(without=frozenset({path}))) == []
    store.delete_files([path])
    assert texts_in(store) == {"other.py": ["one"]}


def test_text_that_is_no_unicode_is_stored_with_question_marks(store: Store):
    store.upsert_files([indexed("a.py", "one \ud800 end")])
    assert texts_in(store) == {"a.py": ["one ? end"]}


GLOB_PATHS = [
    "a.py",
    "src/b.py",
    "src/deep/c.py",
    "src/x-y.ts",
    "srcs/d.md",
    "a[1].py",
    "-/src/-.py",
]
GLOBS = {
    "**/*.py": ["-/src/-.py", "a.py", "a[1].py", "src/b.py", "src/deep/c.py"],
    "*.py": ["-/src/-.py", "a.py", "a[1].py", "src/b.py", "src/deep/c.py"],
    "/*.py": ["a.py", "a[1].py"],
    "./*.py": ["a.py", "a[1].py"],
    "./a.py": ["a.py"],
    "./src/*.py": ["src/b.py"],
    "src/*.py": ["src/b.py"],
    "src/**": ["src/b.py", "src/deep/c.py", "src/x-y.ts"],
    "src/": ["-/src/-.py", "src/b.py", "src/deep/c.py", "src/x-y.ts"],
    "/src/": ["src/b.py", "src/deep/c.py", "src/x-y.ts"],
    "src/deep/": ["src/deep/c.py"],
    "src/**/c.py": ["src/deep/c.py"],
    "src/{b,deep/c}.py": ["src/b.py", "src/deep/c.py"],
    "{{a,b},c}.py": ["a.py", "src/b.py", "src/deep/c.py"],
    "{src/{b,?-y},a}.{py,ts}": ["a.py", "src/b.py", "src/x-y.ts"],
    "{[,b],x}.py": ["src/b.py"],
    "src/[a-b].py": ["src/b.py"],
    "src/[!a]*.ts": ["src/x-y.ts"],
    "[^b].py": ["-/src/-.py", "a.py", "src/deep/c.py"],
    "[[:alpha:]].py": ["a.py", "src/b.py", "src/deep/c.py"],
    "[+--].py": ["-/src/-.py"],
    "src[.-0]b.py": [],
    "src[/]b.py": [],
    "src[[:print:]]b.py": [],
    "[[:print:]].py": ["-/src/-.py", "a.py", "src/b.py", "src/deep/c.py"],
    r"a\.py": ["a.py"],
    r"a\[1\].py": ["a[1].py"],
    r"\{a,b}.py": [],
    "src/?-y.ts": ["src/x-y.ts"],
    "sr": [],
    "src": [],
    ".": sorted(GLOB_PATHS),
    "./": sorted(GLOB_PATHS),
    "/": sorted(GLOB_PATHS),
    "?" * 1000: [],
    "{" + "?" * 900 + ",?.py}": ["-/src/-.py", "a.py", "src/b.py", "src/deep/c.py"],
    "?" * 900 + "{a,b}{a,b}": [],
}
BAD_GLOBS = {
    "[": 'it has a "[" without its "]"',
    "{[ab}": 'it has a "[" without its "]"',
    "{a,b": 'it has a "{" without its "}"',
    "{a,{b}": 'it has a "{" without its "}"',
    "a\\": "it ends with a backslash",
    "[z-a]": "it has a range z-a that runs backwards",
    "[a--c].py": "it has a range a-- that runs backwards",
    "[[:letter:]]": "a set [:letter:] that does not exist",
    "a" * 200_000: "more than 1,000 characters",
    "{a,b}" * 99: "more than 4,000 characters",
}


@pytest.mark.parametrize(("glob", "paths"), GLOBS.items(), ids=lambda each: ascii(each)[:30])
def test_a_glob_chooses_before_ranking(store: Store, glob: str, paths: list[str]):
    store.upsert_files([indexed(path, "word") for path in GLOB_PATHS])
    chosen = Filter(path_glob=glob)
    assert sorted(found(store, "word", chosen=chosen)) == paths
    assert sorted(path for path in GLOB_PATHS if matches(chosen, path, "python")) == paths


@pytest.mark.parametrize(("glob", "told"), BAD_GLOBS.items(), ids=lambda each: ascii(each)[:30])
def test_what_is_no_glob_is_told(store: Store, glob: str, told: str):
    with pytest.raises(GlobError, match=re.escape(told)):
        found(store, "word", chosen=Filter(path_glob=glob))
    with pytest.raises(GlobError, match=re.escape(told)):
        matches(Filter(path_glob=glob), "a.py", "python")


@pytest.mark.parametrize(
    ("glob", "expected"),
    [
        ("/w/shop", "/"),
        ("/w/shop/", "/"),
        ("/w/shop/src/*.py", "/src/*.py"),
        ("/w/shops/*.py", "/w/shops/*.py"),
        ("*.py", "*.py"),
    ],
)
def test_a_glob_may_begin_with_the_folders_path(glob: str, expected: str):
    assert glob_within(glob, "/w/shop") == expected


def test_nearest_goes_by_the_vectors_of_the_embedder_in_use(store: Store):
    store.upsert_files([indexed("a.py", "one", "two", vectors={"small": one_hot(0, 1)})])
    assert store.embedder == "small"
    hits = store.nearest("small", one_hot(1)[0], 1, EVERYTHING)
    assert [(hit.ordinal, round(hit.score, 3)) for hit in hits] == [(1, 1.0)]
    assert store.nearest("large", one_hot(1)[0], 1, EVERYTHING) == []


def test_switching_the_embedder_leaves_no_gap(store: Store):
    store.upsert_files(
        [
            indexed("a.py", "one", vectors={"small": one_hot(0)}),
            indexed("b.py", "two", vectors={"small": one_hot(1)}),
        ]
    )
    assert store.unembedded("large") == ["a.py", "b.py"]
    store.put_vectors("large", store.chunks_of(["a.py"]), one_hot(5))
    assert store.unembedded("large") == ["b.py"]
    assert store.nearest(store.embedder, one_hot(0)[0], 1, EVERYTHING)[0].path == "a.py"
    store.put_vectors("large", store.chunks_of(["b.py"]), one_hot(6))
    store.switch_embedder("large")
    assert store.embedder == "large"
    assert store.nearest("large", one_hot(6)[0], 1, EVERYTHING)[0].path == "b.py"
    assert store.nearest("small", one_hot(0)[0], 1, EVERYTHING) == []


def test_switching_keeps_what_it_is_told_to_and_drops_what_was_half_filled(store: Store):
    store.upsert_files([indexed("a.py", "one", vectors={"small": one_hot(0)})])
    for name in ("half", "large"):
        store.put_vectors(name, store.chunks_of(["a.py"]), one_hot(5))
    store.switch_embedder("large", keep=("small",))
    found = {
        name: len(store.nearest(name, one_hot(0)[0], 1, EVERYTHING))
        for name in ("small", "half", "large")
    }
    assert found == {"small": 1, "half": 0, "large": 1}
    store.upsert_files([indexed("a.py", "one again", vectors={"small": one_hot(0)})])
    assert store.embedder == "large"
    store.switch_embedder("small")
    assert store.embedder == "small"
    assert store.nearest("large", one_hot(5)[0], 1, EVERYTHING) == []


def test_a_file_that_changed_while_it_was_embedded_stays_unembedded(store: Store):
    store.upsert_files([indexed("a.py", "one")])
    old = store.chunks_of(["a.py"])
    store.upsert_files([indexed("a.py", "two")])
    store.put_vectors("large", old, one_hot(0))
    assert store.unembedded("large") == ["a.py"]
    hits = store.nearest("large", one_hot(0)[0], 1, EVERYTHING)
    assert store.chunks_at(hits) == {}


def test_one_writes_and_all_search(store: Store, tmp_path: Path):
    reader = Store.open(tmp_path / "store")
    assert store.is_writer and not reader.is_writer
    store.upsert_files([indexed("a.py", "one")])
    assert found(reader, "one") == ["a.py"]
    store.upsert_files([indexed("a.py", "two")])
    assert found(reader, "one") == []
    with pytest.raises(NotWriterError):
        reader.upsert_files([indexed("b.py", "one")])
    store.close()
    assert reader.try_become_writer()
    reader.upsert_files([indexed("b.py", "two")])
    assert texts_in(reader) == {"a.py": ["two"], "b.py": ["two"]}
    reader.close()


def test_a_reader_follows_a_cleared_store(store: Store, tmp_path: Path):
    reader = Store.open(tmp_path / "store")
    store.upsert_files([indexed("a.py", "one")])
    assert texts_in(reader) == {"a.py": ["one"]}
    store.clear()
    assert texts_in(reader) == {}
    store.upsert_files([indexed("b.py", "two")])
    assert texts_in(reader) == {"b.py": ["two"]}


def purge(store: Store) -> int:
    while store.compact(purge=True, grace_s=0):
        pass
    return store.counts().disk_bytes


def test_a_purge_takes_deleted_text_off_the_disk(store: Store):
    store.upsert_files([indexed(f"f{n}.py", f"name{n} text") for n in range(300)])
    before = purge(store)
    secret = " ".join(f"{number:x}" for number in range(10**6, 10**6 + 20_000))
    store.upsert_files([indexed("secret.py", secret)])
    assert purge(store) > before + 50_000
    store.delete_files(["secret.py"])
    assert purge(store) < before + 10_000
    assert len(texts_in(store)) == 300
    assert found(store, "name7")[0] == "f7.py"


def test_searches_go_on_while_the_store_is_compacted(store: Store, tmp_path: Path):
    reader = Store.open(tmp_path / "store")
    for round_ in range(5):
        store.upsert_files([indexed(f"f{n}.py", f"word {round_} {n}") for n in range(20)])
        store.compact(purge=True, grace_s=0)
        assert len(texts_in(reader)) == 20
        assert len(found(reader, "word")) == 10


def test_the_folder_is_the_users_alone(store: Store, tmp_path: Path):
    assert (tmp_path / "store").stat().st_mode & 0o777 == 0o700


def test_rebuilding_is_told_once_and_nothing_else_is(tmp_path: Path):
    events: list[StoreEvent] = []
    store = Store.open(tmp_path / "store", events.append)
    store.upsert_files([indexed("a.py", "one")])
    store.close()
    Store.open(tmp_path / "store", events.append).close()
    assert events == []

"""Answers before the index: the same by ripgrep and by Python, of the listed files only, in time."""

import os
import re
import time
from pathlib import Path

import pytest

from composer_index.search import ripgrep
from composer_index.search.cold import search_text
from composer_index.words import split_words


@pytest.fixture(params=["ripgrep", "python"])
def tree(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    if request.param == "python":
        monkeypatch.setattr(ripgrep, "find_ripgrep", lambda: None)
    elif ripgrep.find_ripgrep() is None:
        pytest.skip("no ripgrep")
    return tmp_path


def write(root: Path, files: dict[str, str]) -> list[str]:
    for path, text in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
    return list(files)


def test_the_chunk_with_the_rarest_and_most_words_comes_first(tree: Path):
    filler = "\n".join(f"line {number}" for number in range(100))
    files = write(
        tree,
        {
            "a.py": f"{filler}\ndef parse_url(text):\n    return split_header(text)\n{filler}",
            "b.py": "def parse(x): ...\n" * 5,
            "c.py": "nothing",
        },
    )
    found = search_text(tree, files, "where is the URL header parsed", k=2)
    assert [result.path for result in found] == ["a.py", "b.py"]
    assert found[0].start_line <= 101 <= found[0].end_line
    assert "parse_url" in found[0].text
    assert (found[0].symbol, found[0].language) == ("parse_url", "python")
    assert found[0].why == ("word: URL header parsed",)


def test_tests_and_prose_come_last(tree: Path):
    text = "def parse_header(text): ..."
    files = write(tree, {"a.md": text, "tests/test_b.py": text, "z.py": text})
    found = search_text(tree, files, "parse header")
    assert [result.path for result in found] == ["z.py", "tests/test_b.py", "a.md"]


@pytest.mark.parametrize(
    "text",
    ["class HTTPDateParsing:", "PARSED_DATE = 1", "def parseDates():", "x = parsing_the_date"],
)
def test_words_are_found_in_identifiers(tree: Path, text: str):
    found = search_text(tree, write(tree, {"a.py": text, "b.py": "sparse = update"}), "parse dates")
    assert [(result.path, result.why) for result in found] == [("a.py", ("word: parse dates",))]


def test_a_path_speaks_for_its_file(tree: Path):
    files = write(tree, {"src/settings.py": "x = 1", "src/other.py": "y = 2"})
    found = search_text(tree, files, "settings")
    assert [(result.path, result.why) for result in found] == [("src/settings.py", ("path",))]


def test_reads_no_file_that_is_not_listed(tree: Path):
    write(tree, {"secret.env": "password = hunter2", "a.py": "password here"})
    found = search_text(tree, ["a.py"], "password")
    assert [result.path for result in found] == ["a.py"]


def test_filters_by_language(tree: Path):
    files = write(tree, {"a.py": "word", "b.c": "word"})
    assert [result.path for result in search_text(tree, files, "word", language="c")] == ["b.c"]


def test_filters_by_glob(tree: Path):
    files = write(tree, {"src/a.py": "word", "docs/a.md": "word"})
    found = search_text(tree, files, "word", path_glob="docs/**")
    assert [result.path for result in found] == ["docs/a.md"]
    found = search_text(tree, files, "word", path_glob=f"{tree}/docs/")
    assert [result.path for result in found] == ["docs/a.md"]


def test_without_words_nothing_is_found(tree: Path):
    assert search_text(tree, write(tree, {"src/a.py": "what ???"}), "???") == []


@pytest.mark.parametrize("path", ["-e", "a b.py", "naïve.py", "line\nbreak.py", "bad\udcff.py"])
def test_any_name_will_do(tree: Path, path: str):
    Path(os.fsdecode(os.fsencode(tree / path))).write_text("needle")
    assert [result.path for result in search_text(tree, [path], "needle")] == [path]


def test_gone_binary_and_special_files_are_passed_over(tree: Path):
    write(tree, {"a.py": "needle"})
    (tree / "binary").write_bytes(b"needle\0" * 100)
    os.mkfifo(tree / "fifo")
    files = ["gone.py", "binary", "a.py"]
    assert [result.path for result in search_text(tree, files, "needle")] == ["a.py"]


def test_many_files_take_several_commands(tree: Path):
    files = write(tree, {f"{'deep' * 10}/f{number}.txt": "filler" for number in range(3000)})
    (tree / files[-1]).write_text("needle")
    (tree / files[0]).write_text("needle")
    found = search_text(tree, files, "needle", deadline_s=30)
    assert sorted(result.path for result in found) == sorted([files[0], files[-1]])


def test_a_deadline_ends_the_search(tree: Path):
    files = write(tree, {f"{number}.py": "needle" for number in range(1000)})
    start = time.monotonic()
    search_text(tree, files * 500, "needle", deadline_s=0.1)
    assert time.monotonic() - start < 10, "all of it takes minutes"
    assert search_text(tree, files, "needle", deadline_s=-1) == []


def test_a_question_of_letters_finds_nothing(tree: Path):
    assert search_text(tree, write(tree, {"a.py": "x = y"}), "x y") == []


WORDS = """
cookie cookies query queried querying date dates dated dating agree seeing run running class classes
http id db movie key keys studied stopped being utf8 naïve 東京都
"""


@pytest.mark.parametrize("word", WORDS.split())
@pytest.mark.parametrize("shape", ["{}", "get_{}_2", "get{}", "{}Of", "X{}", "a.{}()", "HTTP{}"])
def test_the_pattern_finds_what_splitting_finds(word: str, shape: str):
    text = shape.format(word.capitalize() if shape in ("get{}", "X{}", "HTTP{}") else word)
    found = set(split_words(text)) & set(split_words(word))
    assert all(re.search(ripgrep.word_pattern(stem), text) for stem in found)


@pytest.mark.parametrize("text", ["update", "validate", "database", "candidate", "Mandate"])
def test_the_pattern_passes_over_longer_words(text: str):
    assert not re.search(ripgrep.word_pattern("dat"), text)

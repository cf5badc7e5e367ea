"""Answers before the index: the same by ripgrep and by Python, of the listed files only, in time."""

import os
import time
from pathlib import Path

import pytest

from composer_index.search import ripgrep
from composer_index.search.cold import search_text


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


def test_the_window_with_the_rarest_and_most_words_comes_first(tree: Path):
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
    assert found[0].why == ("word: header pars url",)


def test_a_path_speaks_for_its_file(tree: Path):
    files = write(tree, {"src/settings.py": "x = 1", "src/other.py": "y = 2"})
    found = search_text(tree, files, "settings")
    assert [(result.path, result.why) for result in found] == [("src/settings.py", ("path",))]


def test_reads_no_file_that_is_not_listed(tree: Path):
    write(tree, {"secret.env": "password = hunter2", "a.py": "password here"})
    found = search_text(tree, ["a.py"], "password")
    assert [result.path for result in found] == ["a.py"]


def test_filters_by_glob(tree: Path):
    files = write(tree, {"src/a.py": "word", "docs/a.md": "word"})
    found = search_text(tree, files, "word", path_glob="docs/**")
    assert [result.path for result in found] == ["docs/a.md"]


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
    assert ripgrep.read_text(tree / "fifo") == ""


def test_many_files_take_several_commands(tree: Path):
    files = write(tree, {f"{'deep' * 10}/f{number}.txt": "filler" for number in range(3000)})
    (tree / files[-1]).write_text("needle")
    (tree / files[0]).write_text("needle")
    found = search_text(tree, files, "needle", deadline_s=30)
    assert sorted(result.path for result in found) == sorted([files[0], files[-1]])


def test_a_deadline_ends_the_search(tree: Path):
    files = write(tree, {"a.py": "needle"})
    start = time.monotonic()
    search_text(tree, files * 200_000, "needle", deadline_s=0.1)
    assert time.monotonic() - start < 10, "all of it takes minutes"
    assert search_text(tree, files, "needle", deadline_s=-1) == []


def test_a_question_of_short_words_finds_nothing(tree: Path):
    assert search_text(tree, write(tree, {"a.py": "is it"}), "is it") == []

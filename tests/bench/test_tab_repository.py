"""The holes of `bench.tab repository`, and what is made of the answers."""

import ast
import inspect
import textwrap
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.tab.repository.compare import Filled, copy_without, inserted, print_report
from bench.tab.repository.holes import KINDS, draw_holes, find_holes, without_functions
from bench.tab.repository.similarity import edit_similarity

TEXT = '''\
"""Módule."""
import os


class Store:
    size = 0

    @property
    def name(self):
        """Its náme."""
        value = os.path.join("ä", self.folder)
        return value

    def only(self): return call(one, two)


def lonely():
    if True:
        def inner():
            return first(second, third)

        print(inner)
'''


def solutions(text: str) -> set[tuple[str, str]]:
    return {(each.kind, text[each.start : each.end]) for each in find_holes("a.py", text)}


def test_the_holes_of_a_file() -> None:
    assert solutions(TEXT) == {
        ("arguments", '"ä", self.folder'),
        ("statement", 'value = os.path.join("ä", self.folder)'),
        ("statement", "return value"),
        ("body", 'value = os.path.join("ä", self.folder)\n        return value'),
        ("arguments", "one, two"),
        ("arguments", "second, third"),
        ("statement", "return first(second, third)"),
        ("statement", "print(inner)"),
        ("body", TEXT[TEXT.index("if True") : -1]),
    }


def test_a_hole_knows_its_innermost_function() -> None:
    lines = TEXT.splitlines()
    starts = {
        lines[each.function[0]].strip(): lines[each.function[1] - 1].strip()
        for each in find_holes("a.py", TEXT)
    }
    assert starts["@property"] == "return value"
    assert starts["def inner():"] == "return first(second, third)"
    assert starts["def lonely():"] == "print(inner)"


def test_a_file_that_does_not_parse_has_none() -> None:
    assert find_holes("a.py", "def f(:\n") == []


@pytest.mark.parametrize("module", [textwrap, inspect])
def test_what_is_left_without_functions_parses(module: object) -> None:
    text = inspect.getsource(module)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    holes = find_holes("a.py", text)
    assert {each.kind for each in holes} == set(KINDS)
    for hole in holes[::30]:
        rest = without_functions(text, [hole])
        ast.parse(rest)
        assert rest.count("\n") == text.count("\n") - (hole.function[1] - hole.function[0])


@pytest.fixture
def package(tmp_path: Path) -> Path:
    (tmp_path / "package" / "inside").mkdir(parents=True)
    (tmp_path / "package" / "a.py").write_text(TEXT)
    (tmp_path / "package" / "inside" / "b.py").write_text(inspect.getsource(textwrap))
    return tmp_path / "package"


def test_the_same_holes_are_drawn_each_time_in_functions_apart(package: Path) -> None:
    holes = draw_holes(package, num_of_each=3, seed=4)
    assert holes == draw_holes(package, num_of_each=3, seed=4)
    assert holes != draw_holes(package, num_of_each=3, seed=5)
    assert 5 <= len(holes) <= 9
    lines = [(each.path, number) for each in holes for number in range(*each.function)]
    assert len(lines) == len(set(lines))


def test_the_copy_lacks_the_functions_and_keeps_the_rest(package: Path, tmp_path: Path) -> None:
    holes = [each for each in find_holes("a.py", TEXT) if each.kind == "body"][:1]
    copy = copy_without(package, holes, tmp_path / "copy")
    assert (copy / "a.py").read_text() == TEXT.replace(
        TEXT[TEXT.index("    @pro") : TEXT.index("\n    def only")], ""
    )
    assert (copy / "inside" / "b.py").read_text() == inspect.getsource(textwrap)
    assert (package / "a.py").read_text() == TEXT


@pytest.mark.parametrize(
    ("answer", "solution", "similarity"),
    [("", "", 1), ("", "ab", 0), ("ab", "ab", 1), ("axb", "ab", 0.8), ("ba", "ab", 0.5)],
)
def test_edit_similarity(answer: str, solution: str, similarity: float) -> None:
    assert edit_similarity(answer, solution) == pytest.approx(similarity)


@given(st.text(alphabet="abc", max_size=12), st.text(alphabet="abc", max_size=12))
def test_similarity_has_no_order_and_is_whole_for_equals_alone(one: str, other: str) -> None:
    found = edit_similarity(one, other)
    assert found == edit_similarity(other, one)
    assert 0 <= found <= 1
    assert (found == 1) == (one == other)


@pytest.mark.parametrize(
    ("characters", "insert", "answer"),
    [((2, 2), "cd)", "cd)"), ((2, 3), "cd)", "cd"), ((0, 2), "f(cd", "cd")],
)
def test_what_an_item_puts_in_the_hole(
    characters: tuple[int, int], insert: str, answer: str
) -> None:
    start, end = ({"line": 0, "character": each} for each in characters)
    item = {"insertText": insert, "range": {"start": start, "end": end}}
    assert inserted("f()\n", item, "f(", ")\n") == answer


def test_the_report(capsys: pytest.CaptureFixture[str]) -> None:
    def filled(way: str, answer: str) -> Filled:
        return Filled(
            way=way,
            kind="body",
            answer=answer,
            solution=" ab ",
            ms=5,
            prepare_ms=7,
            prepare_tokens=9,
        )

    print_report("m", [filled("with", "ab"), filled("with", "axb"), filled("raw", "")])
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert rows[1] == ["with", "2", "0.500", "90.0", "5", "5", "7", "9"]
    assert rows[2] == ["body", "2", "0.500", "90.0"]
    assert rows[3] == ["raw", "1", "0.000", "0.0", "5", "-", "7", "9"]

import random
from collections.abc import Iterator
from difflib import SequenceMatcher
from typing import Any

import pytest

from composer_lsp.agent.edits.replace import ReplaceError, Replacement, replace

TEXT = "import os\n\n\ndef one():\n    return 1\n\n\ndef two():\n    return 2\n"


def edit(text: str, *pairs: tuple[str, str]) -> str:
    return replace(text, [Replacement(old=old, new=new) for old, new in pairs])


@pytest.mark.parametrize(
    ("text", "old", "new", "result"),
    [
        ("a\nb\nc\n", "b\n", "x\n", "a\nx\nc\n"),
        ("a\r\nb\r\nc\r\n", "b\n", "x\ny\n", "a\r\nx\r\ny\r\nc\r\n"),
        ("a\rb\rc", "b", "x\ny", "a\rx\ry\rc"),
        ("a\nb\r\nc\rd", "b\nc", "b\nx\nc", "a\nb\r\nx\r\nc\rd"),
        ("a\r\nb\nc\r\n", "a\nb", "a\nB", "a\r\nB\nc\r\n"),
        ("a\r\nb", "b", "b\n", "a\r\nb\r\n"),
        ("\r\nx\x0cy\u2028z\r\n", "y\u2028z", "w", "\r\nx\x0cw\r\n"),
        ("only", "only", "", ""),
        ("", "", "new\n", "new\n"),
        ("\ta\n  b\n", "\ta\n", "\tc\n", "\tc\n  b\n"),
        ("a\r\nb\r\n", "a\nb\n", "b\n", "b\r\n"),
    ],
)
def test_changes_nothing_else(text: str, old: str, new: str, result: str) -> None:
    assert edit(text, (old, new)) == result


def test_several_are_looked_for_in_the_text_as_it_was() -> None:
    assert edit("a b\nc\n", ("a", "c"), ("c\n", "a\n")) == "c b\na\n"


@pytest.mark.parametrize(
    ("pairs", "error"),
    [
        ([("return 3", "x")], "What is nearest to it:\n5\t    return 1"),
        ([("return", "x")], "stands 2 times, at the lines 5, 9"),
        ([("return 1", "return 1")], "are the same"),
        ([("return 3", "return 3")], "What is nearest to it:\n5\t    return 1"),
        ([("", "x")], "the text to replace is empty"),
        ([("def one():\n    return 1", "x"), ("return 1\n", "y")], "overlap at line 5"),
        ([("4\tdef one():\n5\t    return 1", "x")], "has line numbers in it; leave them out"),
        ([("a.py:1-2", "x")], "is a place, not text"),
        ([("zzzzzzzzzz", "x")], "nor anything like it; read the file again"),
        ([("def one():\n  return 1\n", "x")], "4\tdef one():\n5\t    return 1"),
        ([("return 1", "x"), ("return 3", "y")], "is not in the file"),
    ],
)
def test_what_does_not_fit_is_refused(pairs: list[tuple[str, str]], error: str) -> None:
    with pytest.raises(ReplaceError) as raised:
        edit(TEXT, *pairs)
    assert error in str(raised.value)


def test_a_passage_that_overlaps_itself_is_not_unique() -> None:
    with pytest.raises(ReplaceError, match="stands 2 times"):
        edit("aaa", ("aa", "b"))


@pytest.mark.parametrize(
    ("text", "old", "new", "result"),
    [
        ("aaa", "aa", "b", "ba"),
        ("one(); one()\r\none()\n", "one", "two", "two(); two()\r\ntwo()\n"),
        ("a+b a+b", "a+b", "\\1", "\\1 \\1"),
        ("once", "once", "x", "x"),
    ],
)
def test_all_places(text: str, old: str, new: str, result: str) -> None:
    assert replace(text, [Replacement(old=old, new=new, everywhere=True)]) == result


def test_all_places_of_what_is_not_there() -> None:
    with pytest.raises(ReplaceError, match="is not in the file"):
        replace("a\n", [Replacement(old="b", new="c", everywhere=True)])


def words(*, num_lines: int) -> list[str]:
    """Lines that are all alike, and all different."""
    some, rng = ("foo", "bar", "self", "value", "return", "name", "path", "item"), random.Random(1)
    return [f"    {' '.join(rng.choices(some, k=6))}\n" for _ in range(num_lines)]


@pytest.fixture
def compared(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """How many pairs of characters every exact comparison had to look at."""
    amounts: list[int] = []
    matcher_class: Any = SequenceMatcher
    ratio = matcher_class.ratio

    def counted(matcher: Any) -> float:
        amounts.append(len(matcher.a) * len(matcher.b))
        assert sum(amounts) < 50_000_000, "too much work"
        return ratio(matcher)

    monkeypatch.setattr(matcher_class, "ratio", counted)
    yield amounts


def test_a_long_passage_that_is_a_little_wrong_is_found_with_little_work(
    compared: list[int],
) -> None:
    lines = words(num_lines=2000)
    old = "".join(line.replace("foo", "fooo").replace("\n", " x\n") for line in lines[500:650])
    with pytest.raises(ReplaceError, match=f"nearest to it:\n501\t{lines[500]}"):
        edit("".join(lines), (old, "y\n"))


def test_a_short_passage_is_found_in_a_large_file_with_little_work(compared: list[int]) -> None:
    lines = words(num_lines=5000)
    lines[3000:3000] = ["def frobnicate(item):\n", "    return self.value\n"]
    with pytest.raises(ReplaceError, match="nearest to it:\n3001\tdef frobnicate"):
        edit("".join(lines), ("def frobincate(item):\n  return self.value\n", "y\n"))
    assert compared


def test_a_passage_that_overlaps_itself_without_end_is_not_counted_to_the_end() -> None:
    with pytest.raises(ReplaceError, match="stands at least 1000 times"):
        edit("a" * 5000, ("aa", "b"))

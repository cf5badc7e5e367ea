"""What is told of the edits to documents, which are edited as editors do: range by range."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lsprotocol.types import Position

from composer_lsp.completion.edit_history import MAX_EDIT_LINES, EditHistory, as_diff
from composer_lsp.server.documents import TextBuffer
from composer_lsp.server.positions import PositionEncoding

URI = "file:///w/a.py"


class Window:
    def __init__(self, may_show=lambda uri, language_id: True) -> None:
        self.history = EditHistory(may_show)
        self.buffers: dict[str, TextBuffer] = {}

    def open(self, text: str, uri: str = URI) -> TextBuffer:
        buffer = self.buffers[uri] = TextBuffer(text, PositionEncoding.UTF16)
        buffer.watch = self.history.opened(uri, "python", lambda: buffer.lines)
        return buffer

    def replace(self, old: str, new: str, uri: str = URI) -> None:
        """Replace a text that stands there once."""
        buffer = self.buffers[uri]
        assert buffer.text.count(old) == 1
        start = buffer.text.index(old)
        buffer.replace(buffer.position_at(start), buffer.position_at(start + len(old)), new)

    def type(self, after: str, text: str, uri: str = URI) -> None:
        """Keystroke by keystroke, behind a text that stands there once."""
        buffer = self.buffers[uri]
        at = buffer.text.index(after) + len(after)
        for char in text:
            buffer.replace(buffer.position_at(at), buffer.position_at(at), char)
            at += 1

    def told(self, limit: int = 10) -> list[tuple[str, str]]:
        edits = self.history.recent(limit)
        return [("|".join(edit.old_lines), "|".join(edit.new_lines)) for edit in edits]


@pytest.fixture
def window() -> Window:
    return Window()


def test_an_opened_document_has_no_edits(window):
    window.open("a\nb\n")
    assert window.told() == []


def test_keystrokes_at_one_place_are_one_edit(window):
    window.open("a = 1\nb\nc\n")
    window.type("b", " = 2\nx = 3")
    assert window.told() == [("b", "b = 2|x = 3")]


def test_edits_at_two_places_are_two_the_newest_last(window):
    window.open("a\nb\nc\nd\n")
    window.type("d", "1")
    window.type("a", "2")
    assert window.told() == [("d", "d1"), ("a", "a2")]
    assert window.told(1) == [("a", "a2")]


def test_an_edit_knows_where_its_lines_are_now(window):
    window.open("a\nb\nc\n")
    window.type("c", "1")
    window.replace("a", "x\ny\nz")
    lines = [edit.first_line for edit in window.history.recent(2)]
    assert lines == [4, 0]


def test_what_is_undone_was_never_done(window):
    window.open("a\nb\nc\n")
    window.type("a", "1")
    window.type("c", "2\n3")
    window.replace("c2\n3", "c")
    assert window.told() == [("a", "a1")]
    window.replace("a1", "a")
    assert window.told() == []


def test_coming_back_begins_a_new_edit_that_knows_the_oldest_text(window):
    window.open("foo\n\nother\n")
    window.replace("foo", "bar")
    window.replace("other", "another")
    window.replace("bar", "baz")
    assert window.told() == [("other", "another"), ("bar", "baz")]
    window.replace("baz", "foo")
    assert window.told() == [("other", "another")]


def test_several_cursors_make_an_edit_each(window):
    buffer = window.open("f(a)\ng()\nf(b)\n")
    for line in (2, 0):  # as editors send them, from the end
        buffer.replace(Position(line, 0), Position(line, 1), "h")
    assert sorted(window.told()) == [("f(a)", "h(a)"), ("f(b)", "h(b)")]


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_line_ends_are_no_part_of_lines(window, end):
    window.open(end.join(["\ta", "b", ""]))
    window.type("a", f"1{end}2")
    assert window.told() == [("\ta", "\ta1|2")]


def test_the_whole_text_sent_anew_is_the_edit_in_it(window):
    buffer = window.open("a\nb\nc\n")
    buffer.replace_all("a\nB\nc\n")
    assert window.told() == [("b", "B")]


def test_a_formatter_is_no_edit(window):
    text = "".join(f"x{n}=1\n" for n in range(MAX_EDIT_LINES + 1))
    buffer = window.open(text)
    buffer.replace_all(text.replace("=", " = "))
    assert window.told() == []
    window.type("x3 = 1", "0")
    assert window.told() == [("x3 = 1", "x3 = 10")]


def test_long_lines_are_not_kept(window):
    window.open("a\n")
    window.replace("a", "x" * 10_000)
    assert window.told() == []


def test_of_many_edits_the_last_are_kept(window):
    buffer = window.open("a\n\n" * 100)
    for line in range(0, 200, 2):
        buffer.replace(Position(line, 0), Position(line, 0), "b")
    assert len(window.told(1000)) < 50
    assert window.history.recent(1)[0].first_line == 198


def test_documents_together_by_time(window):
    window.open("a\n")
    window.open("b\n", "file:///w/b.py")
    window.type("b", "1", "file:///w/b.py")
    window.type("a", "1")
    assert [edit.uri for edit in window.history.recent(5)] == ["file:///w/b.py", URI]


def test_a_closed_document_s_edits_are_told_without_a_place(window):
    window.open("a\n")
    window.type("a", "1")
    window.history.closed(URI)
    (edit,) = window.history.recent(5)
    assert (edit.old_lines, edit.new_lines, edit.is_open) == (("a",), ("a1",), False)


def test_hidden_documents_are_not_told_of():
    window = Window(lambda uri, language_id: not uri.endswith(".env"))
    window.open("A=1\n", "file:///w/.env")
    window.type("A=1", "2", "file:///w/.env")
    assert window.told() == []
    window.history.closed("file:///w/.env")
    assert window.told() == []


def test_a_small_diff(window):
    window.open("a\nb\nc\nd\ne\nf\n")
    window.replace("d", "D\nDD")
    diff = as_diff(window.history.recent(1)[0], "a.py")
    assert diff == "--- a.py\n+++ a.py\n@@ -2,5 +2,6 @@\n b\n c\n-d\n+D\n+DD\n e\n f\n"


_CHANGE = st.tuples(
    st.integers(0, 12), st.integers(0, 3), st.text("ab\n\r", max_size=5), st.integers(0, 3)
)


@given(st.text("ab\n\r", max_size=12), st.lists(_CHANGE, max_size=12))
def test_old_lines_in_place_of_new_ones_give_the_text_before(text, changes):
    """Of the very first text too, which the window keeps to know what is undone."""
    window = Window()
    buffer = window.open(text)
    for start, length, new, _ in changes:
        start = min(start, len(buffer.text))
        end = min(start + length, len(buffer.text))
        before = buffer.text
        buffer.replace(buffer.position_at(start), buffer.position_at(end), new)
        places = window.history._documents[URI]._places
        lines = list(buffer.lines)
        for place in sorted(places, key=lambda place: (place.first, place.end), reverse=True):
            lines[place.first : place.end] = place.origin
        assert "".join(lines) == text
        spans = sorted((place.first, place.end) for place in places)
        assert all(end <= after for (_, end), (after, _) in pairwise(spans))
        if buffer.text == before:
            continue
        for edit in window.history.recent(100):
            now = [line.rstrip("\r\n") for line in buffer.lines]
            assert list(edit.new_lines) == now[edit.first_line : edit.end_line]


@given(st.text("ab\n", max_size=12), st.lists(_CHANGE, min_size=1, max_size=8))
def test_undoing_step_by_step_leaves_nothing(text, changes):
    window = Window()
    buffer = window.open(text)
    undo = []
    for start, length, new, _ in changes:
        start = min(start, len(buffer.text))
        end = min(start + length, len(buffer.text))
        undo.append((start, start + len(new), buffer.text[start:end]))
        buffer.replace(buffer.position_at(start), buffer.position_at(end), new)
    # Texts with \r are left out: a \r\n that is taken apart is no range of LSP.
    if any("\r" in new for _, _, new, _ in changes):
        return
    for start, end, old in reversed(undo):
        buffer.replace(buffer.position_at(start), buffer.position_at(end), old)
    assert buffer.text == text
    assert window.told() == []


def test_half_of_a_surrogate_pair_is_no_text_of_a_prompt() -> None:
    window = Window()
    window.open("one = 1\ntwo = 2 # \ud800\nthree = 3\n")
    window.replace("1", "'\udfff'")
    [edit] = window.history.recent(1)
    assert (edit.new_lines, edit.after[0]) == (("one = '\ufffd'",), "two = 2 # \ufffd")

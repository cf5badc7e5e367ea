"""Deltas of texts whose bytes are split into tokens in every way."""

from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from composer_inference.sampling.text_stream import TextStream


class Pieces:
    """A vocabulary whose tokens are these bytes."""

    def __init__(self, pieces: Sequence[bytes]) -> None:
        self._pieces = pieces

    def token_bytes(self, token_id: int) -> bytes:
        return self._pieces[token_id]


def deltas(pieces: Sequence[bytes], stops: Sequence[str] = ()) -> list[str]:
    """One a piece, and the rest."""
    stream = TextStream(Pieces(pieces), stops)
    return [*(stream.push(index) for index in range(len(pieces))), stream.finish()]


CASES = {
    "no stops": ([b"ab", b"c"], [], ["ab", "c", ""]),
    "within a token": ([b"ab", b"xSTOPy", b"z"], ["STOP"], ["ab", "x", "", ""]),
    "across tokens": ([b"abS", b"TO", b"Py"], ["STOP"], ["ab", "", "", ""]),
    "only its beginning": ([b"abS", b"T", b"x"], ["STOP"], ["ab", "", "STx", ""]),
    "its beginning at the end": ([b"abST"], ["STOP"], ["ab", "ST"]),
    "its beginning twice": ([b"aa", b"a", b"b"], ["aab"], ["", "a", "", ""]),
    "several, the first to be complete": ([b"a12", b"34"], ["1234", "23"], ["a", "1", ""]),
    "several that end together, the longest": ([b"a123"], ["23", "123", "3"], ["a", ""]),
    "overlapping beginnings": ([b"1", b"2", b"4"], ["123", "24"], ["", "", "1", ""]),
    "at the very beginning": ([b"STOP"], ["STOP"], ["", ""]),
    "a character over tokens": ([b"a\xe4", b"\xb8", b"\xadb"], [], ["a", "", "中b", ""]),
    "a stop of such": ([b"a\xe4", b"\xb8", b"\xadb"], ["中"], ["a", "", "", ""]),
    "cut in a character": ([b"a\xe4\xb8"], [], ["a", "\ufffd"]),
    "no UTF-8": ([b"a\xff", b"b"], [], ["a\ufffd", "b", ""]),
    "a character that breaks off": ([b"a\xe4", b"b"], [], ["a", "\ufffdb", ""]),
    "no bytes": ([b"", b"a"], ["b"], ["", "a", ""]),
}


@pytest.mark.parametrize(("pieces", "stops", "expected"), CASES.values(), ids=CASES)
def test_deltas(pieces, stops, expected):
    assert deltas(pieces, stops) == expected


def before_first_stop(text: str, stops: Sequence[str]) -> str:
    """By the plain definition: go through the text, and look whether a stop has just ended."""
    for end in range(len(text) + 1):
        ended = [stop for stop in stops if text[:end].endswith(stop)]
        if ended:
            return text[: end - max(map(len, ended))]
    return text


bits = st.one_of(
    st.text(alphabet="ab中é", min_size=1, max_size=4).map(str.encode), st.binary(max_size=3)
)
stop_lists = st.lists(st.text(alphabet="ab中é\ufffd", min_size=1, max_size=4), max_size=3)


@given(st.lists(bits, max_size=12), stop_lists, st.data())
@example([b"aab"], ["ab", "aab"], None)
def test_the_deltas_are_the_text_before_the_first_stop(parts, stops, data):
    whole = b"".join(parts)
    cuts = [] if data is None else data.draw(st.lists(st.integers(0, len(whole)), max_size=10))
    places = [0, *sorted(cuts), len(whole)]
    pieces = [whole[start:end] for start, end in pairwise(places)]
    stream = TextStream(Pieces(pieces), stops)
    text = "".join(stream.push(index) for index in range(len(pieces))) + stream.finish()
    expected = before_first_stop(whole.decode("utf-8", "replace"), stops)
    assert text == expected
    assert stream.stopped == (expected != whole.decode("utf-8", "replace"))


@given(st.lists(bits, max_size=12), stop_lists)
def test_what_was_shown_is_never_taken_back(parts, stops):
    """At every moment, what is withheld is no more than a stop's beginning or a character's bytes."""
    stream = TextStream(Pieces(parts), stops)
    shown = ""
    for index in range(len(parts)):
        shown += stream.push(index)
        so_far = b"".join(parts[: index + 1]).decode("utf-8", "replace")
        assert before_first_stop(so_far, stops).startswith(shown)
        if not stream.stopped:
            withheld = so_far[len(shown) :].rstrip("\ufffd")
            assert not withheld or any(stop.startswith(withheld) for stop in stops)


def test_nothing_comes_behind_a_stop():
    stream = TextStream(Pieces([b"a.", b"b", b"c"]), ["."])
    assert [stream.push(0), stream.push(1), stream.finish()] == ["a", "", ""]
    assert stream.stopped

"""The edits that a client is sent, whatever stands on the lines and in whatever units it counts."""

import pytest

from composer_lsp.server.agent.edits import text_edits
from composer_lsp.server.documents import TextBuffer
from composer_lsp.server.positions import PositionEncoding
from tests.support.lsp import num_units

ENCODINGS = {each.value: each for each in PositionEncoding}
TEXTS = {
    "ascii": "a = 'x'",
    "greek": "μ = 'x'",
    "emoji": "a = '😀👩‍👩‍👧'",
    "combining": "e\u0301 = 'n\u0303'",
    "crlf": "μ = 1\r\n😀 = 2",
    "mixed": "μ = 1\r😀 = 2\nx\r\n",
    "separators": "a = '\u2028'\x0b\x0c",
    "empty": "",
}


@pytest.mark.parametrize("encoding", ENCODINGS.values(), ids=ENCODINGS)
@pytest.mark.parametrize("before", TEXTS.values(), ids=TEXTS)
@pytest.mark.parametrize("after", [*TEXTS.values(), "μ😀\n"], ids=[*TEXTS, "other"])
def test_they_make_the_text_that_was_meant(
    before: str, after: str, encoding: PositionEncoding
) -> None:
    buffer = TextBuffer(before, encoding)
    for edit in reversed(text_edits(before, after, encoding)):
        buffer.replace(edit.range.start, edit.range.end, edit.new_text)
    assert buffer.text == after


@pytest.mark.parametrize("encoding", ENCODINGS.values(), ids=ENCODINGS)
def test_the_end_of_a_last_line_is_counted_in_the_clients_units(encoding: PositionEncoding) -> None:
    line = "e\u0301 = 'μ😀'"
    (edit,) = text_edits(f"first\n{line}", "first\nother", encoding)
    start, end = edit.range.start, edit.range.end
    assert (start.line, start.character) == (1, 0)
    assert (end.line, end.character) == (1, num_units(line, encoding.value))

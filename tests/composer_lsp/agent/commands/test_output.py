"""What is kept of a command's output, and how it is made readable."""

import pytest

from composer_lsp.agent.commands.output import Output, Stream, readable


def written(*pieces: bytes, max_bytes: int = 30) -> Output:
    output = Output(max_bytes)
    for piece in pieces:
        output.write(piece)
    return output


def test_short_output_is_kept_whole() -> None:
    output = written(b"a\n", b"b\n")

    assert (output.text(), output.is_cut) == ("a\nb\n", False)


def test_the_middle_is_cut_at_ends_of_lines_and_counted() -> None:
    output = written(*(b"line %02d\n" % number for number in range(20)))

    assert output.text() == ("line 00\n[… 136 of 160 bytes left out here …]\nline 18\nline 19\n")


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_the_same_is_kept_however_it_comes(size: int) -> None:
    data = b"".join(b"%d\n" % number for number in range(500))
    pieces = [data[at : at + size] for at in range(0, len(data), size)]

    assert written(*pieces).text() == written(data).text()


def test_one_line_without_an_end_is_cut_as_well() -> None:
    text = written(b"x" * 100).text()

    assert text == "x" * 10 + "\n[… 70 of 100 bytes left out here …]\n" + "x" * 20


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        ("\x1b[1;31mred\x1b[0m", "red"),
        ("\x1b]52;c;aGk=\x07x", "x"),
        ("\x1b]8;;http://a\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("\x1b(Bx\x1b=", "x"),
        ("10%\r50%\r100%\ndone", "100%\ndone"),
        ("a\r\nb\r\n", "a\nb\n"),
        ("a\x00\x07b\x9b", "ab"),
        ("a\tb", "a\tb"),
    ],
)
def test_escapes_and_what_was_written_over_are_left_out(raw: str, expected: str) -> None:
    assert readable(raw) == expected


def test_a_stream_is_the_same_however_it_comes() -> None:
    data = "é\x1b[1;31mred\x1b[0m\x1b]0;title\x07 x\x1b(By".encode()
    for size in range(1, len(data)):
        stream = Stream(1000)
        pieces = (data[at : at + size] for at in range(0, len(data), size))
        assert "".join(map(stream.feed, pieces)) == "éred xy"


def test_a_stream_ends_with_a_note() -> None:
    stream = Stream(4)

    assert stream.feed(b"abcdef") + stream.feed(b"ghi") == "abcd\n[… the rest is not shown …]\n"

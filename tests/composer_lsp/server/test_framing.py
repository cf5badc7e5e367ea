import random

import pytest

from composer_lsp.server.framing import MAX_HEADER_BYTES, FrameReader, FramingError
from tests.support.lsp import frame

BODY = frame({"a": 1}).partition(b"\r\n\r\n")[2]


def read(*chunks: bytes) -> list[object]:
    reader = FrameReader()
    items = [item for chunk in chunks for item in reader.feed(chunk)]
    return ["error" if isinstance(item, FramingError) else item for item in items]


@pytest.mark.parametrize(
    ("header", "name"),
    [
        (b"Content-Length: %d\r\n\r\n", "usual"),
        (b"content-length:%d\r\n\r\n", "lower case without a space"),
        (b"Content-Length: %d\n\n", "bare line feeds"),
        (
            b"Content-Type: application/vscode-jsonrpc; charset=utf-8\r\n"
            b"Content-Length: %d\r\n\r\n",
            "two fields",
        ),
        (b"\r\n\r\nContent-Length: %d\r\n\r\n", "empty lines before"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_headers(header, name):
    assert read(header % len(BODY) + BODY) == [BODY]


def test_chunks_of_any_size():
    stream = frame({"n": 1}) + frame({"text": "ünïcödé\r\n\r\nContent-Length: 3"}) + frame({})
    whole = read(stream)
    assert len(whole) == 3
    for seed in range(20):
        rng, chunks, rest = random.Random(seed), [], stream
        while rest:
            size = rng.randint(1, 9)
            chunks.append(rest[:size])
            rest = rest[size:]
        assert read(*chunks) == whole


@pytest.mark.parametrize(
    "garbage",
    [
        b"garbage\r\n\r\n",
        b"Content-Length: x\r\n\r\n",
        b"Content-Length: -5\r\n\r\n",
        b"Content-Length: 99999999999999\r\n\r\n",
        b"Content-Length: 1_0\r\n\r\n",
        b"Content-Length: \xd9\xa3\r\n\r\n",
        b"y" * (MAX_HEADER_BYTES + 1) + b"\r\n\r\n",
    ],
    ids=lambda garbage: repr(garbage[:20]),
)
def test_a_bad_header_is_told_and_reading_goes_on(garbage):
    assert read(garbage, frame({"a": 1})) == ["error", BODY]


def test_reading_finds_its_feet_after_a_body_without_a_length():
    stream = b'Content-Length: x\r\n\r\n{"lost": 1}' + frame({"a": 1}) + frame({"a": 1})
    assert read(stream) == ["error", BODY, BODY]


def test_an_empty_body_is_no_message():
    assert read(b"Content-Length: 0\r\n\r\n" + frame({"a": 1})) == [BODY]

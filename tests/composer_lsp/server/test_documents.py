"""Documents against a reference that knows only bytes of the encoding."""

import random
from bisect import bisect_right

import pytest
from lsprotocol.types import (
    Position,
    Range,
    TextDocumentContentChangePartial,
    TextDocumentContentChangeWholeDocument,
    TextDocumentItem,
)

from composer_lsp.server.documents import Document, DocumentStore, TextBuffer
from composer_lsp.server.positions import PositionEncoding

URI = "file:///w/a.py"
ENCODINGS = list(PositionEncoding)
_CODECS = {"utf-8": ("utf-8", 1), "utf-16": ("utf-16-le", 2), "utf-32": ("utf-32-le", 4)}


class ReferenceBuffer:
    """A document kept as code units; every position is found by scanning from its start."""

    def __init__(self, text: str, encoding: PositionEncoding) -> None:
        self.codec, self.unit = _CODECS[encoding.value]
        self.units = self.encode(text)

    def encode(self, text: str) -> list[int]:
        data = text.encode(self.codec, "surrogatepass")
        return [
            int.from_bytes(data[i : i + self.unit], "little")
            for i in range(0, len(data), self.unit)
        ]

    def decode(self, units: list[int]) -> str:
        data = b"".join(unit.to_bytes(self.unit, "little") for unit in units)
        return data.decode(self.codec, "surrogatepass")

    @property
    def text(self) -> str:
        return self.decode(self.units)

    def lines(self) -> list[tuple[int, int]]:
        """Where each line's content begins and ends."""
        lines, start, index = [], 0, 0
        while index < len(self.units):
            unit = self.units[index]
            following = self.units[index + 1] if index + 1 < len(self.units) else None
            if unit == 13 and following == 10:
                lines.append((start, index))
                index += 2
                start = index
            elif unit in (10, 13):
                lines.append((start, index))
                index += 1
                start = index
            else:
                index += 1
        lines.append((start, index))
        return lines

    def index(self, line: int, character: int) -> int:
        lines = self.lines()
        if line >= len(lines):
            return len(self.units)
        start, end = lines[line]
        index = min(start + character, end)
        while self.is_inside(index):
            index -= 1
        return index

    def is_inside(self, index: int) -> bool:
        if not 0 < index < len(self.units):
            return False
        unit, before = self.units[index], self.units[index - 1]
        if self.unit == 1:
            return 0x80 <= unit < 0xC0
        if self.unit == 2:
            return 0xDC00 <= unit < 0xE000 and 0xD800 <= before < 0xDC00
        return False

    def replace(self, start: tuple[int, int], end: tuple[int, int], text: str) -> None:
        first, last = sorted((self.index(*start), self.index(*end)))
        self.units[first:last] = self.encode(text)

    def position(self, index: int) -> tuple[int, int]:
        lines = self.lines()
        line = bisect_right([start for start, _ in lines], index) - 1
        return line, min(index, lines[line][1]) - lines[line][0]


PIECES = [
    "a", "xy", " ", "\t", "\n", "\r\n", "\r", "\n\n", "\r\r\n", "\n\r",
    "é", "e\u0301", "μ", "ß", "漢字", "﷽", "\u2028", "\u2029", "\x0b", "\x0c", "\x1c", "\x85",
    "\ufeff", "\u200d", "\x00", "😀", "👩‍👩‍👧‍👦", "🇩🇪", "\U0010ffff", "\U00010000", "\uffff", "\ud7ff",
    "def f(x):\n    return x\n", "line one\r\nline two\r\n",
]  # fmt: skip
LONE_SURROGATES = ["\ud83d", "\ude00", "\ud800", "\udfff"]


def random_text(rng: random.Random, surrogates: bool) -> str:
    pieces = PIECES + LONE_SURROGATES if surrogates else PIECES
    return "".join(rng.choices(pieces, k=rng.randint(0, 6)))


def random_place(rng: random.Random, reference: ReferenceBuffer) -> tuple[int, int]:
    """Anywhere, a little past the end of lines and of the document included."""
    lines = reference.lines()
    line = rng.randint(0, len(lines) + 1)
    longest = lines[line][1] - lines[line][0] if line < len(lines) else 3
    return line, rng.choice([0, longest, rng.randint(0, longest + 3)])


def fuzz(encoding: PositionEncoding, steps: int, seed: int) -> None:
    rng = random.Random(seed)
    # Lone surrogates can come only from a client that counts in UTF-16.
    surrogates = encoding is PositionEncoding.UTF16
    start_text = "".join(random_text(rng, surrogates) for _ in range(20))
    buffer, reference = TextBuffer(start_text, encoding), ReferenceBuffer(start_text, encoding)
    for step in range(steps):
        start = random_place(rng, reference)
        near = (start[0], start[1] + rng.randint(0, 3))
        end = rng.choice([start, near, random_place(rng, reference)])
        text = random_text(rng, surrogates)
        if len(reference.units) > 600:
            start, end, text = (0, 0), random_place(rng, reference), ""
        buffer.replace(Position(*start), Position(*end), text)
        reference.replace(start, end, text)
        context = f"seed {seed} step {step} {encoding} {start} {end} {text!r}"
        assert buffer.text == reference.text, context
        assert buffer.text == "".join(buffer.lines), context
        assert len(buffer.lines) == len(reference.lines()), context
        line, character = random_place(rng, reference)
        index = reference.index(line, character)
        prefix = reference.decode(reference.units[:index])
        assert buffer.offset_at(Position(line, character)) == len(prefix), context
        assert buffer.position_at(len(prefix)) == Position(*reference.position(index)), context


@pytest.mark.parametrize("encoding", ENCODINGS, ids=lambda encoding: encoding.value)
@pytest.mark.parametrize("seed", range(3))
def test_random_edits(encoding, seed):
    fuzz(encoding, 300, seed)


@pytest.mark.soak
@pytest.mark.parametrize("encoding", ENCODINGS, ids=lambda encoding: encoding.value)
def test_ten_thousand_random_edits(encoding):
    fuzz(encoding, 10_000, seed=4711)


def replaced(text: str, start: tuple[int, int], end: tuple[int, int], new: str) -> TextBuffer:
    buffer = TextBuffer(text, PositionEncoding.UTF16)
    buffer.replace(Position(*start), Position(*end), new)
    return buffer


@pytest.mark.parametrize(
    ("text", "start", "end", "new", "expected"),
    [
        pytest.param("ab", (0, 1), (0, 1), "X", "aXb", id="insert"),
        pytest.param("a\nb\nc", (0, 1), (2, 0), "", "ac", id="join lines"),
        pytest.param("ab", (0, 2), (0, 1), "X", "aX", id="range backwards"),
        pytest.param("a\r\nb", (0, 9), (0, 9), "X", "aX\r\nb", id="clamps before the terminator"),
        pytest.param("a\n", (5, 0), (9, 9), "X", "a\nX", id="clamps to the end"),
        pytest.param("a😀b", (0, 2), (0, 2), "X", "aX😀b", id="inside a surrogate pair"),
        pytest.param("a\rb", (1, 0), (1, 0), "\n", "a\r\nb", id="two terminators become one"),
        pytest.param("", (0, 0), (0, 0), "x", "x", id="empty document"),
        pytest.param("a\n\r\nb", (0, 1), (1, 0), "\r", "a\r\r\nb", id="between line ends"),
    ],
)
def test_an_edit(text, start, end, new, expected):
    buffer = replaced(text, start, end, new)
    assert buffer.text == expected
    assert list(buffer.lines) == TextBuffer(expected, PositionEncoding.UTF16).lines


def test_only_the_line_ends_of_lsp_end_lines():
    buffer = TextBuffer("a\x0bb\x0cc\x1cd\x85e\u2028f\u2029g\nh\r\ni\rj", PositionEncoding.UTF16)
    assert list(buffer.lines) == ["a\x0bb\x0cc\x1cd\x85e\u2028f\u2029g\n", "h\r\n", "i\r", "j"]


def test_halves_of_a_surrogate_pair_that_come_one_by_one():
    buffer = replaced("ab", (0, 1), (0, 1), "\ud83d")
    assert buffer.valid_text == "a\ufffdb"
    buffer.replace(Position(0, 2), Position(0, 2), "\ude00")
    assert buffer.text == buffer.valid_text == "a😀b"


def test_valid_text_can_be_encoded_and_keeps_offsets():
    buffer = TextBuffer("x\udfff\ud800 y", PositionEncoding.UTF16)
    assert buffer.valid_text == "x\ufffd\ufffd y"
    assert buffer.valid_text.encode()


def test_a_document_applies_both_kinds_of_change():
    document = Document("file:///a.py", "one", 1, "python", PositionEncoding.UTF8)
    document.apply_change(TextDocumentContentChangeWholeDocument(text="α\nβ"))
    change = Range(Position(1, 2), Position(1, 2))
    document.apply_change(TextDocumentContentChangePartial(range=change, text="γ"))
    assert document.source == "α\nβγ"
    snapshot = document.snapshot()
    assert (snapshot.text, snapshot.version, snapshot.language_id) == ("α\nβγ", 1, "python")


@pytest.mark.parametrize(
    ("sent", "version"),
    [(8, 8), (20, 20), (7, 8), (3, 8), (-1, 8), (None, 8), ("9", 8), (1 << 40, 8)],
)
def test_versions_go_up_whatever_the_client_sends(sent, version):
    store = DocumentStore(None, [], PositionEncoding.UTF16)
    store.put_text_document(TextDocumentItem(URI, "python", 7, "x"))
    changed = store.with_version({"textDocument": {"uri": URI, "version": sent}, "a": 1})
    assert changed == {"textDocument": {"uri": URI, "version": version}, "a": 1}
    without = store.with_version({"textDocument": {"uri": URI}})
    assert without == {"textDocument": {"uri": URI, "version": 8}}


@pytest.mark.parametrize("params", [None, [], {}, {"textDocument": None}, {"textDocument": {}}])
def test_a_malformed_change_gets_no_version(params):
    store = DocumentStore(None, [], PositionEncoding.UTF16)
    assert store.with_version(params) is params


@pytest.mark.parametrize(
    "document", [{"version": None}, {}, {"version": 1}, {"version": 9}], ids=str
)
async def test_a_change_counts_whatever_its_version(client, events, document):
    client.open(URI, "first", version=9)
    for text in ("second", "third"):
        client.notify(
            "textDocument/didChange",
            {"textDocument": {"uri": URI, **document}, "contentChanges": [{"text": text}]},
        )
        items = await client.inline_completion(URI, {"line": 0, "character": 9})
        assert [item["insertText"] for item in items] == ["<suggestion>"]
        assert f"complete automatic python {text}" in events.all()


async def test_a_document_may_be_opened_without_a_version(client, events):
    document = {"uri": URI, "languageId": "python", "text": "x"}
    client.notify("textDocument/didOpen", {"textDocument": document})
    assert await client.inline_completion(URI, {"line": 0, "character": 1})


@pytest.mark.parametrize("uri", ["file:///w/a%00b.py", "file:///w/\ud800.py", "file://[bad/x.py"])
async def test_a_uri_that_names_no_file(client, events, uri):
    client.open(uri, "x")
    client.change(uri, 2, {"text": "xy"})
    assert await client.inline_completion(uri, {"line": 0, "character": 2})
    client.notify("textDocument/didClose", {"textDocument": {"uri": uri}})
    await client.shut_down()
    assert b"ERROR" not in client.stderr, client.stderr.decode()


async def test_a_root_that_is_no_uri(start_fake):
    async with start_fake() as client:
        assert "capabilities" in await client.initialize(rootUri="file://[bad")

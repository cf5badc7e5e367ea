import io

import pytest

from composer_lsp.agent.tools import blocks

BINARY = b'binary file matches (found "\\0" byte around offset 9)'
OUTPUT = (
    b"././a.py\x001:import os\n12:  os.walk(x)\n\n"
    b"././sub/b 7:c.txt\x003:os: \0\n4:\n5:" + BINARY + b"\n\n"
    b"././data\x001:os\n././data: " + BINARY + b"\n\n"
    b"././last\x009:os\r\n"
)
LINES = [
    ("a.py", b"1:import os"),
    ("a.py", b"12:  os.walk(x)"),
    ("sub/b 7:c.txt", b"3:os: \0"),
    ("sub/b 7:c.txt", b"4:"),
    ("sub/b 7:c.txt", b"5:" + BINARY),
    ("data", b"1:os"),
    ("last", b"9:os\r"),
]


def taken_apart(output: bytes, max_bytes: int = 1000) -> list[blocks.Block]:
    return list(blocks.blocks(io.BytesIO(output), max_bytes))


@pytest.mark.parametrize("num_bytes", range(1, len(OUTPUT) + 1))
def test_wherever_it_is_cut_the_lines_are_the_same(
    monkeypatch: pytest.MonkeyPatch, num_bytes: int
) -> None:
    monkeypatch.setattr(blocks, "_BYTES", num_bytes)
    found = taken_apart(OUTPUT)
    assert [pair for block in found for pair in zip(block.paths, block.lines, strict=True)] == LINES
    texts = b"".join(block.texts for block in found).split(b"\n")
    assert texts == [*(line.partition(b":")[2] for _, line in LINES), b""]
    with_text = [(path, line) for block in found for _, path, line in block.with_text(b"os")]
    assert with_text == [
        ("a.py", (1, b"import os")),
        ("a.py", (12, b"  os.walk(x)")),
        ("sub/b 7:c.txt", (3, b"os: \0")),
        ("data", (1, b"os")),
        ("last", (9, b"os\r")),
    ]


def test_a_text_is_found_in_lines_and_not_in_their_numbers() -> None:
    [block] = taken_apart(b"././12:x\x0012:x\n13:12:x 12:x\n14:y\n")
    assert [line for _, _, line in block.with_text(b"12:x")] == [(13, b"12:x 12:x")]


@pytest.mark.parametrize(
    "output",
    [
        b"././a\n././b\x001:x\n",
        b"././a\n\n././b\x001:x\n",
        b"././a\x001:x\n\n././b\n2:y\n\n././c\x001:x\n",
    ],
    ids=["line end", "blank line", "as a line"],
)
def test_a_path_with_line_ends_is_not_taken_for_another(output: bytes) -> None:
    with pytest.raises(blocks.OddOutputError):
        taken_apart(output)


def test_so_much_and_no_more_is_taken_apart() -> None:
    assert taken_apart(OUTPUT, max_bytes=len(OUTPUT))
    with pytest.raises(blocks.OddOutputError):
        taken_apart(OUTPUT, max_bytes=len(OUTPUT) - 1)

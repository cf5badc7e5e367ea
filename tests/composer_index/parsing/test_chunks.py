"""Chunks: where they are cut, what they are called, and that they hold the whole file."""

import hashlib
from textwrap import dedent

import pytest

from composer_index.chunk import Chunk, ParsedFile
from composer_index.parsing import parse_file


def parsed(path: str, source: str) -> ParsedFile:
    result = parse_file(path, source.encode())
    assert isinstance(result, ParsedFile)
    return result


def drawn(file: ParsedFile) -> list[str]:
    return [f"{one.start_line}-{one.end_line} {one.symbol or '-'}" for one in file.chunks]


def body(indent: int, num_rows: int) -> str:
    """Statements of 20 non-white characters a row."""
    return "".join(f"{' ' * indent}value_{row:04} = compute\n" for row in range(num_rows))


def test_a_small_file_is_one_chunk() -> None:
    file = parsed("a.py", "\n\nimport os\n\n\ndef f():\n    return os\n\n")

    (chunk,) = file.chunks
    assert chunk == Chunk(
        path="a.py",
        start_line=3,
        end_line=7,
        symbol="f",
        signature="def f()",
        language="python",
        text="import os\n\n\ndef f():\n    return os",
        content_hash=hashlib.blake2b(
            b"python\0f\0import os\n\n\ndef f():\n    return os", digest_size=16
        ).hexdigest(),
        identifiers=("import", "os", "def", "f", "return"),
    )


def test_functions_of_some_size_stand_alone_with_what_is_above_them() -> None:
    source = (
        "import os\n\n"
        "# About the first.\n@cached\ndef first(a,\n          b):\n" + body(4, 25) + "\n"
        "# About the second.\n\nTABLE = {}\n\n"
        "# Right above.\ndef second():\n" + body(4, 25)
    )
    file = parsed("a.py", source)

    assert drawn(file) == ["1-35 first", "37-63 second"]
    assert [one.signature for one in file.chunks] == ["def first(a, b)", "def second()"]


def test_a_big_class_is_its_header_and_its_methods() -> None:
    source = (
        'class A(B):\n    """Doc of\n\n    some lines, and then some more, and more, and more: one'
        ' hundred and fifty characters and more, so that it is no small piece that joins what is next to it."""\n'
        "    field: int = 1\n\n"
        "    def big(self):\n" + body(8, 20) + "\n"
        "    def huge(self):\n" + body(8, 100) + "\n"
        "    def tiny(self): pass\n"
        "    def other(self): pass\n"
    )
    file = parsed("a.py", source)

    assert drawn(file) == [
        "1-5 A",
        "7-27 A.big",
        "29-94 A.huge",
        "95-129 A.huge",
        "131-132 A",
    ]
    assert file.chunks[0].signature == "class A(B)"
    assert file.chunks[3].signature == "def huge(self)"


def test_closing_brackets_stay_with_what_they_close() -> None:
    source = "class A {\n  run() {\n" + body(4, 40) + "  }\n  stop() {\n" + body(4, 40) + "  }\n}\n"

    assert drawn(parsed("a.js", source)) == ["1-43 A.run", "44-86 A.stop"]


def test_headings_hold_their_sections() -> None:
    text = "word " * 100 + "\n"
    source = f"# One\n\n{text}\n## Two\n\n{text}{text}\n### Three\n\n{text}\n# Four\n{text}"

    file = parsed("a.md", source)

    assert [one.symbol for one in file.chunks] == ["One", "One > Two", "One > Two > Three", "Four"]


def test_a_broken_file_keeps_what_parsed() -> None:
    source = "def good():\n    return 1\n\nclass (:\n  ]]]\n\ndef after():\n    return 2\n"

    file = parsed("a.py", source)

    assert file.is_broken
    assert {"good", "after"} <= {one.name for one in file.definitions}


def test_unknown_text_is_cut_at_blank_lines() -> None:
    paragraph = "lorem ipsum dolor sit amet\n" * 20
    file = parsed("notes.unknown", "\n".join([paragraph] * 5))

    assert file.language == "plaintext"
    assert not file.is_broken
    assert drawn(file) == ["1-41 -", "43-83 -", "85-104 -"]


def test_a_long_line_is_cut() -> None:
    words = " ".join(f"word{index}" for index in range(10_000))
    file = parsed("notes.txt", "above\n" * 200 + words + "\n" + "below\n" * 200)

    assert max(len(one.text) for one in file.chunks) <= 19_200
    assert "".join(one.text for one in file.chunks if one.start_line == 201) == words


@pytest.mark.parametrize(
    ("path", "text", "language"),
    [
        ("run", "#!/usr/bin/env -S python3.11 -u\nx = 1\n", "python"),
        ("run", "#!/bin/sh\nx=1\n", "shellscript"),
        ("run", "x\n", "plaintext"),
        ("a.h", "int f(void);\n", "c"),
        ("a.h", "namespace a {\nint f();\n}\n", "cpp"),
        ("Dockerfile.dev", "FROM x\n", "dockerfile"),
        ("deep/CMakeLists.txt", "project(x)\n", "cmake"),
        ("A.PY", "x = 1\n", "python"),
        (".py", "x = 1\n", "plaintext"),
    ],
)
def test_language(path: str, text: str, language: str) -> None:
    assert parsed(path, text).language == language


def test_identifiers_are_distinct_and_keep_what_their_language_allows() -> None:
    assert parsed("a.py", "naïve = a_1 - a_1\n").chunks[0].identifiers == ("naïve", "a_1")
    assert parsed("a.css", dedent(".btn-big {\n color: red }\n")).chunks[0].identifiers == (
        "btn-big",
        "color",
        "red",
    )


def test_the_hash_follows_language_symbol_and_text_alone() -> None:
    here, there = parsed("a.py", "x = 1\n"), parsed("b/c.py", "\n\nx = 1")
    assert here.chunks[0].content_hash == there.chunks[0].content_hash
    other = parsed("a.rb", "x = 1\n")
    assert here.chunks[0].content_hash != other.chunks[0].content_hash

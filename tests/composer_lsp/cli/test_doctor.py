"""`composer-lsp doctor` where nothing is installed yet, and where something is wrong."""

import json
import subprocess
from pathlib import Path
from typing import Any

from filelock import FileLock

from tests.composer_lsp.cli.conftest import Cli


def _checks(done: "subprocess.CompletedProcess[str]") -> dict[str, dict[str, Any]]:
    assert done.stdout, f"exit status {done.returncode} and no report: {done.stderr}"
    return {check["name"]: check for check in json.loads(done.stdout)}


def test_a_missing_model_fails_and_names_the_command(cli: Cli) -> None:
    done = cli("doctor", "--json", "--no-start")

    checks = _checks(done)
    assert done.returncode == 1
    assert [name for name, check in checks.items() if not check["ok"]] == ["model"]
    assert checks["model"]["mend"].startswith("composer-lsp model pull qwen2.5-coder-")
    assert "usable cores" in checks["model"]["detail"]


def test_the_plain_report_says_the_same(cli: Cli) -> None:
    done = cli("doctor", "--no-start")

    assert done.returncode == 1
    assert "FAIL model" in done.stdout
    assert "mend it: composer-lsp model pull" in done.stdout


def test_a_runtime_folder_open_to_others_fails(cli: Cli, home: Path) -> None:
    runtime = home / "runtime"
    runtime.mkdir()
    runtime.chmod(0o777)

    checks = _checks(cli("doctor", "--json", "--no-start"))

    assert not checks["socket"]["ok"]
    assert str(runtime) in checks["socket"]["detail"]
    assert checks["socket"]["mend"]


def test_a_relative_folder_is_told_without_a_traceback(cli: Cli) -> None:
    done = cli("doctor", "--no-start", COMPOSER_DATA_DIR="relative")

    assert done.returncode != 0
    assert "COMPOSER_DATA_DIR='relative'" in done.stdout + done.stderr
    assert "Traceback" not in done.stderr


def test_an_engine_that_nobody_can_reach_is_no_success(cli: Cli, home: Path) -> None:
    runtime = home / "runtime"
    runtime.mkdir(mode=0o700)
    (runtime / "engine.pid").write_text("4711")
    with FileLock(runtime / "engine.lock"):
        check = _checks(cli("doctor", "--json", "--no-start"))["engine"]

    assert not check["ok"]
    assert "4711" in check["detail"] and check["mend"] == "kill -9 4711"
    assert _checks(cli("doctor", "--json", "--no-start"))["engine"]["ok"]

"""`composer-lsp doctor` where nothing is installed yet, and where something is wrong."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
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


@pytest.mark.parametrize("name", ["data", "cache", "state"])
def test_a_folder_that_cannot_be_written_fails(cli: Cli, home: Path, name: str) -> None:
    (home / "file").touch()
    variables = {f"COMPOSER_{name.upper()}_DIR": str(home / "file" / "x"), "HOME": str(home)}
    done = cli("doctor", "--json", "--no-start", **variables)

    check = _checks(done)[name]
    assert not check["ok"]
    assert str(home / "file" / "x") in check["detail"]
    assert check["mend"] == f"export COMPOSER_{name.upper()}_DIR={home}/.composer-{name}"


@pytest.mark.parametrize(
    ("variable", "value"),
    [("COMPOSER_ENGINE_TRANSPORT", "pigeon"), ("COMPOSER_LOG_LEVEL", "LOUD")],
)
def test_a_bad_variable_is_a_check_as_well(cli: Cli, variable: str, value: str) -> None:
    check = _checks(cli("doctor", "--json", "--no-start", **{variable: value}))["paths"]

    assert not check["ok"]
    assert f"{variable}='{value}'" in check["detail"]


def test_a_port_that_is_none_fails(cli: Cli, home: Path) -> None:
    (home / "runtime").mkdir(mode=0o700)
    (home / "runtime" / "engine.json").write_text('{"port": 70000, "token": "t"}')
    done = cli("doctor", "--json", "--no-start", COMPOSER_ENGINE_TRANSPORT="tcp")

    assert "70000 is no port" in _checks(done)["socket"]["detail"]

"""`composer-lsp doctor` where nothing is installed yet, and where something is wrong."""

import json
import subprocess
import sys
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


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder."""
    folder = tmp_path / "workspace"
    folder.mkdir()
    (folder / "shop.py").write_text("def total_price():\n    pass\n")
    monkeypatch.chdir(folder)
    return folder


def test_the_index_of_this_folder(cli: Cli, workspace: Path, home: Path) -> None:
    checks = _checks(cli("doctor", "--json", "--no-start"))
    assert "grammars load" in checks["index"]["detail"]
    assert f"{workspace}: not indexed yet" in checks["workspace"]["detail"]
    assert checks["index cache"]["detail"] == f"0 indices, 0 MB in {home / 'cache' / 'index'}"
    for name in ("index", "index cache", "workspace", "ripgrep", "watching"):
        assert checks[name]["ok"]

    cli("index", "build")
    checks = _checks(cli("doctor", "--json", "--no-start"))
    assert f"{workspace}: 1 files indexed, changed just now" in checks["workspace"]["detail"]
    assert checks["index cache"]["detail"].startswith("1 index, ")


@pytest.mark.parametrize(
    ("module", "told"),
    [
        ("raise ImportError('libgomp.so.1 is missing')", "ImportError: libgomp.so.1 is missing"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGILL)", "was ended by SIGILL"),
    ],
    ids=["missing", "crashes"],
)
def test_packages_that_do_not_load(
    cli: Cli, workspace: Path, tmp_path: Path, module: str, told: str
) -> None:
    (tmp_path / "lancedb.py").write_text(module)
    checks = _checks(cli("doctor", "--json", "--no-start", PYTHONPATH=str(tmp_path)))
    assert not checks["index"]["ok"]
    assert told in checks["index"]["detail"]
    assert checks["index"]["mend"]


def test_an_index_folder_that_is_none(cli: Cli, home: Path) -> None:
    (home / "cache").mkdir()
    (home / "cache" / "index").touch()
    check = _checks(cli("doctor", "--json", "--no-start"))["index cache"]
    assert not check["ok"]
    assert check["mend"] == f"rm {home / 'cache' / 'index'}"


@pytest.mark.skipif(sys.platform != "linux", reason="bubblewrap is Linux's")
def test_whether_commands_run_in_a_sandbox_is_told(cli: Cli, tmp_path: Path) -> None:
    program = tmp_path / "bin" / "bwrap"
    program.parent.mkdir()
    found = [_checks(cli("doctor", "--json", "--no-start", PATH=str(program.parent)))["sandbox"]]
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    found.append(
        _checks(cli("doctor", "--json", "--no-start", PATH=str(program.parent)))["sandbox"]
    )
    assert [check["detail"] for check in found] == [
        "none for the agent's commands: bubblewrap is not installed (the package `bubblewrap`), "
        "so each command asks first",
        f"the agent's commands can run in one, by {program}",
    ]
    assert all(check["ok"] for check in found)


NO_WATCHES = """
import errno
from watchdog.observers import inotify_c

def {method}(*arguments):
    raise OSError(errno.{error}, "no more")

inotify_c.InotifyFD.{method} = {method}
"""


@pytest.mark.skipif(sys.platform != "linux", reason="inotify is Linux's")
@pytest.mark.parametrize(
    ("method", "error", "limit"),
    [
        ("add_callback", "ENOSPC", "max_user_watches"),
        ("_create_inotify_fd", "EMFILE", "max_user_instances"),
    ],
)
def test_a_system_that_watches_no_more(
    cli: Cli, tmp_path: Path, method: str, error: str, limit: str
) -> None:
    (tmp_path / "sitecustomize.py").write_text(NO_WATCHES.format(method=method, error=error))
    check = _checks(cli("doctor", "--json", "--no-start", PYTHONPATH=str(tmp_path)))["watching"]
    assert not check["ok"]
    assert f"limit fs.inotify.{limit} is reached" in check["detail"]
    assert check["mend"].startswith(f"sudo sysctl fs.inotify.{limit}=")


def test_how_quick_suggestions_were(cli: Cli, home: Path) -> None:
    assert (
        "no suggestions were timed"
        in _checks(cli("doctor", "--json", "--no-start"))["tab"]["detail"]
    )
    state = home / "state"
    state.mkdir(exist_ok=True)
    kept = {"model": "m", "tokens_per_s": 81.2, "p50_ms": 950.0, "note": "Prompts are shorter"}
    (state / "tab.json").write_text(json.dumps(kept))
    detail = _checks(cli("doctor", "--json", "--no-start", COMPOSER_STATE_DIR=str(state)))["tab"][
        "detail"
    ]
    assert detail == (
        "m reads 81 tokens a second here, and half of the suggestions came within 0.9 s. "
        "Prompts are shorter"
    )

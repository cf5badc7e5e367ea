"""The extension and its server's life: found or missing, crashing, trusted; the status bar and its menu."""

import json
import shutil
from pathlib import Path

import pytest

from .conftest import VSIX, StartVSCode
from .harness import install_extensions, server_program
from .python_extension import write_python_extension

pytestmark = pytest.mark.editor

RULES = [{"match": r"total = $", "text": "sum(values)"}]


def test_status_bar_and_its_menu(start_vscode: StartVSCode, folder: Path) -> None:
    (folder / "sums.py").write_text("")

    seen = start_vscode(RULES).run(
        "menu", folder, file="sums.py", typed="total = ", expected="sum(values)"
    )

    assert "Ready" in seen["idle"]["title"]
    assert any("python files" in entry for entry in seen["idle"]["entries"])
    assert not any("Snooze" in entry for entry in seen["snoozed"]["entries"])
    assert any("suggestions on" in entry for entry in seen["off"]["entries"])
    assert seen["whileOff"] == ""


def test_missing_server_is_told_with_the_way_out(
    start_vscode: StartVSCode, folder: Path, tmp_path: Path
) -> None:
    missing = tmp_path / "composer-lsp"
    vscode = start_vscode(RULES, settings={"composer.server.command": [str(missing), "serve"]})

    seen = vscode.run("missing_server", folder, missing=str(missing), server=server_program())

    assert seen["entries"][0] == "How to install the language server"


def test_server_that_stops_is_started_again(
    start_vscode: StartVSCode, folder: Path, tmp_path: Path
) -> None:
    (folder / "sums.py").write_text("")
    broken, pids, script = tmp_path / "broken", tmp_path / "pids", tmp_path / "server.sh"
    error = "ImportError: no module named lsprotocol"
    broken.write_text(f"Traceback (most recent call last):\n{error}\n")
    script.write_text(
        f"[ -e {broken} ] && cat {broken} >&2 && exit 1\n"
        f"echo $$ >> {pids}\nexec {server_program()} serve\n"
    )
    vscode = start_vscode(RULES, settings={"composer.server.command": ["sh", str(script)]})

    seen = vscode.run(
        "crashes",
        folder,
        broken=str(broken),
        pids=str(pids),
        error=error,
        file="sums.py",
        typed="total = ",
        expected="sum(values)",
    )

    assert seen["numMessages"] == 0


def test_server_of_the_active_python_environment(
    start_vscode: StartVSCode, folder: Path, tmp_path: Path, testbed: Path
) -> None:
    (folder / "sums.py").write_text("")
    environment, ran = tmp_path / "env" / "bin", tmp_path / "ran"
    environment.mkdir(parents=True)
    server = environment / "composer-lsp"
    server.write_text(f"#!/bin/sh\ntouch {ran}\nexec {server_program()} serve\n")
    server.chmod(0o755)
    package, extensions = tmp_path / "python.vsix", tmp_path / "extensions"
    write_python_extension(package, environment / "python")
    install_extensions(testbed, extensions, VSIX, package)

    seen = start_vscode(RULES, extensions=extensions).run(
        "python_environment",
        folder,
        ranInEnvironment=str(ran),
        file="sums.py",
        typed="total = ",
        expected="sum(values)",
    )

    assert not seen["ranBefore"]


def test_untrusted_folder_does_not_choose_the_server(
    start_vscode: StartVSCode, folder: Path, tmp_path: Path
) -> None:
    ran, script = tmp_path / "ran", folder / "server.sh"
    script.write_text(f"touch {ran}\nexec {server_program()} serve\n")
    (folder / ".vscode").mkdir()
    command = {"composer.server.command": [shutil.which("sh"), "${workspaceFolder}/server.sh"]}
    (folder / ".vscode" / "settings.json").write_text(json.dumps(command))
    vscode = start_vscode(
        RULES,
        settings={"security.workspace.trust.startupPrompt": "never"},
        trust_everything=False,
    )

    seen = vscode.run("trust", folder, ranByFolder=str(ran))

    assert not seen["ranUntrusted"]

"""Ghost text in VS Code from the default model of small machines, in a file of a real package."""

import json
import shutil
from pathlib import Path

import pytest

from composer_inference import environment
from composer_inference.models.store import ModelStore

from .conftest import StartVSCode, unavailable

MODEL = "qwen2.5-coder-0.5b"
LIMIT_S = 240

pytestmark = [pytest.mark.editor, pytest.mark.model]


def test_model_on_this_machine_completes_a_real_file(
    start_vscode: StartVSCode, folder: Path
) -> None:
    if ModelStore().find(MODEL) is None:
        unavailable(f"{MODEL} is not installed: run composer-lsp model pull {MODEL}")
    package = folder / "json"
    shutil.copytree(
        Path(json.__file__).parent, package, ignore=shutil.ignore_patterns("__pycache__")
    )
    file = package / "scanner.py"
    original = file.read_text()
    vscode = start_vscode(
        settings={"composer.tab.model": MODEL, "composer.modelDownload": "never"},
        environment={"COMPOSER_DATA_DIR": str(environment.data_dir())},
    )

    seen = vscode.run(
        "type_and_accept",
        folder,
        limit_s=LIMIT_S,
        file="scanner.py",
        line=len(original.splitlines()),
        # The editor indents the lines after a colon by itself.
        typed="\n\n\ndef scan_file(path, context):\nwith open(path) as file:\nreturn make",
        expected=r"\w",
        screenshot="real-model",
    )

    text = file.read_text()
    assert text.startswith(original)
    assert "        return make" in text
    assert "".join(seen["ghostText"].split()) in "".join(text.split())

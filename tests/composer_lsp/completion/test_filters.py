import os
from pathlib import Path
from urllib.parse import quote

import pytest

from composer_index.ignores import HiddenFiles
from composer_lsp.completion.filters import wants_suggestion, why_withheld
from composer_lsp.completion.request import DocumentSnapshot, Trigger
from composer_lsp.config import TabSettings


def document(uri: str, language_id: str = "python") -> DocumentSnapshot:
    return DocumentSnapshot(uri=uri, version=1, text="", language_id=language_id)


@pytest.mark.parametrize(
    "uri",
    [
        "file:///w/.env",
        "file:///w/a%20b/server.key",
        "file:///c%3A/w/.env",
        "file:///w/caf%E9/.env",
        "vscode-notebook-cell:/w/.env#W0s",
        "untitled:.env",
        "file:///w/.ENV",
        "file://[bad/.env",
    ],
)
def test_secrets_are_withheld(uri: str) -> None:
    assert why_withheld(document(uri), HiddenFiles()) == "may hold secrets by its name"


@pytest.mark.parametrize(
    "uri",
    [
        "file:///w/environment.py",
        "untitled:Untitled-1",
        "vscode-notebook-cell:/w/a.ipynb#W0s",
        "file://[bad/a.py",
        "untitled:",
        "",
    ],
)
def test_ordinary_documents_are_not_withheld(uri: str) -> None:
    assert why_withheld(document(uri), HiddenFiles()) is None


@pytest.mark.parametrize("uri", ["file:///w/%00.py", "file:///w/\ud800.py"])
def test_documents_that_can_be_no_files_are_withheld(uri: str) -> None:
    assert why_withheld(document(uri), HiddenFiles()) == "has a name that no file can have"


def test_samples_are_not_withheld() -> None:
    assert why_withheld(document("file:///w/.env.example", "dotenv"), HiddenFiles()) is None


def test_language_of_secret_files() -> None:
    reason = why_withheld(document("untitled:Untitled-1", "dotenv"), HiddenFiles())
    assert reason == "holds secrets by its language"


@pytest.mark.parametrize("scheme", ["file", "vscode-notebook-cell"])
def test_hidden_files_are_withheld(scheme: str, tmp_path: Path) -> None:
    folder = tmp_path / os.fsdecode(b"caf\xe9")
    folder.mkdir()
    rules = folder / ".composerignore"
    rules.write_text("*.ipynb")
    uri = f"{scheme}:{quote(os.fsencode(folder))}/a.ipynb#W0s"
    assert why_withheld(document(uri), HiddenFiles()) == f"is hidden by {rules}"


@pytest.mark.parametrize(
    ("settings", "trigger", "wanted"),
    [
        (TabSettings(), "automatic", True),
        (TabSettings(enabled=False), "automatic", False),
        (TabSettings(enabled=False), "invoked", True),
        (TabSettings(disabled_languages=("python",)), "automatic", False),
        (TabSettings(disabled_languages=("python",)), "invoked", True),
        (TabSettings(disabled_languages=("markdown",)), "automatic", True),
    ],
)
def test_settings(settings: TabSettings, trigger: Trigger, wanted: bool) -> None:
    assert wants_suggestion(document("file:///w/a.py"), trigger, settings) is wanted


@pytest.mark.parametrize(
    ("globs", "path", "wanted"),
    [
        (("*.min.js",), "/w/dist/a.min.js", False),
        (("*.min.js",), "/w/a.js", True),
        (("vendor/",), "/w/x/vendor/y/a.py", False),
        (("/build",), "/w/build/a.py", False),
        (("/build",), "/w/src/build/a.py", True),
        (("src/gen/*.py",), "/w/src/gen/a.py", False),
        (("src/gen/*.py",), "/w/src/gen/deep/a.py", True),
        (("src/**/gen/**",), "/w/src/a/gen/b/c.py", False),
        (("*.py", "!keep.py"), "/w/keep.py", True),
        (("/build",), "/w2/build/a.py", False),
        (("a b/*",), "/w/a b/c.py", False),
    ],
)
def test_globs_count_from_the_workspace_folder(
    globs: tuple[str, ...], path: str, wanted: bool
) -> None:
    settings = TabSettings(disabled_paths=globs)
    found = wants_suggestion(
        document(Path(path).as_uri()), "automatic", settings, roots=("/w", "/w2")
    )
    assert found is wanted

from pathlib import Path

import pytest

from composer_lsp.completion.filters import is_secret, wants_suggestion
from composer_lsp.completion.request import DocumentSnapshot, Trigger
from composer_lsp.config import TabSettings


def document(uri: str, language_id: str = "python") -> DocumentSnapshot:
    return DocumentSnapshot(uri=uri, version=1, text="", language_id=language_id)


@pytest.mark.parametrize(
    "uri",
    [
        "file:///w/.env",
        "file:///w/.env.local",
        "file:///w/deploy/prod.env",
        "file:///w/.envrc",
        "file:///w/tls/server.pem",
        "file:///w/a%20b/server.key",
        "file:///home/u/.ssh/id_ed25519",
        "file:///home/u/.ssh/config",
        "file:///home/u/.aws/credentials",
        "file:///home/u/.netrc",
        "file:///w/.npmrc",
        "file:///w/infra/terraform.tfstate",
        "file:///w/secrets.yaml",
        "file:///c%3A/w/.env",
        "vscode-notebook-cell:/w/.env#W0s",
        "untitled:.env",
    ],
)
def test_secret_files_are_known_by_name(uri: str) -> None:
    assert is_secret(document(uri))


@pytest.mark.parametrize(
    "uri",
    [
        "file:///w/environment.py",
        "file:///w/key.py",
        "file:///w/credentials_store/main.go",
        "file:///w/src/env/mod.rs",
        "untitled:Untitled-1",
        "vscode-notebook-cell:/w/a.ipynb#W0s",
    ],
)
def test_ordinary_files_are_not_secret(uri: str) -> None:
    assert not is_secret(document(uri))


def test_link_to_a_secret_file_is_secret(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("KEY=1")
    (tmp_path / "settings.txt").symlink_to(tmp_path / ".env")
    assert is_secret(document((tmp_path / "settings.txt").as_uri()))


def test_language_of_secret_files() -> None:
    assert is_secret(document("untitled:Untitled-1", "dotenv"))


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

import subprocess
import sys
from pathlib import Path

import pytest

from composer_index.ignores import HiddenFiles


@pytest.mark.parametrize(
    "path",
    [
        "/w/.env",
        "/w/.env.local",
        "/w/deploy/prod.env",
        "/w/.envrc",
        "/w/tls/server.pem",
        "/w/a b/server.key",
        "/home/u/.ssh/id_ed25519",
        "/home/u/.ssh/config",
        "/home/u/.aws/credentials",
        "/home/u/.kube/config",
        "/home/u/.docker/config.json",
        "/home/u/.netrc",
        "/w/.npmrc",
        "/w/infra/terraform.tfstate",
        "/w/secrets.yaml",
        "/c:/w/.env",
        ".env",
    ],
)
def test_secret_files_are_known_by_name(path: str) -> None:
    assert HiddenFiles().why_hidden(path) == "may hold secrets by its name"


@pytest.mark.parametrize(
    "path",
    [
        "/w/environment.py",
        "/w/key.py",
        "/w/credentials_store/main.go",
        "/w/src/env/mod.rs",
        "/w/config",
        "Untitled-1",
    ],
)
def test_ordinary_files_are_not_secret(path: str) -> None:
    assert HiddenFiles().why_hidden(path) is None


def test_link_to_a_secret_file_is_secret(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("KEY=1")
    (tmp_path / "settings.txt").symlink_to(tmp_path / ".env")
    assert HiddenFiles().why_hidden(str(tmp_path / "settings.txt"))


def test_the_rules_need_nothing_but_the_standard_library() -> None:
    """The language server imports them, and has no time for more."""
    code = (
        "import sys; before = set(sys.modules); import composer_index.ignores;"
        "new = {name.split('.')[0] for name in set(sys.modules) - before};"
        "print(*new - sys.stdlib_module_names)"
    )
    output = subprocess.check_output([sys.executable, "-c", code], text=True)
    assert output.split() == ["composer_index"]

import subprocess
import sys
from pathlib import Path

import pytest

from composer_index.ignores import HiddenFiles, is_secret_path


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
        "/w/.ENV",
        "/w/Prod.Env",
        "/w/tls/foo.PEM",
        "/w/tls/server.Key",
        "/home/u/id_RSA",
        "/home/u/.SSH/config",
        "/w/Secrets.yml",
        "/w/Credentials.JSON",
        "/w/AuthKey_1.p8",
        "/w/terraform.tfstate.backup",
        "/w/terraform.tfstate.1700000000.backup",
        "/w/prod.tfvars.json",
        "/w/server.key.bak",
        "/w/server.key.2024-01-01",
        "/w/server.pem~",
        "/w/#server.key#",
        "/w/.#server.key",
        "/home/u/.id_rsa.swp",
        "/home/u/.pgpass.bak",
        "/home/u/.dockercfg",
        "/home/u/kubeconfig",
        "/w/prod.kubeconfig",
        "/home/u/.bash_history",
        "/home/u/.zhistory",
        "/home/u/.local/share/fish/fish_history",
        "/w/.git/config",
        "/w/.git/modules/sub/config",
        "/srv/w.git/config",
        "/w/.env/production",
        "/w/.envs/.production/.django",
        "/home/u/.config/gcloud/application_default_credentials.json",
        "/home/u/.cargo/credentials.toml",
        "/w/env.production",
        "/w/ENV.local",
        "/w/deploy/env.staging.local",
        "/w/.dev.vars",
        "/w/.dev.vars.production",
        "/w/ansible/.vault_pass",
        "/w/ansible/.vault-password",
        "/w/ansible/.vault_pass.txt",
        "/w/ansible/vault_password.txt",
        "/home/u/.composer/auth.json",
        "/w/shop-1a2b3-firebase-adminsdk-x9y8z-0123456789.json",
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
        "/w/google/auth/credentials.py",
        "/w/src/credentials/store.ts",
        "/w/docs/credentials.md",
        "/w/.env/lib/python3.13/site-packages/a.py",
        "/w/server.pem/a.py",
        "/w/keys/a.key.ts",
        "/w/history.py",
        "/w/src/kubeconfig/load.go",
        "/w/src/git/config",
        "/w/.env.example",
        "/w/.env.local.sample",
        "/w/.ENV.template",
        "/w/env.d.ts",
        "/w/migrations/env.py",
        "/w/env.local.ts",
        "/w/env.production.js",
        "/w/env.example",
        "/w/env.development/a.py",
        "/w/.dev.vars.example",
        "/w/vault_password.py",
        "/w/src/auth.ts",
        "/w/credentials.yml.enc",
    ],
)
def test_ordinary_files_are_not_secret(path: str) -> None:
    assert HiddenFiles().why_hidden(path) is None


@pytest.mark.parametrize("name", [".env", ".ENV"])
def test_link_to_a_secret_file_is_secret(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("KEY=1")
    (tmp_path / "settings.txt").symlink_to(tmp_path / name)
    assert HiddenFiles().why_hidden(str(tmp_path / "settings.txt"))


@pytest.mark.parametrize("path", ["/w/a\0.py", "/w/\ud800.py"])
def test_a_name_that_no_file_can_have_is_hidden(path: str) -> None:
    assert HiddenFiles().why_hidden(path) == "has a name that no file can have"


@pytest.mark.parametrize(
    "name",
    [
        "a.key" + ".1" * 120 + "x",
        "#" * 250,
        "-1" * 125,
        ".key" * 60 + ".1-1_1!",
        "/.git" * 99 + "/x",
    ],
)
def test_no_name_takes_long(name: str) -> None:
    """It would never end if a part of it were tried in each way that it can be split."""
    assert not is_secret_path("w/" + name)


def test_the_rules_need_nothing_but_the_standard_library() -> None:
    """The language server imports them, and has no time for more."""
    code = (
        "import sys; before = set(sys.modules); import composer_index.ignores;"
        "new = {name.split('.')[0] for name in set(sys.modules) - before};"
        "print(*new - sys.stdlib_module_names)"
    )
    output = subprocess.check_output([sys.executable, "-c", code], text=True)
    assert output.split() == ["composer_index"]

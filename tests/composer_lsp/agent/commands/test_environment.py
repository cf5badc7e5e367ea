"""Which variables commands get."""

import pytest

from composer_lsp.agent.commands.environment import command_environment


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("GITHUB_TOKEN", "x"),
        ("NPM_TOKEN", "x"),
        ("TOKEN", "x"),
        ("OPENAI_API_KEY", "x"),
        ("MY_APIKEY", "x"),
        ("KEY", "x"),
        ("STRIPE_SECRET", "x"),
        ("client_secret", "x"),
        ("DB_PASSWORD", "x"),
        ("PGPASSWORD", "x"),
        ("MYSQL_PASSWD", "x"),
        ("npm_config__auth", "x"),
        ("GOOGLE_APPLICATION_CREDENTIALS", "x"),
        ("AWS_PROFILE", "x"),
        ("SSH_AUTH_SOCK", "x"),
        ("DBUS_SESSION_BUS_ADDRESS", "x"),
        ("XDG_RUNTIME_DIR", "/run/user/1"),
        ("NVIM", "/tmp/nvim"),
        ("VSCODE_IPC_HOOK_CLI", "/tmp/x"),
        ("DOCKER_HOST", "x"),
        ("BASH_ENV", "x"),
        ("BASH_FUNC_ls%%", "() { rm x; }"),
        ("LD_PRELOAD", "x"),
        ("GIT_SSH_COMMAND", "x"),
        ("URL", "postgres://me:pw@host/db"),
        ("X", "ghp_0123456789abcdef0123"),
        ("Y", "sk-0123456789abcdef0123"),
        ("Z", "-----BEGIN RSA PRIVATE KEY-----"),
    ],
)
def test_secrets_and_ways_out_are_left_out(name: str, value: str) -> None:
    assert name not in command_environment({name: value})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("PATH", "/bin"),
        ("HOME", "/home/me"),
        ("LANG", "C"),
        ("VIRTUAL_ENV", "/x"),
        ("CI", "1"),
        ("KEYBOARD", "us"),
        ("MONKEY", "x"),
        ("COMPASS", "x"),
        ("PWD", "/x"),
        ("AUTHOR", "x"),
        ("PYTHONPATH", "src"),
        ("NODE_OPTIONS", "--max-old-space-size=4096"),
        ("URL", "https://host:80/x@y"),
        ("CARGO_HOME", "/x"),
    ],
)
def test_the_rest_is_kept(name: str, value: str) -> None:
    assert command_environment({name: value})[name] == value


def test_nobody_is_there_to_page_or_to_ask() -> None:
    environ = command_environment({"PAGER": "less", "TERM": "xterm"})

    assert (environ["PAGER"], environ["TERM"]) == ("cat", "dumb")
    assert environ["GIT_TERMINAL_PROMPT"] == "0"


def test_variables_of_the_settings_are_left_out() -> None:
    assert "MINE" not in command_environment({"MINE": "x"}, ["MINE"])

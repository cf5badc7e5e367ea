"""The environment that commands get: the user's, without secrets and without ways out."""

import re
from collections.abc import Iterable, Mapping

_SECRET_NAMES = re.compile(
    r"(?:^|_)(?:\w*TOKENS?|\w*API_?KEY|KEY|KEYS|\w*SECRETS?|\w*PASSW(?:OR)?D|PASSPHRASE|PASS|PWD?_AUTH"
    r"|CREDENTIALS?|AUTH|AUTHORIZATION|COOKIES?|PAT|DSN|PRIVATE_KEY|ACCESS_KEY\w*)(?:_|$)",
    re.IGNORECASE,
)
_SECRET_VALUES = re.compile(
    r"://[^/\s:@]*:[^/\s@]+@"  # user:password in a URL
    r"|\b(?:gh[pousr]_|github_pat_|glpat-|xox[abpr]-|sk-|AKIA|ya29\.|hf_|npm_|pypi-)[\w-]{12,}"
    r"|-----BEGIN [A-Z ]*PRIVATE KEY"
)
_HIDDEN = re.compile(
    # Clouds and services, whose variables name accounts where they hold no key.
    r"(?:AWS|AZURE|ARM|GOOGLE|GCP|GCLOUD|CLOUDSDK|DIGITALOCEAN|DO|KUBE\w*|VAULT|CONSUL|TF_VAR|HEROKU"
    r"|OPENAI|ANTHROPIC|OPENROUTER|HUGGING\w*|HF|SENTRY|STRIPE|TWILIO|SLACK)_\w*"
    # Sockets of agents, desktops, editors and multiplexers.
    r"|SSH_\w*|GPG_AGENT_INFO|DBUS_\w*|DISPLAY|WAYLAND_DISPLAY|XAUTHORITY|SESSION_MANAGER"
    r"|XDG_(?:RUNTIME_DIR|CONFIG_HOME|CACHE_HOME|DATA_HOME|STATE_HOME)|DOCKER_\w*|CONTAINER_HOST"
    r"|VSCODE_\w*|ELECTRON_\w*|NVIM\w*|VIM|VIMRUNTIME|TMUX\w*|STY|WSL\w*|GIT_ASKPASS|SUDO_\w*"
    # What makes a shell or a program run something before the command.
    r"|BASH_ENV|ENV|BASH_FUNC_.*|PROMPT_COMMAND|PS4|SHELLOPTS|BASHOPTS|CDPATH|GLOBIGNORE|LESSOPEN"
    r"|LESSCLOSE|LD_PRELOAD|LD_AUDIT|PYTHONSTARTUP|PYTHONINSPECT|PERL5OPT|RUBYOPT"
    r"|GIT_(?:DIR|WORK_TREE|INDEX_FILE|EXTERNAL_DIFF|SSH\w*|CONFIG\w*|PAGER|EDITOR|SEQUENCE_EDITOR)"
)
_SET = {
    "TERM": "dumb",
    "NO_COLOR": "1",
    "PAGER": "cat",
    "GIT_PAGER": "cat",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_OPTIONAL_LOCKS": "0",
    "EDITOR": "false",
    "VISUAL": "false",
    "DEBIAN_FRONTEND": "noninteractive",
    "PYTHONUNBUFFERED": "1",
    "PIP_NO_INPUT": "1",
}
"""Nobody is there to answer or to look at a page; output comes as it is written."""


def is_hidden_variable(name: str, value: str) -> bool:
    return (
        _HIDDEN.fullmatch(name) is not None
        or _SECRET_NAMES.search(name) is not None
        or _SECRET_VALUES.search(value) is not None
    )


def command_environment(environ: Mapping[str, str], hidden: Iterable[str] = ()) -> dict[str, str]:
    """`hidden`: further variables to leave out, such as those that hold the user's API keys."""
    left_out = set(hidden)
    kept = {
        name: value
        for name, value in environ.items()
        if name not in left_out and not is_hidden_variable(name, value)
    }
    return {**kept, **_SET}

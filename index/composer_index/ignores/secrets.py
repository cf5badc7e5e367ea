"""Files that hold secrets, known by their names: whatever the case of their letters, since a file
system or a careless user may write `.ENV`, and with what editors and tools append to the name of a
copy.

Samples (`.env.example`) are not among them: they are there to be committed and hold placeholders.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from composer_index.ignores.patterns import ANY_CHARS, ANY_FOLDERS, parse_pattern

SECRET_FILES = (
    ".env*",
    "*.env",
    "**/.env/*",
    "env.local",
    "env.*.local",
    "env.dev",
    "env.development",
    "env.prod",
    "env.production",
    "env.staging",
    "env.test",
    ".dev.vars*",
    "*.pem",
    "*.key",
    "*.p8",
    "*.p12",
    "*.pfx",
    "*.jks",
    "*.keystore",
    "*.keytab",
    "*.kdbx",
    "*.ppk",
    "*.gpg",
    "id_rsa*",
    "id_dsa*",
    "id_ecdsa*",
    "id_ed25519*",
    ".netrc",
    "_netrc",
    ".npmrc",
    ".pypirc",
    ".pgpass",
    ".my.cnf",
    ".htpasswd",
    ".git-credentials",
    ".vault-token",
    ".vault[-_]pass*",
    "vault[-_]pass.txt",
    "vault[-_]password.txt",
    "auth.json",
    ".dockercfg",
    ".dockerconfigjson",
    ".s3cfg",
    "credentials",
    "credentials.cfg",
    "credentials.conf",
    "credentials.csv",
    "credentials.ini",
    "credentials.properties",
    "credentials.toml",
    "credentials.txt",
    "credentials.xml",
    "credentials.yaml",
    "credentials.yml",
    "*credentials.json",
    "*credentials.tfrc.json",
    "secrets.ini",
    "secrets.json",
    "secrets.properties",
    "secrets.toml",
    "secrets.yaml",
    "secrets.yml",
    "client_secret*.json",
    "service-account*.json",
    "service_account*.json",
    "*firebase-adminsdk*.json",
    "*.tfstate",
    "*.tfvars",
    "*.tfvars.json",
    ".terraformrc",
    "kubeconfig",
    "kubeconfig.yaml",
    "kubeconfig.yml",
    "*.kubeconfig",
    ".*history",
    "fish_history",
    ".histfile",
    "**/.kube/config",
    "**/.docker/config.json",
    "**/.git/**/config*",
    "**/*.git/config",
    "**/.m2/settings.xml",
)
"""Git-ignore patterns of files. They match no folder: a virtual environment may be called `.env`,
of which only what lies directly in it counts as secret, and `credentials/` is often source code."""

SECRET_FOLDERS = (".ssh/", ".gnupg/", ".aws/", ".envs/")
"""Git-ignore patterns of folders whose files are all secret: their text never reaches a prompt,
explicit requests included."""

_SAMPLES = (
    ".env*.example",
    ".env*.sample",
    ".env*.template",
    ".env*.dist",
    ".env*.defaults",
    ".dev.vars*.example",
    ".dev.vars*.sample",
    ".dev.vars*.template",
    "example.env",
    "sample.env",
    "template.env",
)

_COPY = r"(?:~|[._-](?:bak|backup|bkp|old|orig|save|tmp|copy|sw[a-p]|\d+(?:t\d+)?z?))*+\#?"
"""What stands behind the name of a copy: `server.key.bak`, `terraform.tfstate.1700000000.backup`.
Never tried twice, so that no name takes long."""
_HIDDEN_COPY = r"(?:\.\#|[.\#](?=.*(?:\#|\.sw[a-p])$))?"
"""What stands before it: Emacs's `.#a` and `#a#`, Vim's `.a.swp`."""


@dataclass(frozen=True, slots=True)
class _Matcher:
    """Whether any of a list of patterns without negated ones matches, fast."""

    in_names: re.Pattern[str]
    in_paths: re.Pattern[str]

    def matches(self, path: str) -> bool:
        name = path.rpartition("/")[2]
        return bool(self.in_names.fullmatch(name) or self.in_paths.fullmatch(path))


@lru_cache(maxsize=256)
def is_secret_path(path: str) -> bool:
    """Whether a file holds secrets by its name or that of a folder it lies in."""
    path = path.lstrip("/")
    return is_secret_file(path) or is_in_secret_folder(path)


def is_in_secret_folder(path: str) -> bool:
    """By the names of the folders that it lies in. `path` as for `is_secret_file`."""
    parts = path.split("/")
    return any(is_secret_folder("/".join(parts[:end])) for end in range(1, len(parts)))


def is_secret_file(path: str) -> bool:
    """By its own name, and where that alone says too little those right above it. `path` is
    absolute, without the slash at its start."""
    return _FILES.matches(path) and not is_sample_path(path)


def is_secret_folder(path: str) -> bool:
    """By its own name alone, not by those of the folders above it."""
    return _FOLDERS.matches(path)


def is_sample_path(path: str) -> bool:
    """Whether a file shows how one with secrets is written, with nothing secret in it."""
    return _SAMPLE_FILES.matches(path)


def _matcher(patterns: Iterable[str], *, before: str = "", after: str = "") -> _Matcher:
    in_names: list[str] = []
    in_paths: list[str] = []
    for text in patterns:
        pattern = parse_pattern(text)
        assert pattern is not None, "no pattern of the lists is empty"
        regex = pattern.regex.pattern
        if "/" in text.removesuffix("/"):
            in_paths.append(regex)
        else:
            in_names.append(regex.removeprefix(ANY_FOLDERS))
    flags = re.DOTALL | re.IGNORECASE
    return _Matcher(
        re.compile(f"{before}(?:{_any_of(in_names, ANY_CHARS)}){after}", flags),
        re.compile(f"(?:{_any_of(in_paths, ANY_FOLDERS)}){after}", flags),
    )


def _any_of(regexes: Sequence[str], head: str) -> str:
    """With the head that many of them begin with tried once: twice as fast."""
    tails = [regex.removeprefix(head) for regex in regexes if regex.startswith(head)]
    others = [regex for regex in regexes if not regex.startswith(head)]
    return "|".join([*others, f"{head}(?:{'|'.join(tails)})"] if tails else others) or "(?!)"


_FILES = _matcher(SECRET_FILES, before=_HIDDEN_COPY, after=_COPY)
_FOLDERS = _matcher(SECRET_FOLDERS)
_SAMPLE_FILES = _matcher(_SAMPLES)

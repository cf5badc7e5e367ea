"""Files that hold secrets, known by their names."""

from functools import cache, lru_cache

from composer_index.ignores.patterns import Pattern, hides, parse_pattern

SECRET_PATTERNS = (
    ".env*",
    "*.env",
    "*.pem",
    "*.key",
    "*.p12",
    "*.pfx",
    "*.jks",
    "*.keystore",
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
    "credentials",
    "credentials.*",
    "secrets.json",
    "secrets.toml",
    "secrets.yaml",
    "secrets.yml",
    "service-account*.json",
    "*.tfstate",
    "*.tfvars",
    ".ssh/",
    ".gnupg/",
    ".aws/",
    "**/.kube/config",
    "**/.docker/config.json",
)
"""Git-ignore patterns of files whose text never reaches a prompt, explicit requests included."""


@lru_cache(maxsize=256)
def is_secret_path(path: str) -> bool:
    """Whether a file holds secrets by its name or that of a folder it lies in."""
    return hides(_patterns(), path.lstrip("/"))


@cache
def _patterns() -> tuple[Pattern, ...]:
    parsed = map(parse_pattern, SECRET_PATTERNS)
    return tuple(pattern for pattern in parsed if pattern is not None)

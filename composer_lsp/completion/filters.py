"""Which documents get suggestions, and which never reach a prompt."""

import os
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path, PurePath
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from composer_lsp.completion.request import DocumentSnapshot, Trigger
from composer_lsp.config import TabSettings

if TYPE_CHECKING:
    import pathspec

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
    ".kube/config",
    ".docker/config.json",
)
"""Git-ignore patterns of files whose text never reaches a prompt, explicit requests included."""

_SECRET_LANGUAGES = frozenset({"dotenv"})


def document_path(uri: str) -> str | None:
    """The path that a document's URI names (`file:`, `untitled:`, notebook cells), None without one."""
    parts = urlsplit(uri)
    path = unquote(parts.path)
    return path or None


def is_secret(document: DocumentSnapshot) -> bool:
    """Whether the document, or the file that its link leads to, holds secrets by its name."""
    if document.language_id in _SECRET_LANGUAGES:
        return True
    path = document_path(document.uri)
    if path is None:
        return False
    return any(_matches(SECRET_PATTERNS, name) for name in {path, os.path.realpath(path)})


def wants_suggestion(
    document: DocumentSnapshot, trigger: Trigger, settings: TabSettings, roots: Sequence[str] = ()
) -> bool:
    """Whether the user's settings allow a suggestion here. An explicit request overrides them.

    `roots` are the workspace folders' paths; anchored globs (`/build`, `src/gen/*.py`) count from
    the one that holds the document, or from the file system's root.
    """
    if trigger == "invoked":
        return True
    if not settings.enabled or document.language_id in settings.disabled_languages:
        return False
    path = document_path(document.uri)
    if path is None or not settings.disabled_paths:
        return True
    return not _matches(settings.disabled_paths, _relative(path, roots))


def _relative(path: str, roots: Sequence[str]) -> str:
    for root in sorted(roots, key=len, reverse=True):
        if PurePath(path).is_relative_to(root):
            return Path(path).relative_to(root).as_posix()
    return path


def _matches(patterns: tuple[str, ...], path: str) -> bool:
    return _spec(patterns).match_file(path.lstrip("/"))


@lru_cache(maxsize=8)
def _spec(patterns: tuple[str, ...]) -> "pathspec.GitIgnoreSpec":
    import pathspec  # 60 ms, which would delay the answer to `initialize`

    return pathspec.GitIgnoreSpec.from_lines(patterns)

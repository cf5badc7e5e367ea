"""Which documents get suggestions, and which never reach a prompt."""

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path, PurePath
from urllib.parse import unquote, urlsplit

from composer_index.ignores import HiddenFiles, Pattern, hides, is_sample_path, parse_pattern
from composer_lsp.completion.request import DocumentSnapshot, Trigger
from composer_lsp.config import TabSettings

_SECRET_LANGUAGES = frozenset({"dotenv"})


def document_path(uri: str) -> str | None:
    """The path that a document's URI names (`file:`, `untitled:`, notebook cells), None without one.
    It may hold what no file's name can."""
    try:
        path = urlsplit(uri).path
    except ValueError:  # such as `file://[x/.env`, whose name counts all the same
        path = uri
    # The escape keeps names that are no UTF-8.
    return unquote(path, errors="surrogateescape") or None


def prompt_path(uri: str) -> str:
    """The document's path as a prompt can carry it, which not every file's name is."""
    return (document_path(uri) or "").encode(errors="replace").decode()


def root_of(path: str, roots: Sequence[str]) -> str | None:
    """The innermost of the folders that holds the path."""
    for root in sorted(roots, key=len, reverse=True):
        if PurePath(path).is_relative_to(root):
            return root
    return None


def why_withheld(document: DocumentSnapshot, hidden: HiddenFiles) -> str | None:
    """Why the document's text may reach no prompt, explicit requests included, as in "is hidden by
    …"; None if it may."""
    path = document_path(document.uri) or ""
    if document.language_id in _SECRET_LANGUAGES and not is_sample_path(path):
        return "holds secrets by its language"
    return hidden.why_hidden(path) if path else None


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
    patterns = _parsed(settings.disabled_paths)
    return not hides(patterns, _relative(path, roots).lstrip("/"))


def _relative(path: str, roots: Sequence[str]) -> str:
    root = root_of(path, roots)
    return path if root is None else Path(path).relative_to(root).as_posix()


@lru_cache(maxsize=8)
def _parsed(globs: tuple[str, ...]) -> tuple[Pattern, ...]:
    """Raises: PatternError, of globs that no editor's settings brought (those are checked)."""
    return tuple(pattern for pattern in map(parse_pattern, globs) if pattern is not None)

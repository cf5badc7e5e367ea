"""Files that the sandbox covers: secrets of the workspace, and what only root may read."""

import os
import re
import stat
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path

from composer_index.ignores import ComposerIgnore
from composer_index.ignores.secrets import is_secret_file, is_secret_folder

_UNLOOKED = frozenset({".git", "node_modules", "site-packages", "dist-packages", "__pycache__"})
"""Packages hold certificates and test keys that are nobody's secret, and that programs need."""

_URL_USER = re.compile(r"://[^/@\s]+@")
_SECRET_KEY = re.compile(
    r"^\s*(?:\w*header|\w*password|\w*token|helper|askpass)\s*=", re.IGNORECASE
)


def hidden_paths(roots: Sequence[Path]) -> list[Path]:
    """Secret files and folders below the roots, and what their `.composerignore` files hide. A
    folder that is hidden stands for all in it. Walks the whole tree: about 5 µs a file."""
    ignore = ComposerIgnore()
    return [Path(path) for root in roots for path in _hidden_below(str(root), ignore)]


def _hidden_below(root: str, ignore: ComposerIgnore) -> Iterator[str]:
    waiting = [root]
    while waiting:
        try:
            with os.scandir(waiting.pop()) as entries:
                found = list(entries)
        except OSError:
            continue
        for entry in found:
            if entry.is_dir(follow_symlinks=False):
                if is_secret_folder(entry.path.lstrip("/")) or ignore.hidden_by(entry.path):
                    yield entry.path
                elif entry.name not in _UNLOOKED:
                    waiting.append(entry.path)
            elif is_secret_file(entry.path.lstrip("/")) or ignore.hidden_by(entry.path):
                yield from _with_target(entry.path)


def _with_target(path: str) -> Iterator[str]:
    """Of a link, what it leads to: a link cannot be covered."""
    target = os.path.realpath(path)
    if os.path.exists(target):  # noqa: PTH110 - once for each file of a tree
        yield target


@cache
def private_system_files() -> tuple[Path, ...]:
    """Files below /etc that not everybody may read, but this user: for root, all of them. They do
    not change while we run."""
    return tuple(_private_below("/etc"))


def _private_below(top: str) -> Iterator[Path]:
    for folder, names, files in os.walk(top):
        for name in list(names):
            path = Path(folder, name)
            if not path.is_symlink() and not path.stat().st_mode & stat.S_IROTH:
                names.remove(name)
                if os.access(path, os.R_OK):
                    yield path
        for name in files:
            path = Path(folder, name)
            mode = path.lstat().st_mode
            if stat.S_ISREG(mode) and not mode & stat.S_IROTH and os.access(path, os.R_OK):
                yield path


def without_secrets(git_config: str) -> str:
    """A repository's configuration, without the keys and passwords that git keeps in it."""
    lines = (line for line in git_config.splitlines() if not _SECRET_KEY.match(line))
    return "".join(f"{_URL_USER.sub('://', line)}\n" for line in lines)


def repositories(roots: Iterable[Path], home: Path) -> list[Path]:
    """The `.git` of the roots, of the folders right in them, and of the repositories that the roots
    lie in; not that of a home folder."""
    found: dict[Path, None] = {}
    for root in roots:
        found |= dict.fromkeys(sorted(root.glob("*/.git")))
        for folder in (root, *root.parents):
            if home.is_relative_to(folder):
                break
            if (folder / ".git").exists():
                found[folder / ".git"] = None
                break
    return list(found)

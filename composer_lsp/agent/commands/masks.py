"""What of the workspace the sandbox binds in its own way: it covers secrets, and what only root may
read; caches and packages it leaves to the command."""

import os
import re
import stat
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from composer_index.ignores import ComposerIgnore
from composer_index.ignores.rules import Rules
from composer_index.ignores.secrets import is_secret_file, is_secret_folder
from composer_lsp.agent.commands.upper import BUILD_FOLDERS, DERIVED_FOLDERS

_UNLOOKED = frozenset({".git", "node_modules", "site-packages", "dist-packages", "__pycache__"})
"""Packages hold certificates and test keys that are nobody's secret, and that programs need."""
_CERTIFICATES = (".pem", ".gpg")
"""As toolchains have them: of authorities and packagers, or for tests."""

_LASTING = frozenset(
    [
        *("node_modules", ".venv", "venv", "env", ".tox", ".nox", "target", ".gradle", ".next"),
        *(".nuxt", ".turbo", ".angular", ".cache", ".pytest_cache", ".mypy_cache", ".ruff_cache"),
    ]
)
_OCTAL = re.compile(r"\\(\d{3})")
"""How spaces and the like are written in `mountinfo`."""

_URL_USER = re.compile(r"://[^/@\s]+@")
_SECRET_KEY = re.compile(
    r"^\s*(?:\w*header|\w*password|\w*token|helper|askpass)\s*=", re.IGNORECASE
)


@dataclass(slots=True)
class Survey:
    """Of the roots, as they are on the disk."""

    hidden: list[Path] = field(default_factory=list[Path])
    """Secret files and folders, and what `.composerignore` files hide. A folder that is hidden
    stands for all in it."""
    folders: list[Path] = field(default_factory=list[Path])
    """All others, but for those in packages and caches."""


def survey(roots: Sequence[Path]) -> Survey:
    """Walks the whole tree: about 5 µs a file."""
    found, ignore = Survey(), ComposerIgnore()
    for root in roots:
        _look_below(str(root), ignore, found)
    return found


def secrets_in_toolchains(folders: Iterable[Path], left_out: Iterable[Path]) -> list[Path]:
    """Secret files and folders below `folders`, but for certificates and for what lies in
    `left_out`."""
    found: list[Path] = []
    skipped = {str(folder) for folder in left_out}
    waiting = [path for path in map(str, folders) if path not in skipped]
    while waiting:
        try:
            with os.scandir(waiting.pop()) as scanned:
                entries = list(scanned)
        except OSError:
            continue
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                if is_secret_folder(entry.name):
                    found.append(Path(entry.path))
                elif entry.name not in _UNLOOKED and entry.path not in skipped:
                    waiting.append(entry.path)
            elif (
                entry.is_file(follow_symlinks=False)
                and not entry.name.endswith(_CERTIFICATES)
                and is_secret_file(entry.path.lstrip("/"))
            ):
                found.append(Path(entry.path))
    return found


def _look_below(root: str, ignore: ComposerIgnore, found: Survey) -> None:
    waiting = [root]
    while waiting:
        try:
            with os.scandir(waiting.pop()) as scanned:
                entries = list(scanned)
        except OSError:
            continue
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                if is_secret_folder(entry.path.lstrip("/")) or ignore.hidden_by(entry.path):
                    found.hidden.append(Path(entry.path))
                    continue
                if entry.name != ".git":
                    found.folders.append(Path(entry.path))
                if entry.name not in _UNLOOKED:
                    waiting.append(entry.path)
            elif is_secret_file(entry.path.lstrip("/")) or ignore.hidden_by(entry.path):
                found.hidden += map(Path, _with_target(entry.path))


def lasting(
    folders: Iterable[Path], roots: Sequence[Path], *, has_builds: bool = False
) -> list[Path]:
    """The outermost of the folders that git ignores whose names say that tools fill them over many
    runs and nobody deletes them on the way to the next step. `has_builds`: and of those that a tool
    makes anew."""
    names = _LASTING | BUILD_FOLDERS if has_builds else _LASTING
    chosen = [folder for folder in folders if folder.name in names]
    ignored: set[Path] = {folder for folder in chosen if folder.name in DERIVED_FOLDERS}
    by_root: dict[Path, list[str]] = {}
    for folder in chosen:
        if folder in ignored:
            continue
        root = max((root for root in roots if folder.is_relative_to(root)), key=_depth)
        by_root.setdefault(root, []).append(folder.relative_to(root).as_posix())
    for root, paths in by_root.items():
        reasons = Rules(root).hidden_many(path for path in paths if path != ".")
        ignored |= {root / path for path, reason in reasons.items() if reason == "gitignore"}
    return [path for path in sorted(ignored) if ignored.isdisjoint(path.parents)]


def mounts_below(roots: Sequence[Path]) -> list[Path]:
    """Where other file systems are mounted in the roots, which an overlay does not show."""
    found: set[Path] = set()
    for line in Path("/proc/self/mountinfo").read_text("utf-8", "surrogateescape").splitlines():
        place = Path(_OCTAL.sub(lambda match: chr(int(match[1], 8)), line.split(" ")[4]))
        if any(root in place.parents for root in roots) and place not in roots:
            found.add(place)
    return sorted(found)


def _depth(path: Path) -> int:
    return len(path.parts)


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

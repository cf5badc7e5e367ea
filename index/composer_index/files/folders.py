"""Folders of a workspace in which files that are to be indexed may lie, now or later."""

import os
from collections import deque
from collections.abc import Iterable, Iterator
from pathlib import Path

from composer_index.ignores import git, layered
from composer_index.ignores.rules import Rules


def list_folders(rules: Rules) -> Iterator[str]:
    """Paths relative to the root, which is "" and comes first; each comes before its own folders
    are looked for, nearer ones sooner. Ignored folders, of which there are often more than of all
    others, are not entered."""
    waiting = deque([""])
    while waiting:
        start = waiting.popleft()
        folder = rules.absolute(start)
        ignored = _ignored(folder) if rules.asks_git(folder) else None
        found = _layered(rules, folder) if ignored is None else _unignored(folder, ignored)
        yield start
        for path, is_repository in found:
            whole = f"{start}/{path}" if start else path
            if rules.is_secret(whole, is_folder=True) and not rules.included:
                continue
            if is_repository:
                waiting.append(whole)
            else:
                yield whole


def _ignored(folder: str) -> set[str] | None:
    try:
        return {path for path in git.list_ignored(folder) if path.endswith("/")}
    except git.GitError:
        return None


def _layered(rules: Rules, folder: str) -> Iterator[tuple[str, bool]]:
    for path, entry in layered.walk(rules.layers(folder), on_error=lambda path, error: None):
        if entry.is_dir(follow_symlinks=False):
            yield path, layered.is_repository(entry.path)


def _unignored(folder: str, ignored: set[str]) -> Iterator[tuple[str, bool]]:
    waiting = deque([""])
    while waiting:
        prefix = waiting.popleft()
        for name in subfolders(f"{folder}/{prefix}"):
            path = prefix + name
            if f"{path}/" in ignored:
                continue
            is_repository = layered.is_repository(f"{folder}/{path}")
            yield path, is_repository
            if not is_repository:
                waiting.append(f"{path}/")


def subfolders(folder: str) -> list[str]:
    """Names, git's own left out. None of a folder that is gone or cannot be read."""
    try:
        with os.scandir(folder) as entries:
            return [
                entry.name
                for entry in entries
                if entry.is_dir(follow_symlinks=False) and entry.name != ".git"
            ]
    except OSError:
        return []


def with_targets(files: Iterable[str]) -> set[str]:
    """Absolute paths of files whose changes are to be watched, of links with what they lead to;
    their folders without links. Of devices (git's settings may name `/dev/null`) there are none."""
    found = {
        os.path.join(os.path.realpath(Path(path).parent), Path(path).name)  # noqa: PTH118
        for file in files
        for path in (file, os.path.realpath(file))
    }
    return {path for path in found if os.path.isfile(path) or not os.path.exists(path)}  # noqa: PTH110, PTH113

"""The repositories of a workspace, whose git folders the sandbox shows and protects.

A `.git` may have been written by a command or by whoever wrote the workspace. So no link is followed
to one, and a git folder outside of the workspace is shown only if it says itself that the work tree is
its own.
"""

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

_MAX_NAME_CHARS = 10_000


@dataclass(frozen=True, slots=True)
class Repository:
    place: Path
    """Its `.git`: a folder, or the file that a work tree has in its place."""
    folder: Path
    """Its own folder; the same as `place` where that is a file that tells of none."""


def repositories(roots: Sequence[Path], home: Path) -> list[Repository]:
    """Of the roots, of the folders right in them, and those that the roots lie in; not that of a home
    folder. `roots`: without links in their paths."""
    found: dict[Path, Repository] = {}
    for root in roots:
        for place in (*_places_right_in(root), *_place_around(root, home)):
            if not place.is_symlink():
                found[place] = Repository(place, _folder(place, roots))
    return list(found.values())


def _places_right_in(root: Path) -> Iterator[Path]:
    try:
        with os.scandir(root) as entries:
            names = sorted(entry.name for entry in entries if entry.is_dir(follow_symlinks=False))
    except OSError:
        return
    for name in names:
        if os.path.lexists(root / name / ".git"):
            yield root / name / ".git"


def _place_around(root: Path, home: Path) -> Iterator[Path]:
    for folder in (root, *root.parents):
        if home.is_relative_to(folder):
            return
        if os.path.lexists(folder / ".git"):
            yield folder / ".git"
            return


def _folder(place: Path, roots: Iterable[Path]) -> Path:
    if place.is_dir():
        return place
    text = _read(place)
    if text is None or not text.startswith("gitdir: "):
        return place
    folder = Path(os.path.realpath(place.parent / text.removeprefix("gitdir: ")))
    common = folder.parent.parent
    back, name = _read(folder / "gitdir"), _read(folder / "commondir")
    if back is None or name is None or folder.parent.name != "worktrees":
        return place
    if Path(os.path.realpath(folder / back)) != place:
        return place
    if Path(os.path.realpath(folder / name)) != common or not is_git_folder(common):
        return place
    return place if any(root.is_relative_to(common) for root in roots) else common


def is_git_folder(folder: Path) -> bool:
    """What git asks of one."""
    return (
        (folder / "HEAD").is_file() and (folder / "objects").is_dir() and (folder / "refs").is_dir()
    )


def _read(path: Path) -> str | None:
    """One line, without the white space around it; None for what is no file."""
    try:
        if not path.is_file():
            return None
        with path.open(encoding="utf-8", errors="surrogateescape") as file:
            return file.read(_MAX_NAME_CHARS).strip()
    except (OSError, ValueError):
        return None

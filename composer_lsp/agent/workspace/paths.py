"""The workspace's paths: what a model writes, and the file of a root that it means.

With one root a path is relative to it. With several, each root has a name, its folder's, and a
path begins with it: `api/src/main.py`. Nothing outside of the roots has a path.
"""

import os
import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath, PureWindowsPath
from urllib.parse import urlsplit
from urllib.request import url2pathname

from composer_index.files.listing import list_files
from composer_index.ignores.rules import Reason, Rules
from composer_lsp.agent.workspace.git_folders import GitFolders, is_git_name

_WHY: dict[Reason, str] = {
    "outside": "it is outside of the workspace",
    "git": "git's own files are not for the agent",
    "secret": "it holds secrets by its name; the setting composer.index.includeSecret lets it be read",
    "composerignore": "a .composerignore file hides it",
    "gitignore": "git ignores it",
    "link": "it is reached by a link to a folder",
    "special": "it is no plain file",
    "unreadable": "it cannot be read",
}


class PathError(Exception):
    """A path that the agent may not use; the text names it and says why."""


class IgnoredError(PathError):
    """Git ignores the file: the user may let it be read."""


@dataclass(frozen=True, slots=True)
class Place:
    """A path of the workspace, of something that need not exist."""

    root: str
    """Absolute, without links."""
    relative: str
    """To the root, with `/` between its parts; empty for the root itself."""
    path: str
    """As the model writes it."""

    @property
    def absolute(self) -> str:
        return f"{self.root.removesuffix(os.sep)}{os.sep}{self.relative}"


class Paths:
    """Safe to use from several threads."""

    def __init__(self, roots: Sequence[Path], include_secret: tuple[str, ...] = ()) -> None:
        """Raises: PatternError for a pattern of `include_secret` that is none."""
        self._include_secret = include_secret
        self._rules: dict[str, Rules] = {}
        for root in roots:
            rules = Rules(root, include_secret=include_secret)
            self._rules.setdefault(rules.root, rules)
        self._names = _named(list(self._rules))
        self._lock = threading.Lock()

    @property
    def roots(self) -> Sequence[str]:
        return list(self._rules)

    def locate(self, given: str) -> Place:
        """The place that a path means: relative as the workspace shows it, absolute, or a `file:`
        URI. Whether it may be read is another question (`check`).

        Raises: PathError.
        """
        text = given.strip()
        if not text or "\0" in text or not _is_encodable(text):
            raise PathError(f"{given!r} is no path")
        if text.startswith("file:"):
            text = url2pathname(urlsplit(text).path)
        if os.path.isabs(text):  # noqa: PTH117 - no Path of a model's text before it is checked
            return self._absolute(given, text)
        if PureWindowsPath(text).drive or text.startswith("~"):
            raise PathError(f"{given!r} is outside of the workspace; paths are relative to it")
        parts = [part for part in text.replace("\\", "/").split("/") if part not in ("", ".")]
        if len(self._rules) > 1:
            root = self._names.get(parts[0]) if parts else None
            if root is None:
                names = ", ".join(self._names)
                raise PathError(f"{given!r} must begin with one of the folders: {names}")
            parts = parts[1:]
        else:
            root = next(iter(self._rules))
        return self._place(given, root, parts)

    def of_absolute(self, path: str) -> Place | None:
        """None for what is outside of the workspace."""
        try:
            return self._absolute(path, path)
        except PathError:
            return None

    def at(self, root: str, relative: str) -> Place:
        """Of a file that the index or the listing names."""
        name = next(name for name, each in self._names.items() if each == root)
        path = f"{name}/{relative}".removesuffix("/") if len(self._rules) > 1 else relative or "."
        return Place(root, relative, path)

    def check(self, place: Place, *, may_be_ignored: bool = False) -> None:
        """Whether the agent may read or write there. Some milliseconds: git is asked.

        Raises: PathError; IgnoredError if git ignores it, unless `may_be_ignored`.
        """
        if not place.relative:
            return
        reason = self._reasons([place]).get(place)
        if reason == "gitignore":
            if may_be_ignored:
                return
            raise IgnoredError(f"{place.path} is not read unasked: {_WHY[reason]}")
        if reason is not None:
            raise PathError(_cannot(place, reason))

    def refused(self, places: Iterable[Place]) -> dict[Place, str]:
        """Why those that `check` refuses, were they ignored or not, cannot be used. All of them cost
        what one does."""
        return {
            place: _cannot(place, reason)
            for place, reason in self._reasons(places).items()
            if reason != "gitignore"
        }

    def followed(self, place: Place) -> Place:
        """The file that a link leads to, by its own name, so that one file has one name; the same
        place if it is no link, or leads out of the workspace."""
        if not os.path.islink(place.absolute):  # noqa: PTH114
            return place
        return self.of_absolute(os.path.realpath(place.absolute)) or place

    def listed(self) -> list[str]:
        """The paths of all files that are not hidden, in order. Tens of milliseconds and more."""
        return sorted(
            self.at(root, file.path).path
            for root in self._rules
            # Rules of its own: they belong to one thread, and a listing takes its time.
            for file in list_files(Rules(root, include_secret=self._include_secret))
        )

    def hidden_among(self, places: Iterable[Place]) -> set[Place]:
        """Those that are hidden for any reason."""
        return set(self._reasons(places))

    def found_files(self, root: str) -> "FoundFiles":
        """For files of one of the roots. Some milliseconds."""
        with self._lock:
            return FoundFiles(self._rules[root], self._lock)

    def _reasons(self, places: Iterable[Place]) -> dict[Place, Reason]:
        """Of those that are hidden, why."""
        by_root: dict[str, dict[str, Place]] = {}
        for place in places:
            by_root.setdefault(place.root, {})[place.relative] = place
        with self._lock:
            reasons: dict[Place, Reason] = {
                found[path]: reason
                for root, found in by_root.items()
                for path, reason in self._rules[root].hidden_many(found).items()
            }
        git_folders = GitFolders()
        for found in by_root.values():
            for place in found.values():
                ends = (place, self.followed(place))
                if any(git_folders.holds(each.absolute) for each in ends):
                    reasons[place] = "git"
        return reasons

    def _absolute(self, given: str, path: str) -> Place:
        # The folder without links; the name itself may be a link, which `check` looks into.
        folder, name = os.path.split(os.path.normpath(path))
        real = os.path.join(os.path.realpath(folder), name)  # noqa: PTH118
        # The longest root first: one may lie in another.
        for root in sorted(self._rules, key=len, reverse=True):
            for candidate in (real, os.path.normpath(path)):
                if (relative := _below(root, candidate)) is not None:
                    return self.at(root, relative)
        raise PathError(f"{given!r} is outside of the workspace")

    def _place(self, given: str, root: str, parts: Sequence[str]) -> Place:
        inside: list[str] = []
        for part in parts:
            if part != "..":
                inside.append(part)
            elif inside:
                inside.pop()
            else:
                raise PathError(f"{given!r} is outside of the workspace")
        return self.at(root, "/".join(inside))


class FoundFiles:
    """Which files of a root are hidden, asked as a search comes upon them. They are known to be plain
    files, and are not looked at one by one. As `Paths.hidden_among` otherwise. For one thread."""

    def __init__(self, rules: Rules, lock: threading.Lock) -> None:
        self._rules = rules
        self._lock = lock
        self._question = rules.question(are_files=True)
        self._question.begin()
        self._git_folders = GitFolders()
        self._added: set[str] = set()
        self._gits: set[str] = set()

    def add(self, files: Iterable[str]) -> None:
        """Relative to the root, with `/` between their parts."""
        new = set(files) - self._added
        self._added |= new
        with self._lock:
            self._question.add(new)
        for file in new:
            folder, _, name = file.rpartition("/")
            if is_git_name(name) or self._git_folders.holds(self._rules.absolute(folder)):
                self._gits.add(file)

    def hidden(self) -> set[str]:
        """Of all that were added."""
        with self._lock:
            return self._gits.union(self._question.answer())


def _is_encodable(path: str) -> bool:
    try:
        os.fsencode(path)
    except UnicodeEncodeError:
        return False
    return True


def _cannot(place: Place, reason: Reason) -> str:
    return f"{place.path} cannot be used: {_WHY[reason]}"


def _below(root: str, path: str) -> str | None:
    try:
        relative = Path(path).relative_to(root).as_posix()
    except ValueError:
        return None
    return "" if relative == "." else relative


def _named(roots: Sequence[str]) -> dict[str, str]:
    """Each root by its folder's name, with a number where two have the same."""
    names: dict[str, str] = {}
    for root in roots:
        base = PurePosixPath(Path(root).as_posix()).name or "root"
        name, number = base, 2
        while name in names:
            name, number = f"{base}-{number}", number + 1
        names[name] = root
    return names

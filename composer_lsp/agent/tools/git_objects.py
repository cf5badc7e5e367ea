"""The hidden files that a git repository has a copy of."""

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from composer_index.ignores import ComposerIgnore, is_secret_path
from composer_index.ignores.git import GitError, output

_HISTORY_S = 3.0


@dataclass(frozen=True, slots=True)
class Secret:
    what: str
    """The file's path; or words for what may be one: an object that no path leads to, or that is not
    known before a line runs."""
    is_known: bool = True
    """It is a hidden file."""


class GitObjects:
    """Of the repository that a folder lies in; of none, there are none. Each question asks git: 10
    ms and more, up to seconds."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        try:
            top = output(str(folder), "rev-parse", "--show-toplevel")
            self._top = os.fsdecode(top).removesuffix("\n")
        except GitError:
            self._top = ""
        self._ignore = ComposerIgnore()

    def absolute(self, path: str) -> Path:
        """Of a path in the repository."""
        return Path(self._top, path)

    def hidden(self) -> Iterator[str]:
        """The paths of those in the index, in the last commit, and in any that a branch or a reflog
        leads to."""
        return filter(self._is_hidden, self._known())

    def hidden_behind(self, names: Iterable[str]) -> Secret | None:
        """What of revisions and objects is one: a blob without its path, or a tree or an unknown
        commit with something hidden in it."""
        if not self._top:
            return None
        named = list(dict.fromkeys(names))
        for name, kind in zip(named, self._kinds(named), strict=True):
            _, colon, path = name.partition(":")
            if kind == "ambiguous" or (kind == "blob" and not (colon and path)):
                return Secret(f"the file behind {name}", is_known=False)
            if kind == "blob" and self._is_hidden(path.removeprefix("./")):
                return Secret(path)
            if kind in ("commit", "tree"):
                for found in self._names_in(name, kind):
                    if self._is_hidden(found):
                        return Secret(found)
        return None

    def _is_hidden(self, path: str) -> bool:
        place = f"{self._top}/{path}"
        return is_secret_path(place) or self._ignore.hidden_by(place) is not None

    def _kinds(self, names: Sequence[str]) -> list[str]:
        """Empty for what names nothing."""
        asked = "".join(f"{name}^{{}}\n" if ":" not in name else f"{name}\n" for name in names)
        try:
            told = output(
                str(self._folder),
                *("cat-file", "--batch-check=%(objecttype)"),
                stdin=os.fsencode(asked),
            )
        except GitError:
            return ["ambiguous"] * len(names)
        lines = os.fsdecode(told).split("\n")[: len(names)]
        return [_kind(line) for line in lines]

    def _names_in(self, name: str, kind: str) -> list[str]:
        """Of a commit: those in it and before it that no branch and no reflog leads to."""
        if kind == "tree":
            return self._paths("ls-tree", "-r", "-z", "--name-only", "--full-tree", name)
        options = ("--name-only", "-z", "--format=", "--no-renames", "-m")
        others = ("--not", "--all", "--reflog", "HEAD")
        alone = self._paths("log", *options, name, *others, timeout_s=_HISTORY_S)
        return alone and [
            *alone,
            *self._paths("ls-tree", "-r", "-z", "--name-only", "--full-tree", name),
        ]

    def _known(self) -> list[str]:
        if not self._top:
            return []
        options = ("--name-only", "-z", "--format=", "--no-renames", "-m")
        paths = {
            *self._paths("ls-files", "-z"),
            *self._paths("ls-tree", "-r", "-z", "--name-only", "HEAD"),
            *self._paths("log", "--all", "--reflog", *options, timeout_s=_HISTORY_S),
        }
        return sorted(paths)

    def _paths(self, *arguments: str, timeout_s: float | None = None) -> list[str]:
        try:
            told = output(self._top, *arguments, timeout_s=timeout_s)
        except GitError:
            return []  # no commit yet, or a long history
        return [path for path in os.fsdecode(told).split("\0") if path]


def _kind(line: str) -> str:
    word = line.rpartition(" ")[2]
    return word if word in ("ambiguous", "blob", "commit", "tree") else ""

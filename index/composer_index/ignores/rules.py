"""One answer for every path of a workspace: may it be in the index, and if not, why."""

import os
import stat
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Literal

from composer_index.ignores import git, layered
from composer_index.ignores.composerignore import FILE_NAME, ComposerIgnore, IgnoreFolder
from composer_index.ignores.patterns import Pattern, hides, parse_pattern
from composer_index.ignores.secrets import is_in_secret_folder, is_secret_file, is_secret_folder

Reason = Literal[
    "outside",  # of the root, or a link that leads there
    "git",  # git's own files
    "secret",
    "composerignore",
    "gitignore",
    "link",  # beyond a link to a folder, or a link that leads nowhere
    "special",  # a pipe, a socket, a device
    "unreadable",
]

RULE_FILE_NAMES = frozenset({layered.FILE_NAME, FILE_NAME})
"""Files by these names, in any folder, change what is hidden."""


class Rules:
    """Answers by the files on disk as they are at the moment of asking, so that nobody has to tell
    it of a changed ignore file. For one thread.

    In a work tree git is asked: a batch of paths costs one or two short processes, 2 to 20 ms. A
    process that stays would answer faster, and from the index and the excludes that it has read
    once. A repository below the root, submodules among them, has its own rules, and neither those
    of the one around it; whether it is hidden as a whole says the one around it. A root that its
    repository ignores is taken for a folder outside of any: somebody has opened it on purpose.
    """

    def __init__(self, root: str | Path, *, include_secret: tuple[str, ...] = ()) -> None:
        """`include_secret`: patterns in git-ignore syntax, relative to the root, of files that the
        built-in list of secrets names and that are to be read all the same. Nothing else brings
        one back. Raises: PatternError."""
        self.root = os.path.realpath(root)
        self.composer_ignore = ComposerIgnore()
        parsed = (parse_pattern(pattern) for pattern in include_secret)
        self.included: Sequence[Pattern] = [pattern for pattern in parsed if pattern is not None]

    def absolute(self, path: str) -> str:
        return f"{self.root.removesuffix(os.sep)}{os.sep}{path}" if path else self.root

    def relative(self, path: str) -> str | None:
        """Of an absolute path, with `/` between its parts; None outside of the root."""
        try:
            return Path(path).relative_to(self.root).as_posix()
        except ValueError:
            return None

    def hidden(self, path: str) -> Reason | None:
        """Why a path, relative to the root with `/` between its parts, is not to be read; None if
        it may be. It need not exist. Of a link to a file, neither its own name may be hidden nor
        the one that it leads to."""
        return self.hidden_many([path]).get(path)

    def hidden_many(self, paths: Iterable[str]) -> dict[str, Reason]:
        """Those of the paths that are hidden. Never raises for a path."""
        question = self.question()
        question.add(paths)
        return question.answer()

    def question(self, *, are_files: bool = False) -> "Question":
        """As `hidden_many`, for paths that become known one after the other. `are_files`: all are
        known to be plain files, and only the folders above them are looked at."""
        return Question(self, partial(self._places, top=self._top(), is_file=are_files))

    def is_secret(self, path: str, *, is_folder: bool = False) -> bool:
        """By its own name alone, not by those of the folders above it. Nothing is brought back."""
        is_secret = is_secret_folder if is_folder else is_secret_file
        return is_secret(self.absolute(path).lstrip(os.sep))

    def is_included(self, path: str) -> bool:
        return bool(self.included) and hides(self.included, path)

    def asks_git(self, folder: str) -> bool:
        """Whether git knows what is hidden in an absolute folder."""
        above = layered.toplevel(folder)
        if above is None:
            return False
        if above == folder:
            return True
        try:
            return not git.ignored(above, [Path(folder).relative_to(above).as_posix()])
        except git.GitError:
            return True

    def layers(self, folder: str) -> layered.Folder:
        """For an absolute folder that git cannot be asked about."""
        above = layered.toplevel(folder)
        return layered.opened(folder, above if self.asks_git(folder) else None)

    def _places(
        self, path: str, top: "_Folder", *, is_file: bool
    ) -> Reason | list[tuple[str, str]]:
        """The repositories to ask, and for what; of a link, for both of its ends."""
        folder = self._folder_of(path, top)
        if isinstance(folder, str):
            return folder
        if folder.is_beyond_link:
            return "link"
        places = folder.places(path)
        if is_file:
            return places
        mode = _mode(self.absolute(path))
        if not stat.S_ISLNK(mode):
            return places if mode == 0 or _is_plain(mode) else "special"
        target = self.relative(os.path.realpath(self.absolute(path)))
        if target is None:
            return "outside"
        mode = _mode(self.absolute(target))
        if not stat.S_ISREG(mode):
            return "link"
        folder = self._folder_of(target, top)
        return folder if isinstance(folder, str) else places + folder.places(target)

    def _folder_of(self, path: str, top: "_Folder") -> "Reason | _Folder":
        """That a path lies in, unless the path's own text hides it, or a `.composerignore`."""
        parts = path.split("/")
        if ".." in parts or "." in parts or "" in parts or "\0" in path:
            return "outside"
        if ".git" in parts:
            return "git"
        folder = self._folder(parts, top)
        absolute = self.absolute(path)
        is_secret = folder.is_secret or is_secret_file(absolute.lstrip(os.sep))
        if is_secret and not self.is_included(path):
            return "secret"
        return "composerignore" if folder.ignore.hides(absolute) else folder

    def _folder(self, parts: Sequence[str], top: "_Folder") -> "_Folder":
        folder = top
        for end, name in enumerate(parts[:-1], start=1):
            below = folder.below.get(name)
            if below is None:
                below = folder.below[name] = self._below(folder, "/".join(parts[:end]))
            folder = below
        return folder

    def _top(self) -> "_Folder":
        return _Folder(
            is_secret=is_in_secret_folder(self.absolute("x").lstrip(os.sep)),
            ignore=self.composer_ignore.folder(self.root),
        )

    def _below(self, above: "_Folder", path: str) -> "_Folder":
        absolute = self.absolute(path)
        is_repository = layered.is_repository(absolute)
        return _Folder(
            is_secret=above.is_secret or is_secret_folder(absolute.lstrip(os.sep)),
            ignore=self.composer_ignore.below(above.ignore, absolute),
            is_beyond_link=above.is_beyond_link or stat.S_ISLNK(_mode(absolute)),
            repository=path if is_repository else above.repository,
            around=(*above.places(path),) if is_repository else above.around,
        )


class Question:
    """Which paths are hidden. Each folder is looked at once, when a path in it is first added. Git is
    asked at the end, for all paths at once."""

    def __init__(
        self, rules: Rules, places: Callable[[str], Reason | list[tuple[str, str]]]
    ) -> None:
        """`places`: of a path, the repositories to ask, and for what; or why it is hidden."""
        self._rules = rules
        self._places = places
        self._reasons: dict[str, Reason] = {}
        self._trees: dict[str, layered.Tree | None] = {}
        """Of the repositories that git cannot be asked about; None stands for one of the others."""
        self._for_git: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))

    def begin(self) -> None:
        """Do at once what takes milliseconds and depends on no path; otherwise the first one waits."""
        self._tree("")

    def add(self, paths: Iterable[str]) -> None:
        """Never raises for a path."""
        for path in paths:
            found = self._places(path)
            if isinstance(found, str):
                self._reasons[path] = found
                continue
            for repository, place in found:
                if (tree := self._tree(repository)) is None:
                    self._for_git[repository][place].add(path)
                elif tree.hides(place):
                    self._reasons[path] = "gitignore"

    def answer(self) -> dict[str, Reason]:
        """Those that are hidden, of all that were added."""
        for repository, asked in self._for_git.items():
            for place in self._ignored(repository, asked):
                self._reasons.update(dict.fromkeys(asked[place], "gitignore"))
        return self._reasons

    def _tree(self, repository: str) -> layered.Tree | None:
        if repository not in self._trees:
            folder = self._rules.absolute(repository)
            is_gits = self._rules.asks_git(folder)
            self._trees[repository] = (
                None if is_gits else layered.Tree(layered.opened(folder, None))
            )
        return self._trees[repository]

    def _ignored(self, repository: str, places: Iterable[str]) -> Iterable[str]:
        folder = self._rules.absolute(repository)
        try:
            return git.ignored(folder, places)
        except git.GitError:  # the listing tells of it
            return layered.hidden_among(self._rules.layers(folder), places)


@dataclass(kw_only=True, slots=True)
class _Folder:
    """As it was when a call first asked for it, which no other call may rely on."""

    is_secret: bool
    """By its name or one above it."""
    ignore: IgnoreFolder
    is_beyond_link: bool = False
    """Whether it is a link, or lies beyond one."""
    repository: str = ""
    """The nearest, by its path from the root."""
    around: tuple[tuple[str, str], ...] = ()
    """The repositories around that one, and what they call the ones right in them."""
    below: dict[str, "_Folder"] = field(default_factory=dict[str, "_Folder"])

    def places(self, path: str) -> list[tuple[str, str]]:
        """What is right in the folder, as each repository around it calls it."""
        place = path[len(self.repository) + 1 :] if self.repository else path
        return [*self.around, (self.repository, place)]


def _mode(path: str) -> int:
    """0 if there is nothing of that name."""
    try:
        return os.lstat(path).st_mode
    except (OSError, ValueError):
        return 0


def _is_plain(mode: int) -> bool:
    return stat.S_ISREG(mode) or stat.S_ISDIR(mode)

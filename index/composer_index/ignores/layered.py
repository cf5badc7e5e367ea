"""Git's ignore files where git cannot be asked: outside of a repository, without git, or where git
trusts no repository.

The tests hold it to git itself. Patterns and names are compared byte by byte, as by git: each
byte stands as one character here (`Latin-1`).
"""

import os
import re
import stat
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from composer_index.ignores import git
from composer_index.ignores.patterns import Pattern, PatternError, decision, parse_pattern

FILE_NAME = ".gitignore"
_MAX_BYTES = 16 << 20
_BOM = b"\xef\xbb\xbf"
_STARS_IN_NAME = re.compile(r"(?P<text>[^*?\[\\]*[^*?\[\\/])(?P<stars>\*\*+)(?=/)")
_STARS_AND_ESCAPED_SLASH = re.compile(r"(?:^|(?<=^!)|(?<=/))\*\*+\\/(?! *\Z)")
_SET = re.compile(r"\\.|\[[!^]?\]?(?:\\.|\[:\w*:\]|[^\]\\])*\]", re.DOTALL)
_SET_ITEM = re.compile(r"\[:\w*:\]|\\?(.)-(?!\]\Z)\\?(.)|\\?.", re.DOTALL)


@dataclass(frozen=True, slots=True)
class _Level:
    """What one ignore file says."""

    source: str
    folder: str
    """That its paths count from, with a slash at its end; "" for the topmost."""
    patterns: tuple[Pattern, ...]
    any: re.Pattern[str]
    """Matches what any of the patterns may match."""

    def decision(self, path: str, *, is_folder: bool) -> bool | None:
        path = path[len(self.folder) :]
        if self.any.fullmatch(path) is None:
            return None
        return decision(self.patterns, path, is_folder=is_folder)


@dataclass(frozen=True, slots=True)
class Folder:
    """A folder that is not hidden, and the ignore files that speak of what is in it."""

    path: str
    """On disk, absolute."""
    relative: str
    """To the topmost folder, as `Latin-1`, with a slash at its end; "" for the topmost."""
    levels: tuple[_Level, ...]

    def hides(self, name: str, *, is_folder: bool) -> str | None:
        """The ignore file that hides what is called so in this folder."""
        path = self.relative + _as_bytes(name)
        for level in reversed(self.levels):
            is_hidden = level.decision(path, is_folder=is_folder)
            if is_hidden is not None:
                return level.source if is_hidden else None
        return None

    def speaks_of(self, name: str) -> bool:
        """Whether any pattern may match what is called so; False spares the caller a look at it."""
        path = self.relative + _as_bytes(name)
        return any(level.any.fullmatch(path[len(level.folder) :]) for level in self.levels)

    def below(self, name: str) -> "Folder":
        path = os.path.join(self.path, name)  # noqa: PTH118 - once for each folder of a tree
        return _opened(path, f"{self.relative}{_as_bytes(name)}/", self.levels)


def toplevel(folder: str) -> str | None:
    """The nearest folder, `folder` or one above it, that is the work tree of a repository."""
    above = Path(folder)
    found = (str(place) for place in (above, *above.parents) if is_repository(str(place)))
    return next(found, None)


def opened(folder: str, above: str | None) -> Folder:
    """`folder` with the ignore files that speak of what is in it: the user's own, the repository's
    if `above` is its work tree, and those of the folders from `above` down to it."""
    above = above or folder
    exclude = os.path.join(above, ".git", "info", "exclude")  # noqa: PTH118
    sources = [source for source in (git.excludes_file(), exclude) if source is not None]
    levels = tuple(_levels(sources, "", is_link_fine=True))
    found = _opened(above, "", levels)
    for name in Path(folder).relative_to(above).parts:
        found = found.below(name)
    return found


def walk(
    folder: Folder,
    *,
    on_error: Callable[[str, OSError], None],
    is_open: Callable[[str], bool] = lambda path: True,
) -> Iterator[tuple[str, os.DirEntry[str]]]:
    """All that is not hidden below `folder`, with its path relative to it, folders before what is
    in them. No link is followed. What lies in a nested repository or in a folder that `is_open`
    denies is left out. Each folder's names are held at once, never the tree's."""
    waiting = [("", folder)]
    while waiting:
        prefix, folder = waiting.pop()
        try:
            with os.scandir(folder.path) as entries:
                found = list(entries)
        except OSError as error:
            on_error(prefix, error)
            continue
        for entry in found:
            if entry.name == ".git":
                continue
            is_folder = entry.is_dir(follow_symlinks=False)
            if folder.hides(entry.name, is_folder=is_folder) is not None:
                continue
            path = prefix + entry.name
            yield path, entry
            if is_folder and is_open(path) and not is_repository(entry.path):
                waiting.append((path + "/", folder.below(entry.name)))


def hidden_by(folder: Folder, path: str) -> str | None:
    """The ignore file that hides a path relative to `folder`, or a folder that it lies in."""
    *parents, name = path.split("/")
    for parent in parents:
        if (source := folder.hides(parent, is_folder=True)) is not None:
            return source
        folder = folder.below(parent)
    if not folder.speaks_of(name):
        return None
    is_folder = _is_folder(os.path.join(folder.path, name))  # noqa: PTH118
    return folder.hides(name, is_folder=is_folder)


def hidden_among(folder: Folder, paths: Iterable[str]) -> list[str]:
    """Those of the paths that are hidden, by `hidden_by`; reads each ignore file once."""
    tree = Tree(folder)
    return [path for path in paths if tree.hides(path)]


class Tree:
    """What is hidden below a folder, asked path by path. Each ignore file is read once, when a path
    below it is first asked for."""

    def __init__(self, folder: Folder) -> None:
        self._folders: dict[str, Folder | None] = {"": folder}
        """By their paths; None stands for a hidden one."""

    def hides(self, path: str) -> bool:
        """As `hidden_by`."""
        above, _, name = path.rpartition("/")
        folder = self._folder(above)
        return folder is None or hidden_by(folder, name) is not None

    def _folder(self, path: str) -> Folder | None:
        unknown: list[str] = []
        while path not in self._folders:
            unknown.append(path)
            path = path.rpartition("/")[0]
        found = self._folders[path]
        for path in reversed(unknown):
            name = path.rpartition("/")[2]
            if found is not None:
                is_hidden = found.hides(name, is_folder=True) is not None
                found = None if is_hidden else found.below(name)
            self._folders[path] = found
        return found


def is_repository(folder: str) -> bool:
    """Whether a folder below another one is a repository of its own, or a submodule's."""
    return os.path.lexists(os.path.join(folder, ".git"))  # noqa: PTH118 - once for each folder


def _is_folder(path: str) -> bool:
    try:
        return stat.S_ISDIR(os.lstat(path).st_mode)
    except (OSError, ValueError):
        return False


def _opened(path: str, relative: str, levels: tuple[_Level, ...]) -> Folder:
    source = os.path.join(path, FILE_NAME)  # noqa: PTH118 - once for each folder of a tree
    return Folder(path, relative, (*levels, *_levels([source], relative, is_link_fine=False)))


def _levels(sources: Iterable[str], folder: str, *, is_link_fine: bool) -> Iterator[_Level]:
    for source in sources:
        if patterns := tuple(_patterns(_read(source, is_link_fine=is_link_fine))):
            any_pattern = "|".join(f"(?:{pattern.regex.pattern})" for pattern in patterns)
            yield _Level(source, folder, patterns, re.compile(any_pattern, re.DOTALL))


def _read(path: str, *, is_link_fine: bool) -> bytes:
    """Nothing of what git does not read either: a link in the work tree, a folder, no file."""
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    if not is_link_fine:
        flags |= getattr(os, "O_NOFOLLOW", 0)
    try:
        with open(os.open(path, flags), "rb") as file:  # noqa: PTH123 - of a descriptor
            is_file = stat.S_ISREG(os.fstat(file.fileno()).st_mode)
            return file.read(_MAX_BYTES) if is_file else b""
    except OSError:
        return b""


def _patterns(data: bytes) -> Iterator[Pattern]:
    for line in data.removeprefix(_BOM).split(b"\n"):
        text = line.removesuffix(b"\r").partition(b"\0")[0].decode("latin-1")
        try:
            pattern = _parsed(text)
        except PatternError:
            try:
                pattern = _parsed(_SET.sub(_without_backward_ranges, text))
            except PatternError:
                continue  # as git, which compares names with it and finds none
        if pattern is not None:
            yield pattern


def _parsed(line: str) -> Pattern | None:
    """Git compares the text before the first wildcard by itself, so in `a**/b` it takes the stars
    for a component of their own; and only stars before a plain slash may stand for nothing."""
    line = _STARS_AND_ESCAPED_SLASH.sub("*/**/", line)
    text = line.removeprefix("!")
    match = _STARS_IN_NAME.match(text)
    if match is None or text.startswith("#"):
        return parse_pattern(line)
    rest = parse_pattern(text[match.start("stars") :])
    if rest is None or "/" not in text[match.end() :].rstrip(" ").removesuffix("/"):
        return parse_pattern(line)
    regex = rest.regex.pattern
    if re.search(r"/\*\*+ *\Z", text):
        regex = regex.removesuffix("+") + "*"
    regex = re.escape(match["text"].removeprefix("/")) + "/?" + regex
    return Pattern(line.startswith("!"), rest.is_for_folders, re.compile(regex, re.DOTALL))


def _without_backward_ranges(token: re.Match[str]) -> str:
    """In a set, a range such as `z-a` is empty to git, but that it has taken the `z` by then."""

    def replaced(item: re.Match[str]) -> str:
        first, last = item.groups()
        return f"\\{first}" if first is not None and first > last else item.group()

    text = token.group()
    if not text.startswith("["):
        return text
    start = 2 if text[1] in "!^" else 1
    return text[:start] + _SET_ITEM.sub(replaced, text[start:])


def _as_bytes(name: str) -> str:
    return os.fsencode(name).decode("latin-1")

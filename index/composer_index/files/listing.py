"""All files of a workspace that are to be indexed, with what tells a change."""

import logging
import os
import stat
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from composer_index.ignores import git, layered
from composer_index.ignores.composerignore import FILE_NAME
from composer_index.ignores.rules import Reason, Rules
from composer_index.ignores.secrets import is_secret_path

logger = logging.getLogger(__name__)

_MAX_DEPTH = 16
"""Of repositories in repositories."""
_NUM_LINKS_AT_ONCE = 500


class File(NamedTuple):
    path: str
    """Relative to the root, with `/` between its parts; bytes that are no UTF-8 stand as lone
    surrogates (PEP 383), and line breaks are possible."""
    size: int
    """In bytes."""
    changed_ns: int
    """The later of the times at which the content and the file's entry changed. A tool may set the
    first back to what it was, as `cp -p` does, but not the second."""


@dataclass(slots=True)
class Listing:
    """What a walk over the files found beside them, filled while it goes on."""

    skipped: Counter[Reason] = field(default_factory=Counter[Reason])
    """Files, or folders in place of all that they hold. What git ignores is not counted."""
    notices: list[str] = field(default_factory=list[str])
    """For the user: what git could not be asked."""


class _Folder(NamedTuple):
    path: str
    """With a slash at its end; "" for the root."""
    reason: Reason | None
    is_there: bool
    has_composer_ignore: bool
    """In it or above it."""


def list_files(rules: Rules, listing: Listing | None = None) -> Iterator[File]:
    """In no promised order; none twice. No file is opened, no link to a folder followed, and memory
    does not grow with their number. Never raises for what is on the disk."""
    return _Walk(rules, listing or Listing()).files()


def file_at(rules: Rules, path: str) -> File | None:
    """As `list_files` would give it; None if there is no file. Whether it is hidden, `rules` say."""
    try:
        status = os.stat(rules.absolute(path))  # noqa: PTH116 - once a file
    except (OSError, ValueError):
        return None
    return _file(path, status) if stat.S_ISREG(status.st_mode) else None


class _Walk:
    def __init__(self, rules: Rules, listing: Listing) -> None:
        self._rules = rules
        self._listing = listing
        self._links: list[str] = []
        is_hidden = is_secret_path(rules.absolute("x"))
        root = _Folder("", "secret" if is_hidden else None, True, self._is_under_composer_ignore())
        self._chain = [root]

    def files(self) -> Iterator[File]:
        yield from self._repository("", 0)
        yield from self._linked()

    def _repository(self, prefix: str, depth: int) -> Iterator[File]:
        """Of a repository or, at the root, of what may be none."""
        for path in self._candidates(prefix):
            if path.endswith("/"):
                yield from self._nested(path, depth)
                continue
            folder = self._folder(path[: path.rfind("/") + 1])
            if not folder.is_there or self._is_hidden(path, folder):
                continue
            status = self._status(path)
            if status is None:
                continue
            if stat.S_ISREG(status.st_mode):
                if self._is_readable(path):
                    yield _file(path, status)
            elif stat.S_ISDIR(status.st_mode):
                yield from self._nested(path + "/", depth)
            elif stat.S_ISLNK(status.st_mode):
                self._links.append(path)
                if len(self._links) == _NUM_LINKS_AT_ONCE:
                    yield from self._linked()
            else:
                self._listing.skipped["special"] += 1

    def _nested(self, path: str, depth: int) -> Iterator[File]:
        """A folder that git lists by its own name: a submodule, or another repository. One that
        was never checked out has nothing in it."""
        folder = self._folder(path)
        absolute = self._rules.absolute(path[:-1])
        if folder.is_there and layered.is_repository(absolute):
            if folder.reason is not None and not self._rules.included:
                self._listing.skipped[folder.reason] += 1
            elif depth < _MAX_DEPTH:
                yield from self._repository(path, depth + 1)

    def _candidates(self, prefix: str) -> Iterator[str]:
        """Paths that git's rules do not hide."""
        folder = self._rules.absolute(prefix[:-1])
        if self._rules.asks_git(folder):
            warnings: list[str] = []
            try:
                for path in git.list_files(folder, warnings):
                    yield prefix + path
            except git.GitError as error:
                message = f"{error}; its ignore files are read without it"
                logger.warning("%s", message.encode(errors="backslashreplace").decode())
                self._listing.notices.append(message)
            else:
                num_unreadable = sum("could not open directory" in text for text in warnings)
                self._listing.skipped["unreadable"] += num_unreadable
                return
        yield from self._layered(prefix, folder)

    def _layered(self, prefix: str, folder: str) -> Iterator[str]:
        found = layered.walk(
            self._rules.layers(folder),
            on_error=self._count_unreadable,
            is_open=lambda path: self._is_open(f"{prefix}{path}/"),
        )
        for path, entry in found:
            if not entry.is_dir(follow_symlinks=False):
                yield prefix + path
            elif layered.is_repository(entry.path):
                yield f"{prefix}{path}/"

    def _is_open(self, folder: str) -> bool:
        """Whether anything in a folder may be read."""
        reason = self._folder(folder).reason
        if reason is None or (reason == "secret" and self._rules.included):
            return True
        self._listing.skipped[reason] += 1
        return False

    def _count_unreadable(self, path: str, error: OSError) -> None:
        if not isinstance(error, FileNotFoundError | NotADirectoryError):
            self._listing.skipped["unreadable"] += 1

    def _folder(self, path: str) -> _Folder:
        """Of a path with a slash at its end. Remembers the folders down to the last one only: both
        git and a walk name a folder's files one after the other."""
        while not path.startswith(self._chain[-1].path):
            self._chain.pop()
        while (above := self._chain[-1]).path != path:
            end = path.index("/", len(above.path)) + 1
            self._chain.append(self._below(above, path[:end]))
        return self._chain[-1]

    def _below(self, above: _Folder, path: str) -> _Folder:
        if not above.is_there or above.reason not in (None, "secret"):
            return above._replace(path=path)
        absolute = self._rules.absolute(path[:-1])
        try:
            mode = os.lstat(absolute).st_mode
        except (OSError, ValueError):
            return _Folder(path, None, False, False)
        has_composer_ignore = above.has_composer_ignore
        reason = above.reason
        if stat.S_ISLNK(mode):
            reason = "link"
        elif reason is None and self._rules.is_secret(path[:-1], is_folder=True):
            reason = "secret"
        if has_composer_ignore and self._rules.composer_ignore.hidden_by(absolute + "/x"):
            reason = "composerignore"
        has_composer_ignore = has_composer_ignore or os.access(f"{absolute}/{FILE_NAME}", os.F_OK)
        return _Folder(path, reason, stat.S_ISDIR(mode) or stat.S_ISLNK(mode), has_composer_ignore)

    def _is_hidden(self, path: str, folder: _Folder) -> bool:
        reason = folder.reason
        if reason is None and self._rules.is_secret(path):
            reason = "secret"
        if reason == "secret" and self._rules.is_included(path):
            reason = None
        if reason is None and folder.has_composer_ignore:
            hidden_by = self._rules.composer_ignore.hidden_by(
                self._rules.absolute(path), is_folder_open=True
            )
            reason = None if hidden_by is None else "composerignore"
        if reason is not None:
            self._listing.skipped[reason] += 1
        return reason is not None

    def _status(self, path: str) -> os.stat_result | None:
        try:
            return os.lstat(self._rules.absolute(path))
        except PermissionError:
            self._listing.skipped["unreadable"] += 1
        except (OSError, ValueError):
            pass  # deleted, or left out of a sparse checkout
        return None

    def _is_readable(self, path: str) -> bool:
        if os.access(self._rules.absolute(path), os.R_OK):
            return True
        self._listing.skipped["unreadable"] += 1
        return False

    def _linked(self) -> Iterator[File]:
        links, self._links = self._links, []
        reasons = self._rules.hidden_many(links)
        self._listing.skipped.update(reasons.values())
        for path in links:
            if path in reasons or not self._is_readable(path):
                continue
            try:
                status = os.stat(self._rules.absolute(path))  # noqa: PTH116 - once a file
            except OSError:
                continue
            yield _file(path, status)

    def _is_under_composer_ignore(self) -> bool:
        folder = self._rules.root
        while True:
            if os.access(os.path.join(folder, FILE_NAME), os.F_OK):  # noqa: PTH118
                return True
            folder, below = os.path.dirname(folder), folder  # noqa: PTH120
            if folder == below:
                return False


def _file(path: str, status: os.stat_result) -> File:
    return File(path, status.st_size, max(status.st_mtime_ns, status.st_ctime_ns))

"""`.composerignore`: files of the user's choice that never reach the index, a prompt or a tool's
result, in git-ignore syntax at any level."""

import logging
import os
import stat
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from composer_index.ignores.patterns import Pattern, PatternError, decision, parse_pattern

logger = logging.getLogger(__name__)

FILE_NAME = ".composerignore"

_MAX_BYTES = 1 << 20
_SETTLED_NS = 2 * 10**9
"""A file that changed later than this before it was read may change again without its times
showing it: they tick as coarsely as this on some file systems."""

_Signature = tuple[int, ...]


class _UnreadableError(Exception):
    """The rules of a file cannot be known; the message says why."""


@dataclass(frozen=True, kw_only=True, slots=True)
class _File:
    path: str
    patterns: Sequence[Pattern] | None
    """None: they cannot be known, and everything beside the file and below is hidden."""
    signature: _Signature | None
    """What `stat` says of the file that was read; None if it says too little."""
    text: str | None
    """None where it could not be read."""

    def decision(self, path: str, *, is_folder: bool) -> bool | None:
        if self.patterns is None:
            return True
        return decision(self.patterns, path, is_folder=is_folder)


@dataclass(frozen=True, slots=True)
class IgnoreFolder:
    """What the files in a folder and above it said when somebody asked for it."""

    files: tuple[_File, ...] = ()
    """Nearest first."""
    is_hidden: bool = False

    def hides(self, path: str, *, is_folder: bool = False) -> bool:
        """An absolute path right in the folder."""
        if self.is_hidden:
            return True
        for file in self.files:
            relative = path[len(file.path) - len(FILE_NAME) :].replace(os.sep, "/")
            if (is_hidden := file.decision(relative, is_folder=is_folder)) is not None:
                return is_hidden
        return False


class ComposerIgnore:
    """Answers by the files on disk as they are at the moment of asking.

    Each question looks for a file in each folder above the path, about 1 µs a folder, and reads one
    that is new or has changed. So there is nothing to be told by watchers, which some clients have
    not and all may overflow. All folders up to the file system's root count, as for
    ripgrep's `.ignore`: what hides a file does not depend on which folder a window has opened.

    It fails closed: a `.composerignore` that is there and cannot be read, is no UTF-8 text, no
    file, or larger than 1 MiB hides everything beside it and below, since nobody knows what it was
    to hide. A line that is no pattern is skipped. Both are logged once.

    For one thread.
    """

    def __init__(self) -> None:
        self._files: dict[str, _File] = {}
        self._told: set[str] = set()

    def hidden_by(self, path: str, *, is_folder_open: bool = False) -> str | None:
        """The `.composerignore` that hides an absolute path, None if none does. The path is taken
        as it is written; `HiddenFiles` follows links. `is_folder_open`: the caller knows that none
        hides the folder that it lies in, which saves most of the time."""
        file = self._file_that_hides(path, is_folder_open=is_folder_open)
        return file.path if file else None

    def folder(self, path: str) -> IgnoreFolder:
        """For many questions at one moment: they ask no file again. `path`: absolute, normal."""
        above, *below = (*reversed(Path(path).parents), Path(path))
        found = self._opened(IgnoreFolder(), str(above))
        for place in below:
            found = self.below(found, str(place))
        return found

    def below(self, folder: IgnoreFolder, path: str) -> IgnoreFolder:
        """`path`: of a folder right in that one."""
        is_hidden = folder.hides(path, is_folder=True)
        return self._opened(IgnoreFolder(folder.files, is_hidden), path + os.sep)

    def _opened(self, found: IgnoreFolder, path: str) -> IgnoreFolder:
        file = self._file_in(path)
        return found if file is None else IgnoreFolder((file, *found.files), found.is_hidden)

    def _file_that_hides(self, path: str, *, is_folder_open: bool) -> _File | None:
        parts = Path(path).parts
        files = self._files_above(parts)
        if not files:
            return None
        # A folder that is hidden hides what is in it, whatever files in it say.
        for end in range(len(parts) if is_folder_open else 2, len(parts) + 1):
            for depth, file in files:
                if depth >= end:
                    continue
                relative = "/".join(parts[depth:end])
                is_hidden = file.decision(relative, is_folder=end < len(parts))
                if is_hidden:
                    return file
                if is_hidden is not None:
                    break
        return None

    def _files_above(self, parts: Sequence[str]) -> list[tuple[int, _File]]:
        """The files in the folders that a path lies in, nearest first, each with the number of
        parts of its folder's path."""
        files: list[tuple[int, _File]] = []
        folder = ""
        for depth, part in enumerate(parts[:-1], start=1):
            folder = f"{folder}{part}{os.sep}" if folder else part  # the first part ends with one
            if (file := self._file_in(folder)) is not None:
                files.append((depth, file))
        files.reverse()
        return files

    def _file_in(self, folder: str) -> _File | None:
        path = folder + FILE_NAME
        if not os.access(path, os.F_OK):  # a fifth of the time that a failing `stat` takes
            self._files.pop(path, None)
            return None
        signature = text = None
        try:
            status = Path(path).stat()
            signature = _signature(status)
            known = self._files.get(path)
            if known is not None and known.signature == signature is not None:
                return known
            text = _read(path, status)
            if known is not None and known.text == text:
                patterns = known.patterns
            else:
                patterns = self._parsed(path, text)
        except FileNotFoundError:
            return None  # deleted just now
        except (OSError, UnicodeDecodeError, _UnreadableError) as error:
            self._tell(f"{path} cannot be read, so all files beside it are hidden: {error}")
            patterns = None
        file = _File(path=path, patterns=patterns, signature=signature, text=text)
        self._files[path] = file
        return file

    def _parsed(self, path: str, text: str) -> list[Pattern]:
        patterns: list[Pattern] = []
        for number, line in enumerate(text.split("\n"), start=1):
            try:
                pattern = parse_pattern(line.removesuffix("\r"))
            except PatternError as error:
                self._tell(f"{path}:{number} is no pattern and is skipped: {error}")
                continue
            if pattern is not None:
                patterns.append(pattern)
        return patterns

    def _tell(self, message: str) -> None:
        if message not in self._told:
            self._told.add(message)
            logger.warning("%s", message.encode(errors="backslashreplace").decode())


def _signature(status: os.stat_result) -> _Signature | None:
    if time.time_ns() - status.st_ctime_ns < _SETTLED_NS:
        return None
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def _read(path: str, status: os.stat_result) -> str:
    # Anything else might block, as a pipe does.
    if not stat.S_ISREG(status.st_mode):
        raise _UnreadableError("it is no file")
    if status.st_size > _MAX_BYTES:
        raise _UnreadableError(f"it is larger than {_MAX_BYTES >> 20} MiB")
    return Path(path).read_bytes().decode("utf-8-sig")

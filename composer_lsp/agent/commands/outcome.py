"""What a command changed, told apart: what the agent stages, and what goes to the disk at once.

Files that git ignores are the tools' own, so they go to the disk, as do secrets, which the agent may
not see. All else stays off the disk until the user accepts it, but for what cannot be staged.
Whether git ignores a file is asked of the disk's `.gitignore` files, not of staged ones.
"""

import filecmp
import logging
import os
import re
import stat
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Literal

from composer_index.ignores.rules import Reason, Rules
from composer_lsp.agent.commands.overlay import Layer, Overlay
from composer_lsp.agent.commands.real_tree import RealTree
from composer_lsp.agent.commands.upper import (
    Entry,
    build_folder,
    filled_folders,
    is_derived,
    is_empty,
    read_upper,
)
from composer_lsp.agent.edits.text_file import TextError, TextFile

_log = logging.getLogger(__name__)

_MAX_BYTES = 10_000_000
"""Of a file that is staged."""
_MAX_TOTAL_BYTES = 100_000_000
"""Of all that one command changed. What is over it is taken for too large."""
_UMASK = re.compile(r"^Umask:\s*([0-7]+)", re.MULTILINE)
_TO_DISK: frozenset[Reason | None] = frozenset({"gitignore", "secret", "composerignore"})
_STAYING: frozenset[Reason | None] = frozenset({"git", "secret", "composerignore"})
"""Nobody takes these from the disk."""

Deed = Literal["changed", "deleted", "changed the permissions of"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Offer:
    """What a command did to something of the disk, and that is done there once the user agrees."""

    path: Path
    deed: Deed
    is_ignored: bool
    """By git. If not, it cannot be shown as a difference."""
    do: Callable[[], None]
    """Before the overlay is removed. Raises: OSError."""


@dataclass(slots=True)
class Outcome:
    """By absolute path."""

    changes: dict[Path, bytes | None] = field(default_factory=dict[Path, bytes | None])
    modes: dict[Path, int] = field(default_factory=dict[Path, int])
    kept: list[Path] = field(default_factory=list[Path])
    ignored: list[Path] = field(default_factory=list[Path])
    offers: list[Offer] = field(default_factory=list[Offer])
    """In the order in which they are to be done."""
    left_out: dict[Path, None] = field(default_factory=dict[Path, None])
    """A set that keeps its order."""
    stale: list[Path] = field(default_factory=list[Path])
    """Left out, since something else on the disk has changed them too."""
    num_bytes: int = 0
    """Of all changes."""


def filled(overlay: Overlay) -> set[Path]:
    """Of the folders that a command has from the disk itself, those with something in them.
    Raises: OSError."""
    return {folder for layer in overlay.layers for folder in filled_folders(layer.root)}


def changed(overlay: Overlay) -> list[Path]:
    """What a command did that is not on the disk, but for caches and the like. Raises: OSError."""
    found: list[Path] = []
    for layer in overlay.layers:
        for entry in read_upper(layer.upper, layer.root):
            real = layer.root / entry.path
            if not (
                entry.is_derived
                or entry.kind == "folder"
                or _is_as_staged(overlay, entry, real, layer.upper / entry.path)
                or (entry.kind == "file" and _is_same(layer.upper / entry.path, real))
            ):
                found.append(real)
    return found


def take(
    overlay: Overlay, filled_before: Iterable[Path] = (), since_ns: int | None = None
) -> Outcome:
    """After the command has ended. Moves what belongs on the disk out of the overlay.
    `filled_before`: by `filled`. `since_ns`: what has changed on the disk since is left as it is; None:
    nothing but the command was there. Raises: OSError if the overlay cannot be read."""
    outcome = Outcome(ignored=sorted(folder for folder in filled_before if is_empty(folder)))
    found: set[Path] = set()
    for layer in overlay.layers:
        entries = list(read_upper(layer.upper, layer.root))
        found.update(layer.root / entry.path for entry in entries if entry.kind == "file")
        _Taking(overlay, layer, outcome, since_ns).take(entries)
    for path, data in overlay.staged.items():
        if data is not None and path not in found and path not in outcome.stale:
            outcome.changes[path] = None
    return outcome


class _Taking:
    """Of one root."""

    def __init__(
        self, overlay: Overlay, layer: Layer, outcome: Outcome, since_ns: int | None
    ) -> None:
        self._overlay = overlay
        self._layer = layer
        self._outcome = outcome
        self._since_ns = since_ns
        self._rules = Rules(layer.root)
        self._tree = RealTree(layer.root)
        self._usual_mode = _usual_mode()
        self._pending: set[str] = set()
        """What git ignores and the user is asked about first."""

    def take(self, entries: Sequence[Entry]) -> None:
        entries = [entry for entry in entries if not self._is_stale(entry)]
        gone = [entry for entry in entries if entry.kind == "gone"]
        made = [entry for entry in entries if entry.kind != "gone"]
        # First what is gone: a file may stand where a folder was.
        self._take_gone(gone)
        reasons = self._rules.hidden_many(_asked(entry) for entry in made if not entry.is_derived)
        for entry in made:
            reason = "gitignore" if entry.is_derived else reasons.get(_asked(entry))
            self._take_made(entry, reason)

    def _take_gone(self, gone: Sequence[Entry]) -> None:
        derived = {entry.path for entry in gone if entry.is_derived}
        left = self._without_ignored({entry.path for entry in gone}, derived)
        folders = [path for path in left if self._is_folder(path)]
        below = {path for folder in folders for path in _below(self._layer.root, folder)}
        below = {path for path in below if not self._is_newer(path)}
        left |= self._without_ignored(below, {path for path in below if is_derived(path)})
        for path in sorted(left):
            real = self._layer.root / path
            if self._is_folder(path) or self._overlay.staged.get(real, b"") is None:
                continue
            if real.is_symlink() or not real.is_file():
                self._outcome.left_out[real] = None
            elif real in self._overlay.staged or _text(real) is not None:
                self._outcome.changes[real] = None
            else:
                self._offer(path, "deleted", lambda path=path: self._tree.remove(path))

    def _without_ignored(self, paths: set[str], derived: set[str]) -> set[str]:
        """Those that stay on the disk for now. What git ignores goes, or is offered."""
        asked = {path for path in paths if self._layer.root / path not in self._overlay.staged}
        reasons = self._rules.hidden_many(asked - derived)
        ignored = (asked & derived) | {path for path in asked if reasons.get(path) == "gitignore"}
        for path in _topmost(ignored):
            self._remove_ignored(path, is_derived=path in derived)
        return {
            path
            for path in paths - ignored
            if reasons.get(path) not in _STAYING and not _is_below_any(path, ignored)
        }

    def _remove_ignored(self, path: str, *, is_derived: bool) -> None:
        folder = build_folder(path)
        if folder is None and not is_derived:
            self._pending.add(path)
            self._offer(path, "deleted", lambda: self._tree.remove(path), is_ignored=True)
        elif self._try(path, lambda: self._tree.remove(path)) and folder is not None:
            whole = self._layer.root / folder
            if whole not in self._outcome.ignored and is_empty(whole):
                self._outcome.ignored.append(whole)

    def _take_made(self, entry: Entry, reason: Reason | None) -> None:
        path, root = entry.path, self._layer.root
        source = self._layer.upper / path
        if root / path in self._overlay.staged:
            reason = None
        if entry.kind == "folder":
            if reason in _TO_DISK:
                self._try(path, lambda: self._tree.make_folder(path))
        elif entry.kind == "file" and reason is None and not (root / path).is_symlink():
            self._take_file(root / path, source)
        elif reason in _TO_DISK and entry.kind != "special":
            self._put_ignored(path, source)
        elif reason not in _TO_DISK:
            self._outcome.left_out[root / _until_git(path)] = None

    def _put_ignored(self, path: str, source: Path) -> None:
        if path in self._pending or _is_below_any(path, self._pending):
            # It takes the place of what may not be deleted yet.
            self._offer(path, "changed", lambda: self._tree.put(path, source), is_ignored=True)
            return
        real = self._layer.root / path
        is_told = os.path.lexists(real) and build_folder(path) is None
        if self._try(path, lambda: self._tree.put(path, source)) and is_told:
            self._outcome.ignored.append(real)

    def _take_file(self, path: Path, source: Path) -> None:
        mode = stat.S_IMODE(source.lstat().st_mode) & 0o777
        if not os.access(source, os.R_OK):
            source.chmod(source.lstat().st_mode | stat.S_IRUSR)
        if path in self._overlay.staged:
            self._take_staged(path, source, mode)
        elif path.is_file():
            self._take_changed(path, source, mode)
        elif not self._stage(path, source):
            relative = path.relative_to(self._layer.root).as_posix()
            if self._try(relative, lambda: self._tree.put(relative, source)):
                self._outcome.kept.append(path)
        else:
            self._note_mode(path, mode)

    def _take_staged(self, path: Path, source: Path, mode: int) -> None:
        self._note_mode(path, mode)
        if not _holds(source, self._overlay.staged[path]) and not self._stage(path, source):
            self._outcome.left_out[path] = None

    def _take_changed(self, path: Path, source: Path, mode: int) -> None:
        relative = path.relative_to(self._layer.root).as_posix()
        if filecmp.cmp(source, path, shallow=False):
            if mode != stat.S_IMODE(path.stat().st_mode) & 0o777:
                deed = "changed the permissions of"
                self._offer(relative, deed, lambda: self._tree.set_mode(relative, mode))
            return
        before = _text(path)
        if before is not None and before != _text(source) and self._stage(path, source):
            self._note_mode(path, mode)
        else:
            self._offer(relative, "changed", lambda: self._tree.put(relative, source))

    def _stage(self, path: Path, source: Path) -> bool:
        """Whether it can be."""
        size = source.lstat().st_size
        if self._outcome.num_bytes + size > _MAX_TOTAL_BYTES or _text(source) is None:
            return False
        self._outcome.changes[path] = source.read_bytes()
        self._outcome.num_bytes += size
        return True

    def _offer(
        self, path: str, deed: Deed, do: Callable[[], None], *, is_ignored: bool = False
    ) -> None:
        real = self._layer.root / path
        self._outcome.offers.append(Offer(path=real, deed=deed, is_ignored=is_ignored, do=do))

    def _note_mode(self, path: Path, mode: int) -> None:
        before = self._overlay.modes.get(path)
        if before is None:
            is_file = path.is_file()
            before = stat.S_IMODE(path.stat().st_mode) & 0o777 if is_file else self._usual_mode
        if mode != before:
            self._outcome.modes[path] = mode

    def _is_stale(self, entry: Entry) -> bool:
        real, source = self._layer.root / entry.path, self._layer.upper / entry.path
        return not _is_as_staged(self._overlay, entry, real, source) and self._is_newer(entry.path)

    def _is_newer(self, path: str) -> bool:
        real = self._layer.root / path
        try:
            is_newer = self._since_ns is not None and real.lstat().st_ctime_ns >= self._since_ns
        except OSError:
            return False
        if is_newer:
            self._outcome.stale.append(real)
        return is_newer

    def _is_folder(self, path: str) -> bool:
        real = self._layer.root / path
        return real.is_dir() and not real.is_symlink()

    def _try(self, path: str, act: Callable[[], None]) -> bool:
        try:
            act()
        except OSError as error:
            _log.warning("what a command did to %s is left out: %s", path, error)
            self._outcome.left_out[self._layer.root / path] = None
            return False
        return True


def _is_as_staged(overlay: Overlay, entry: Entry, real: Path, source: Path) -> bool:
    """Whether it is no deed of the command."""
    if real not in overlay.staged:
        return False
    data = overlay.staged[real]
    return entry.kind == "gone" if data is None else entry.kind == "file" and _holds(source, data)


def _holds(path: Path, data: bytes | None) -> bool:
    return path.lstat().st_size <= _MAX_BYTES and path.read_bytes() == data


def _is_same(source: Path, real: Path) -> bool:
    try:
        return filecmp.cmp(source, real, shallow=False)
    except OSError:
        return False


def _asked(entry: Entry) -> str:
    """Git knows nothing of empty folders, only of what may be in them."""
    return f"{entry.path}/_" if entry.kind == "folder" else entry.path


def _below(root: Path, folder: str) -> Iterator[str]:
    for parent, names, files in os.walk(root / folder):
        relative = Path(parent).relative_to(root).as_posix()
        links = [name for name in names if Path(parent, name).is_symlink()]
        names[:] = [name for name in names if name not in links]
        yield from (f"{relative}/{name}" for name in [*names, *links, *files])


def _topmost(paths: Iterable[str]) -> list[str]:
    chosen: set[str] = set()
    for path in sorted(paths, key=lambda path: path.count("/")):
        if not _is_below_any(path, chosen):
            chosen.add(path)
    return sorted(chosen)


def _is_below_any(path: str, folders: set[str]) -> bool:
    return any(parent.as_posix() in folders for parent in PurePosixPath(path).parents)


def _until_git(path: str) -> str:
    """Of what lies in a git folder, that folder."""
    parts = path.split("/")
    return "/".join(parts[: parts.index(".git") + 1]) if ".git" in parts else path


def _text(path: Path) -> str | None:
    """None for what cannot be shown."""
    try:
        if path.stat().st_size > _MAX_BYTES:
            return None
        return TextFile.decode(path.read_bytes()).text
    except (OSError, TextError):
        return None


def _usual_mode() -> int:
    """Of a new file. Asking the system itself for the mask would set it, for all threads."""
    found = _UMASK.search(Path("/proc/self/status").read_text())
    return 0o666 & ~(int(found[1], 8) if found else 0o022)

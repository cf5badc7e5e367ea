"""The workspace as a command is to see it: staged files lie over those of the disk, and so does
what the command writes.

Each root is the lower folder of an overlay mount, in a mount namespace of the command's own.

Known limits: a folder that lies on the disk is not renamed at once (`EXDEV`, as in containers), so
that `mv` copies it and `git mv` refuses it. What belongs to another group than the user's first one
cannot be changed, unless the user is root.
"""

import os
import re
import shlex
import shutil
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from composer_lsp.agent.commands.bubblewrap import (
    NAMESPACES,
    Bubblewrap,
    SandboxError,
    system_program,
)
from composer_lsp.agent.commands.staging import Staged, Staging
from composer_lsp.agent.commands.upper import read_upper

_PREFIX = "composer-overlay-"
_UNPLAIN = re.compile(r"[\s,:\\\"']")
"""What means something in the options of a mount."""
_LIMIT_S = 20
_NEW_S = 60
"""A folder as young as this may not have been locked yet by its owner."""


@dataclass(frozen=True, slots=True)
class Layer:
    """One root of the workspace."""

    root: Path
    folder: Path

    @property
    def upper(self) -> Path:
        return self.folder / "upper"

    @property
    def merged(self) -> Path:
        """Where it is mounted, in the command's own namespace."""
        return self.folder / "merged"

    def make(self) -> None:
        for name in ("lower", "upper", "work", "merged"):
            (self.folder / name).mkdir(parents=True)
        self.upper.chmod(stat.S_IMODE(self.root.stat().st_mode))

    def script(self) -> str:
        """For a shell whose folder is `folder`, so that no path stands in an option."""
        root = str(self.root)
        is_plain = _UNPLAIN.search(root) is None
        # Volatile: nothing is synced to the disk when it is unmounted, which takes its time.
        options = f"userxattr,volatile,lowerdir={root if is_plain else 'lower'},upperdir=upper,workdir=work"
        bound = "" if is_plain else f"mounted --bind -- {shlex.quote(root)} lower; "
        return (
            f"cd -- {shlex.quote(str(self.folder))} || exit 1; {bound}"
            f"mounted -t overlay -o {shlex.quote(options)} overlay merged"
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class Overlay:
    """For one command."""

    folder: Path
    layers: Sequence[Layer]
    """The outer ones first, where roots lie in each other."""
    staged: Staged
    modes: Mapping[Path, int]
    """Permission bits of the files that were written into it before it is mounted."""

    @property
    def script(self) -> str:
        """Mounts it; to be run in a mount namespace. It speaks as bubblewrap does if it fails."""
        mounted = (
            f'mounted() {{ why=$({shlex.quote(system_program("mount"))} -n "$@" 2>&1) || '
            '{ echo "bwrap: $why"; exit 1; }; }'
        )
        return "; ".join([mounted, *(layer.script() for layer in self.layers), "cd /"])

    def begin(self) -> None:
        """What changes on the disk from now on the command may not have seen. Raises: OSError."""
        (self.folder / "begun").touch()

    @property
    def begun_ns(self) -> int:
        """By the kernel's clock, as files have it."""
        return (self.folder / "begun").stat().st_ctime_ns

    def remove(self) -> None:
        remove_tree(self.folder)


class Overlays:
    """Those of the commands of one run."""

    def __init__(self, folder: Path, roots: Sequence[Path], lock: int) -> None:
        self._folder = folder
        self._roots = sorted(roots, key=lambda root: len(root.parts))
        self._lock = lock
        self.staging = Staging()

    @classmethod
    def open(
        cls, roots: Sequence[Path], bubblewrap: Bubblewrap, places: Sequence[Path]
    ) -> "Overlays":
        """`places`: folders to try, in this order, for what commands write. Tries a mount of each
        root: some tens of milliseconds. Raises: SandboxError that says why there are none."""
        _check_owner(roots)
        why = "there is no folder for what commands write"
        for place in places:
            if any(place.resolve().is_relative_to(root) for root in roots):
                continue
            try:
                return cls._opened(place.resolve(), roots, bubblewrap)
            except (OSError, SandboxError, subprocess.TimeoutExpired) as error:
                first, *_ = str(error).splitlines() or [""]
                why = f"no overlay can be mounted in {place}: {first}"
        raise SandboxError(why)

    @classmethod
    def _opened(cls, place: Path, roots: Sequence[Path], bubblewrap: Bubblewrap) -> "Overlays":
        place.mkdir(parents=True, exist_ok=True, mode=0o700)
        _remove_left_over(place)
        folder = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=place))
        overlays = cls(folder, roots, _locked(folder))
        try:
            overlays._try(bubblewrap)
        except BaseException:
            overlays.close()
            raise
        return overlays

    @property
    def folder(self) -> Path:
        return self._folder

    def make(self, staged: Staged) -> Overlay:
        """Raises: SandboxError."""
        folder = Path(tempfile.mkdtemp(dir=self._folder))
        try:
            layers = _layers(folder, self._roots)
            uppers = {layer.root: layer.upper for layer in layers}
            modes = self.staging.write(uppers, staged)
        except OSError as error:
            remove_tree(folder)
            raise SandboxError(f"what is staged cannot be shown to a command: {error}") from error
        return Overlay(folder=folder, layers=layers, staged=staged, modes=modes)

    def close(self) -> None:
        remove_tree(self._folder)
        os.close(self._lock)

    def _try(self, bubblewrap: Bubblewrap) -> None:
        """Whether changes of every kind can be read back. Raises: SandboxError, OSError,
        TimeoutExpired."""
        trial = self._folder / "trial"
        (trial / "folder").mkdir(parents=True)
        for name in ("folder/old", "file"):
            (trial / name).touch()
        layers = _layers(self._folder / "tried", [*self._roots, trial])
        overlay = Overlay(folder=self._folder, layers=layers, staged={}, modes={})
        merged = str(layers[-1].merged)
        argv = [*bubblewrap.argv(0, overlay.script), *NAMESPACES, "--ro-bind", "/", "/"]
        argv += ["--bind", merged, merged, "--chdir", merged, "--", system_program("sh"), "-c"]
        argv += ["rm -r folder file && mkdir folder && echo > folder/new"]
        done = subprocess.run(
            argv, stdin=subprocess.DEVNULL, capture_output=True, timeout=_LIMIT_S, check=False
        )
        if done.returncode != 0:
            raise SandboxError((done.stdout + done.stderr).decode("utf-8", "replace").strip())
        found = {(entry.path, entry.kind) for entry in read_upper(layers[-1].upper, trial)}
        if found != {("file", "gone"), ("folder/old", "gone"), ("folder/new", "file")}:
            raise SandboxError(f"what is written there cannot be read back: {sorted(found)}")


def remove_tree(folder: Path) -> None:
    """Also what has no permissions, as folders of the kernel's own have. Nothing is followed."""
    for parent, names, _ in os.walk(folder):
        for path in (Path(parent, name) for name in names):
            if not path.is_symlink():
                path.chmod(stat.S_IRWXU)
    shutil.rmtree(folder, ignore_errors=True)


def _layers(folder: Path, roots: Sequence[Path]) -> list[Layer]:
    layers = [Layer(root, folder / str(number)) for number, root in enumerate(roots)]
    for layer in layers:
        layer.make()
    return layers


def _check_owner(roots: Sequence[Path]) -> None:
    if os.geteuid() == 0:
        return
    for root in roots:
        status = root.stat()
        if (status.st_uid, status.st_gid) != (os.getuid(), os.getgid()):
            raise SandboxError(f"{root} belongs to another user or group than one's own")


def _locked(folder: Path) -> int:
    if sys.platform == "win32":
        raise SandboxError("there are no overlays on this system")
    import fcntl

    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def _remove_left_over(place: Path) -> None:
    """What a killed process has left."""
    for folder in place.glob(f"{_PREFIX}*"):
        with suppress(OSError):
            status = folder.lstat()
            is_ours = status.st_uid == os.getuid() and stat.S_ISDIR(status.st_mode)
            if is_ours and time.time() - status.st_mtime > _NEW_S:
                lock = _locked(folder)
                remove_tree(folder)
                os.close(lock)

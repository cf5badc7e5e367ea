"""The programs that a workspace is worked on with, where they lie in the user's home.

The sandbox shows an empty home. What PATH, VIRTUAL_ENV and the workspace's own interpreter resolve
to is shown in it again, read-only: the folders that hold it, and the links on the way there.

PATH and the other variables are the user's word. What a file or a link in the workspace says may be
that of a command or of whoever wrote the repository: by it nothing is shown but what lies in the
folders of known tools, or is a Python or Node installation by its layout.
"""

import os
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from composer_index.ignores.secrets import is_secret_folder

_MANAGERS = tuple(
    f"/{name}"
    for name in [
        ".pyenv",
        ".rustup",
        ".nvm",
        ".volta",
        ".asdf",
        ".rbenv",
        ".rvm",
        ".nodenv",
        ".goenv",
        ".jenv",
        ".bun",
        ".deno",
        ".dotnet",
        ".ghcup",
        ".opam",
        ".elan",
        ".juliaup",
        ".fnm",
        ".local/share/uv",
        ".local/share/pipx",
        ".local/pipx",
        ".local/share/mise",
        ".local/share/fnm",
        ".local/share/pnpm",
        ".local/share/virtualenvs",
        ".sdkman/candidates",
        ".linuxbrew",
        ".rye",
        ".conda/envs",
        ".cargo/bin",
    ]
)
"""Folders that tools for versions keep toolchains in; shown whole as soon as anything in one of
them is used."""
_STORES = {
    "cargo": (".cargo/registry", ".cargo/git", ".cargo/env"),
    "go": ("go/pkg/mod",),
    "mvn": (".m2/repository",),
}
"""What a toolchain has downloaded, without which it does nothing offline."""
_SHOWN = ("bin", "sbin", "lib", "lib64", "libexec", "include", "share", "shims", "pyvenv.cfg")
_WIDE_SHOWN = ("bin", "lib")
"""Of a folder that holds more than one thing, such as `~/.local`."""
_INSTALLATIONS = (
    ("bin/python3*", "lib/python3*/os.py"),
    ("bin/pypy3*", "lib/pypy3*/os.py"),
    ("pyvenv.cfg", "lib/p*3*/site-packages"),
    ("bin/node", "include/node"),
    ("bin/node", "lib/node_modules"),
)
"""What each kind has, as patterns of paths in it."""
_PRIVATE = (".config", ".kube", ".docker", ".azure", ".password-store", ".mozilla", ".thunderbird")
"""Of the home folder, besides secret folders: the workspace's word shows nothing of them."""
_VENVS = (".venv", "venv", "env", ".env", ".tox", ".nox")
_MAX_LINKS = 40
_MAX_CONFIG_CHARS = 65_536


@dataclass(slots=True)
class Toolchains:
    folders: set[Path] = field(default_factory=set[Path])
    """Files and folders to show, without links in their paths."""
    links: dict[Path, str] = field(default_factory=dict[Path, str])
    """Links to make: where, and where to."""

    def simplified(self) -> "Toolchains":
        """Without what lies in a folder that is shown anyway."""
        folders = {
            folder
            for folder in self.folders
            if not any(parent in self.folders for parent in folder.parents)
        }
        links = {
            link: target
            for link, target in self.links.items()
            if not any(parent in folders for parent in link.parents)
        }
        return Toolchains(folders, links)


@dataclass(frozen=True, slots=True)
class _Way:
    """Where a path leads."""

    end: Path
    """Without links in it."""
    links: dict[Path, str]
    """Covered ones that it leads over, outside of the workspace."""
    is_told: bool
    """Whether it is the workspace's word that it leads there, not the user's."""


def find_toolchains(
    roots: Sequence[Path],
    environ: Mapping[str, str],
    home: Path,
    covered: Sequence[Path],
    extra: Iterable[Path] = (),
) -> Toolchains:
    """`covered`: the folders that the sandbox covers, among them `home`; no path has links in it.
    What lies elsewhere or in `roots` is left out, since the sandbox shows it anyway. `extra`:
    further files and folders that the user wants shown, whatever they are called."""
    search = _Search(roots, home, covered)
    for entry in environ.get("PATH", "").split(os.pathsep):
        if entry.startswith("/"):
            search.add_folder_of_programs(Path(entry))
    for name in ("VIRTUAL_ENV", "CONDA_PREFIX"):
        if environ.get(name, "").startswith("/"):
            search.add_environment(Path(environ[name]))
    for root in roots:
        for name in _VENVS:
            search.add_environment(root / name)
    for path in extra:
        search.add_chosen(path)
    search.add_stores(environ)
    return search.found.simplified()


def package_folders(home: Path) -> list[Path]:
    """Of those that may be shown, the ones with what toolchains have downloaded."""
    return [home / store for stores in _STORES.values() for store in stores]


class _Search:
    def __init__(self, roots: Sequence[Path], home: Path, covered: Sequence[Path]) -> None:
        self.found = Toolchains()
        self._roots = tuple(roots)
        self._home = home
        self._covered = tuple(covered)
        self._private = [home / name for name in _PRIVATE]

    def add_chosen(self, path: Path) -> None:
        way = self._follow(path)
        if way is not None:
            self._show(way, way.end)

    def add_folder_of_programs(self, folder: Path, *, is_told: bool = False) -> None:
        way = self._follow(folder, is_told=is_told)
        if way is None:
            return
        self._add_prefix(way, way.end)
        if not self._is_covered(way.end):
            return
        for program in _entries(way.end):
            if program.is_symlink():
                self.add_program(program, is_told=way.is_told)

    def add_program(self, program: Path, *, is_told: bool = False) -> None:
        way = self._follow(program, is_told=is_told)
        if way is not None:
            self._add_prefix(way, way.end.parent)

    def add_environment(self, folder: Path) -> None:
        """A virtual environment, and the interpreter that it was made with."""
        way = self._follow(folder)
        if way is None or not (way.end / "pyvenv.cfg").is_file():
            return
        is_told = way.is_told or _is_in(way.end, self._roots)
        if is_told:
            self._add_installation(way, way.end, way.end)
        else:
            self._add(way)
        for name in ("python", "python3"):
            self.add_program(folder / "bin" / name, is_told=is_told)
        for value in _homes(way.end / "pyvenv.cfg"):
            self.add_folder_of_programs(Path(value), is_told=is_told)

    def add_stores(self, environ: Mapping[str, str]) -> None:
        for program, stores in _STORES.items():
            if shutil.which(program, path=environ.get("PATH", "")) is not None:
                for store in stores:
                    way = self._follow(self._home / store)
                    if way is not None:
                        self._add(way)

    def _add_prefix(self, way: _Way, folder: Path) -> None:
        """The installation that a folder of programs belongs to."""
        has_prefix = folder.name in ("bin", "sbin", "shims") and folder.parent != self._home
        if way.is_told:
            self._add_installation(way, folder, folder.parent if has_prefix else folder)
        elif has_prefix:
            for name in _shown_of(folder.parent):
                inner = self._follow(folder.parent / name)
                if inner is not None:
                    self._add(inner)
            self._keep_links(way)
        else:
            self._add(_Way(folder, way.links, way.is_told))

    def _add_installation(self, way: _Way, folder: Path, prefix: Path) -> None:
        """If it is one: the workspace says so. `folder`: of it, or all of it."""
        manager = self._manager_in_home(folder)
        if self._is_visible(folder):
            self._keep_links(way)
        elif self._is_secret(prefix) or _is_in(prefix, self._private):
            return
        elif manager is not None:
            self._show(way, manager)
        elif self._may_be_shown(prefix) and _is_installation(prefix):
            for name in _shown_of(prefix):
                inner = self._follow(prefix / name, is_told=True)
                if inner is not None and inner.end.is_relative_to(prefix):
                    self._show(inner, inner.end)
            self._keep_links(way)

    def _add(self, way: _Way) -> None:
        if way.is_told:
            self._add_installation(way, way.end, way.end)
        elif not self._is_secret(way.end):
            self._show(way, _manager_of(way.end) or way.end)

    def _show(self, way: _Way, real: Path) -> None:
        if self._is_visible(real):
            self._keep_links(way)
        elif self._may_be_shown(real):
            self.found.folders.add(real)
            self._keep_links(way)

    def _keep_links(self, way: _Way) -> None:
        self.found.links |= way.links

    def _is_covered(self, path: Path) -> bool:
        return _is_in(path, self._covered)

    def _is_visible(self, real: Path) -> bool:
        return not self._is_covered(real) or _is_in(real, self._roots)

    def _may_be_shown(self, real: Path) -> bool:
        """Never all of a covered folder."""
        return not any(folder.is_relative_to(real) for folder in (*self._covered, self._home))

    def _is_secret(self, real: Path) -> bool:
        return any(is_secret_folder(part) for part in real.parts[1:])

    def _manager_in_home(self, path: Path) -> Path | None:
        managers = (Path(f"{self._home}{name}") for name in _MANAGERS)
        return next((manager for manager in managers if path.is_relative_to(manager)), None)

    def _follow(self, path: Path, *, is_told: bool = False) -> _Way | None:
        """Without links. None if it leads nowhere, or where the user may not look."""
        try:
            return self._followed(path, is_told)
        except OSError:
            return None

    def _followed(self, path: Path, is_told: bool) -> _Way | None:
        parts: list[str] = list(path.parts[1:])
        real: Path = Path("/")
        links: dict[Path, str] = {}
        num_links = 0
        while parts:
            part = parts.pop(0)
            if part == "..":
                real = real.parent
                continue
            real = real / part
            if not real.is_symlink():
                continue
            num_links += 1
            if num_links > _MAX_LINKS:
                return None
            target = os.readlink(real)  # noqa: PTH115 - as it is written
            if _is_in(real, self._roots):
                is_told = True
            elif self._is_covered(real):
                links[real] = target
            parts = [name for name in target.split("/") if name not in ("", ".")] + parts
            real = Path("/") if target.startswith("/") else real.parent
        return _Way(real, links, is_told) if real.exists() else None


def _is_in(path: Path, folders: Iterable[Path]) -> bool:
    return any(path.is_relative_to(folder) for folder in folders)


def _manager_of(path: Path) -> Path | None:
    for folder in (path, *path.parents):
        if folder.as_posix().endswith(_MANAGERS):
            return folder
    return None


def _is_installation(prefix: Path) -> bool:
    return any(
        all(any(prefix.glob(pattern)) for pattern in patterns) for patterns in _INSTALLATIONS
    )


def _shown_of(prefix: Path) -> tuple[str, ...]:
    return _WIDE_SHOWN if prefix.name in (".local", ".cargo", ".config") else _SHOWN


def _homes(config: Path) -> Iterator[str]:
    """Of the interpreter, as a virtual environment's configuration names it."""
    try:
        with config.open(encoding="utf-8", errors="replace") as file:
            lines = file.read(_MAX_CONFIG_CHARS).splitlines()
    except OSError:
        return
    for line in lines:
        name, _, value = line.partition("=")
        if name.strip() == "home" and value.strip().startswith("/"):
            yield value.strip()


def _entries(folder: Path) -> Iterator[Path]:
    try:
        yield from folder.iterdir()
    except OSError:
        return

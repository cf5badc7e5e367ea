"""The programs that a workspace is worked on with, where they lie in the user's home.

The sandbox shows an empty home. What PATH, VIRTUAL_ENV and the workspace's own interpreter resolve
to is shown in it again, read-only: the folders that hold it, and the links on the way there.
"""

import os
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

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
_VENVS = (".venv", "venv", "env", ".env", ".tox", ".nox")
_MAX_LINKS = 40


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


def find_toolchains(
    roots: Sequence[Path],
    environ: Mapping[str, str],
    home: Path,
    covered: Sequence[Path],
    extra: Iterable[Path] = (),
) -> Toolchains:
    """`covered`: the folders that the sandbox covers, among them `home`; no path has links in it.
    What lies elsewhere is left out, since the sandbox shows it anyway. `extra`: further files and
    folders that the user wants shown."""
    search = _Search(home, covered)
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
        search.add(path)
    search.add_stores(environ)
    return search.found.simplified()


class _Search:
    def __init__(self, home: Path, covered: Sequence[Path]) -> None:
        self.found = Toolchains()
        self._home = home
        self._covered = tuple(covered)

    def _is_covered(self, path: Path) -> bool:
        return any(path.is_relative_to(folder) for folder in self._covered)

    def add(self, path: Path) -> None:
        """A file or folder, and the links on the way to it."""
        real = self._follow(path)
        if real is not None:
            self._show(real)

    def add_folder_of_programs(self, folder: Path) -> None:
        real = self._follow(folder)
        if real is None:
            return
        self._show_prefix(real)
        if not self._is_covered(real):
            return
        for program in _entries(real):
            if program.is_symlink():
                self.add_program(program)

    def add_program(self, program: Path) -> None:
        real = self._follow(program)
        if real is not None and self._is_covered(real):
            self._show_prefix(real.parent)

    def add_environment(self, folder: Path) -> None:
        """A virtual environment, and the interpreter that it was made with."""
        config = folder / "pyvenv.cfg"
        if not config.is_file():
            return
        self.add(folder)
        for program in (folder / "bin" / "python", folder / "bin" / "python3"):
            if program.exists():
                self.add_program(program)
        for line in config.read_text("utf-8", "replace").splitlines():
            name, _, value = line.partition("=")
            if name.strip() == "home" and value.strip().startswith("/"):
                self.add_folder_of_programs(Path(value.strip()))

    def add_stores(self, environ: Mapping[str, str]) -> None:
        for program, stores in _STORES.items():
            if shutil.which(program, path=environ.get("PATH", "")) is not None:
                for store in stores:
                    self.add(self._home / store)

    def _show_prefix(self, folder: Path) -> None:
        """The installation that a folder of programs belongs to."""
        prefix = folder.parent
        if folder.name not in ("bin", "sbin", "shims") or prefix == self._home:
            self._show(folder)
            return
        is_wide = prefix.name in (".local", ".cargo", ".config")
        for name in _WIDE_SHOWN if is_wide else _SHOWN:
            if (prefix / name).exists():
                self.add(prefix / name)

    def _show(self, real: Path) -> None:
        """Never all of a covered folder."""
        if not self._is_covered(real) or real in self._covered or real == self._home:
            return
        self.found.folders.add(self._manager_of(real) or real)

    def _manager_of(self, path: Path) -> Path | None:
        for folder in (path, *path.parents):
            if folder.as_posix().endswith(_MANAGERS) and self._is_covered(folder):
                return folder
        return None

    def _follow(self, path: Path) -> Path | None:
        """Without links; covered ones are kept. None if it leads nowhere, or where the user may not
        look."""
        try:
            return self._followed(path)
        except PermissionError:
            return None

    def _followed(self, path: Path) -> Path | None:
        parts: list[str] = list(path.parts[1:])
        real: Path = Path("/")
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
            if self._is_covered(real):
                self.found.links[real] = target
            parts = [name for name in target.split("/") if name not in ("", ".")] + parts
            real = Path("/") if target.startswith("/") else real.parent
        return real if real.exists() else None


def _entries(folder: Path) -> Iterator[Path]:
    try:
        yield from folder.iterdir()
    except OSError:
        return

"""A bubblewrap sandbox around a command: what it sees, what it may write, whom it may reach.

It sees the system read-only, the workspace writable (or an overlay of it), a home folder with nothing but toolchains in
it, and no secrets. Its network is its own, with nobody else on it. What it could plant for the
user's own tools to run later is kept from it where tools run such things unasked: `.git` is
read-only, and with writing allowed its hooks and configuration still are. What else lies in the
workspace (a Makefile, a test) it may change, as any edit of the agent may.

Known limits: without an overlay a `.git` folder that a command makes where none was is not protected;
with one, a folder of packages that the disk has (`node_modules`, `.venv`, `target`) can be emptied
and not deleted; a command that is given the network reaches what listens on this machine too; a
toolchain that appears during a run in a temporary folder or the cache is not shown in it.
"""

import hashlib
import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from composer_lsp.agent.commands.access import Access
from composer_lsp.agent.commands.bubblewrap import (
    NAMESPACES,
    NO_CAPABILITIES,
    Bubblewrap,
    SandboxError,
    identity,
)
from composer_lsp.agent.commands.environment import command_environment
from composer_lsp.agent.commands.masks import (
    Survey,
    lasting,
    mounts_below,
    private_system_files,
    repositories,
    survey,
    without_secrets,
)
from composer_lsp.agent.commands.overlay import Overlay
from composer_lsp.agent.commands.shared_folders import Mount, SharedFolders
from composer_lsp.agent.commands.shell import Invocation, Limits, shell_argv
from composer_lsp.agent.commands.toolchains import Toolchains, find_toolchains

_COVERED = ("/home", "/root", "/var", "/run", "/mnt", "/media", "/srv", "/tmp")
"""People's files, and the sockets of services, which a sandbox without a network reaches too."""
_TEMPORARY = {"/tmp": "tmp", "/var/tmp": "var-tmp"}
"""And what they are called on the disk."""
_GIT_PROTECTED = ("hooks", "config", "config.worktree", "commondir", "info", "modules")
_MAX_MASKS = 2000


@dataclass(frozen=True, kw_only=True, slots=True)
class SandboxSettings:
    read_only: tuple[Path, ...] = ()
    """Further files and folders of the home folder to show."""
    hidden_variables: tuple[str, ...] = ()
    """Further environment variables to leave out."""
    limits: Limits = Limits()  # noqa: RUF009 - frozen


class Sandbox:
    """For the commands of one run, which share its temporary files and caches."""

    def __init__(
        self,
        bubblewrap: Bubblewrap,
        roots: Sequence[Path],
        *,
        environ: Mapping[str, str],
        home: Path,
        settings: SandboxSettings | None = None,
    ) -> None:
        """`roots`: the workspace's folders, writable. Raises: SandboxError."""
        self._bubblewrap = bubblewrap
        # The outer ones first, where they lie in each other.
        self._roots = sorted({root.resolve() for root in roots}, key=lambda root: len(root.parts))
        self._home = home.resolve()
        self._settings = settings or SandboxSettings()
        self._environ = command_environment(environ, self._settings.hidden_variables)
        for root in self._roots:
            if self._home.is_relative_to(root) or root == Path("/"):
                raise SandboxError(
                    f"the workspace {root} holds the home folder, so that no sandbox can keep the "
                    "two apart; open a folder below it"
                )
        folders = [*map(Path, _COVERED), self._home]
        self._covered = list(dict.fromkeys(path.resolve() for path in folders if path.exists()))
        self._scratch = tempfile.TemporaryDirectory(prefix="composer-", ignore_cleanup_errors=True)
        self._scratch_path = Path(self._scratch.name)
        for name in (*_TEMPORARY.values(), "cache", "empty"):
            (self._scratch_path / name).mkdir()
        (self._scratch_path / "nothing").touch()
        self._shared = self._make_shared()

    def _make_shared(self) -> SharedFolders:
        sources = {Path(folder): self._scratch_path / name for folder, name in _TEMPORARY.items()}
        sources[self._home / ".cache"] = self._scratch_path / "cache"
        roots: list[Mount] = [("--bind", root, root) for root in self._roots]
        mounts = [*roots, *self._toolchains(), *self._git(Access())]
        return SharedFolders(sources, self._scratch_path / "nothing", mounts)

    def close(self) -> None:
        """Remove its temporary files and caches."""
        self._scratch.cleanup()

    def invocation(
        self,
        line: str,
        cwd: Path,
        access: Access,
        overlay: Overlay | None = None,
        *,
        is_background: bool = False,
        is_read_only: bool = False,
    ) -> Invocation:
        """`cwd`: in one of the roots. `overlay`: what the command sees in their place; the folders
        with packages and caches stay the disk's, and for the background all that git ignores.
        `is_read_only`: the roots, where there is no overlay. Looks at the disk: 10 ms and more;
        call it in a thread. Raises: SandboxError."""
        limits = self._settings.limits
        bound = self._bubblewrap.bound
        found = survey(self._roots)
        if overlay is not None:
            shown = lasting(found.folders, self._roots, only_large=not is_background)
            workspace = _overlaid(overlay, [*shown, *mounts_below(self._roots)])
        else:
            bind = "--ro-bind" if is_read_only else "--bind"
            workspace: list[Mount] = [(bind, root, root) for root in self._roots]
        argv = (
            *self._bubblewrap.argv(limits.max_processes, overlay.script if overlay else ""),
            *self._arguments(access, workspace, found),
            *("--chdir", str(cwd.resolve()), "--"),
            *shell_argv(line, limits, bounds_processes=bound == "rlimit"),
        )
        return Invocation(
            argv=argv,
            environ=self._environment(),
            cwd=Path("/"),
            limits=limits,
            is_sandboxed=True,
            is_watched=bound == "none",
        )

    def _environment(self) -> dict[str, str]:
        cache = self._home / ".cache"
        return {
            **self._environ,
            "HOME": str(self._home),
            "TMPDIR": "/tmp",
            "XDG_CACHE_HOME": str(cache),
            "npm_config_cache": str(cache / "npm"),
        }

    def _arguments(
        self, access: Access, workspace: Sequence[Mount], found: Survey
    ) -> Iterator[str]:
        yield from (*NAMESPACES, *identity(), *NO_CAPABILITIES)
        if not access.network:
            yield "--unshare-net"
        yield from ("--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc")
        yield from self._covers()
        for mount in self._mounts(access, workspace, found):
            if self._shared.may_mount(mount):
                yield from map(str, mount)

    def _mounts(self, access: Access, workspace: Sequence[Mount], found: Survey) -> Iterator[Mount]:
        if access.network:
            yield _shown_again(Path("/etc/resolv.conf").resolve())
        yield from self._toolchains()
        yield from workspace
        yield from self._git(access)
        yield from self._masks(found)

    def _covers(self) -> Iterator[str]:
        for folder in self._covered:
            if str(folder) not in _TEMPORARY:
                yield from ("--tmpfs", str(folder))
        yield from self._shared.arguments()

    def _toolchains(self) -> Iterator[Mount]:
        found: Toolchains = find_toolchains(
            self._roots, self._environ, self._home, self._covered, self._settings.read_only
        )
        for folder in sorted(found.folders):
            yield _shown_again(folder)
        for link, target in sorted(found.links.items()):
            if not any(link.is_relative_to(root) for root in self._roots):
                yield ("--symlink", target, link)

    def _git(self, access: Access) -> Iterator[Mount]:
        for place in repositories(self._roots, self._home):
            folder = _git_folder(place)
            if place != folder:
                yield _shown_again(place)
            yield ("--bind" if access.git else "--ro-bind", folder, folder)
            for name in _GIT_PROTECTED if access.git else ():
                if (folder / name).exists():
                    yield _shown_again(folder / name)
            config = folder / "config"
            if config.is_file():
                text = without_secrets(config.read_text("utf-8", "replace"))
                yield ("--ro-bind", self._copy(text), config)

    def _copy(self, text: str) -> Path:
        """A file that never changes: commands that still run may have it mounted."""
        data = text.encode()
        path = self._scratch_path / f"copy-{hashlib.sha256(data).hexdigest()}"
        if not path.exists():
            with tempfile.NamedTemporaryFile(dir=self._scratch_path, delete=False) as file:
                file.write(data)
            Path(file.name).replace(path)
        return path

    def _masks(self, found: Survey) -> Iterator[Mount]:
        hidden = [*found.hidden, *private_system_files()]
        if len(hidden) > _MAX_MASKS:
            raise SandboxError(
                f"the workspace has {len(hidden)} secret files, more than the {_MAX_MASKS} that the "
                "sandbox can cover; name their folders in .composerignore"
            )
        for path in dict.fromkeys(hidden):
            cover = self._scratch_path / ("empty" if path.is_dir() else "nothing")
            if path.exists():
                yield ("--ro-bind", cover, path)


def _overlaid(overlay: Overlay, disk: Sequence[Path]) -> list[Mount]:
    """What to bind where, the outer folders first. `disk`: what is the disk's own."""
    sources = {path: path for path in disk} | {layer.root: layer.merged for layer in overlay.layers}
    ordered = sorted(sources, key=lambda path: len(path.parts))
    return [("--bind", sources[path], path) for path in ordered]


def _shown_again(path: Path) -> Mount:
    return ("--ro-bind-try", path, path)


def _git_folder(place: Path) -> Path:
    """The repository's own folder, for a `.git` folder or the file that a work tree has in its
    place. A file that the repository does not know of shows nothing: a command may have written
    it."""
    if place.is_dir():
        return place.resolve()
    text = place.read_text("utf-8", "replace").strip()
    folder = Path(os.path.normpath(place.parent / text.removeprefix("gitdir: ")))
    back, common = folder / "gitdir", folder / "commondir"
    if not (back.is_file() and common.is_file()):
        return place
    if Path(back.read_text("utf-8", "replace").strip()) != place:
        return place
    return (folder / common.read_text("utf-8").strip()).resolve()

"""A bubblewrap sandbox around a command: what it sees, what it may write, whom it may reach.

It sees the system read-only, the workspace writable (or an overlay of it), a home folder with nothing
but toolchains in it, and no secrets. Its network is its own, with nobody else on it. What it could
plant for the user's own tools to run later is kept from it where tools run such things unasked:
`.git` is read-only, and with writing allowed its hooks and configuration still are. What else lies in
the workspace (a Makefile, a test) it may change, as any edit of the agent may.

Known limits: without an overlay a `.git` folder that a command makes where none was is not protected,
and a command in the background is not kept from a secret that is new, beside which no other command
runs then; with one, a folder of packages that the disk has (`node_modules`, `.venv`, `target`) can be
emptied and not deleted; a command that is given the network reaches what listens on this machine too;
a toolchain that appears during a run is not shown in it.
"""

import hashlib
import os
import tempfile
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
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
from composer_lsp.agent.commands.git_folders import GitFolders
from composer_lsp.agent.commands.holding import holding, may_move
from composer_lsp.agent.commands.masks import (
    Survey,
    lasting,
    mounts_below,
    private_system_files,
    secrets_in_toolchains,
    survey,
    without_secrets,
)
from composer_lsp.agent.commands.overlay import Overlay
from composer_lsp.agent.commands.repositories import repositories
from composer_lsp.agent.commands.shared_folders import Mount, SharedFolders
from composer_lsp.agent.commands.shell import Invocation, Limits, shell_argv
from composer_lsp.agent.commands.toolchains import find_toolchains, package_folders

_COVERED = ("/home", "/root", "/var", "/run", "/mnt", "/media", "/srv", "/tmp")
"""People's files, and the sockets of services, which a sandbox without a network reaches too."""
_TEMPORARY = {"/tmp": "tmp", "/var/tmp": "var-tmp"}
"""And what they are called on the disk."""
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
        self._chosen = [path.resolve() for path in self._settings.read_only]
        self._git_folders = GitFolders()
        # Known before the first command, and no command's word changes it.
        self._toolchains = self._find_toolchains()
        self._shown_secrets = self._find_shown_secrets()
        self._shared = self._make_shared()

    def _make_shared(self) -> SharedFolders:
        sources = {Path(folder): self._scratch_path / name for folder, name in _TEMPORARY.items()}
        sources[self._home / ".cache"] = self._scratch_path / "cache"
        roots: list[Mount] = [("--bind", root, root) for root in self._roots]
        mounts = [*roots, *self._toolchains, *self._git(Access())]
        return SharedFolders(sources, self._scratch_path / "nothing", mounts)

    def close(self) -> None:
        """Remove its temporary files and caches; no command may run any more."""
        self._git_folders.close()
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
        beside: Sequence[Invocation] = (),
    ) -> Invocation:
        """`cwd`: in one of the roots. `overlay`: what the command sees in their place; the folders
        with packages and caches stay the disk's, and for the background those with builds.
        `is_read_only`: the roots, where there is no overlay. `beside`: what runs now. Looks
        at the disk: 10 ms and more; call it in a thread. Raises: SandboxError."""
        limits = self._settings.limits
        bound = self._bubblewrap.bound
        found = survey(self._roots)
        if overlay is not None:
            shown = lasting(found.folders, self._roots, has_builds=is_background)
            workspace = _overlaid(overlay, [*shown, *mounts_below(self._roots)])
        else:
            bind = "--ro-bind" if is_read_only else "--bind"
            workspace: list[Mount] = [(bind, root, root) for root in self._roots]
        mounts = self._placed(self._mounts(access, workspace, found), beside)
        if is_background:
            mounts = list(holding(mounts))
        name = f".composer-{uuid.uuid4().hex}" if is_background else None
        begun = Path("/tmp", name) if name else None
        argv = (
            *self._bubblewrap.argv(limits.max_processes, overlay.script if overlay else ""),
            *self._arguments(access, mounts),
            *("--chdir", str(cwd.resolve()), "--"),
            *shell_argv(line, limits, bounds_processes=bound == "rlimit", begun=begun),
        )
        return Invocation(
            argv=argv,
            environ=self._environment(),
            cwd=Path("/"),
            limits=limits,
            is_sandboxed=True,
            is_watched=bound == "none",
            mounts=tuple(mounts),
            begun=self._scratch_path / _TEMPORARY["/tmp"] / name if name else None,
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

    def _arguments(self, access: Access, mounts: Sequence[Mount]) -> Iterator[str]:
        yield from (*NAMESPACES, *identity(), *NO_CAPABILITIES)
        if not access.network:
            yield "--unshare-net"
        yield from ("--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc")
        yield from self._covers()
        for mount in mounts:
            yield from map(str, mount)

    def _placed(self, mounts: Iterable[Mount], beside: Sequence[Invocation]) -> list[Mount]:
        """Those that can be mounted where they belong. Raises: SandboxError."""
        placed: list[Mount] = []
        for mount in mounts:
            option, source, place = mount
            if not (self._shared.may_mount(mount) and self._is_plain(place)):
                continue
            if not any(may_move(running.mounts, place) for running in beside):
                placed.append(mount)
            elif option != "--bind" or source != place or place.name == ".git":
                raise SandboxError(
                    f"a command in the background could move {place}, which this one must not reach; "
                    "stop that one first"
                )
        return placed

    def _is_plain(self, place: Path) -> bool:
        """Whether no link in the workspace leads elsewhere from a place in it."""
        is_own = any(place.is_relative_to(root) for root in self._roots)
        return not is_own or os.path.realpath(place) == str(place)

    def _is_in_reach(self, path: Path) -> bool:
        """Of what a link in the workspace may name as secret: system files are none."""
        reach = (*self._roots, *self._chosen)
        return any(path.is_relative_to(folder) for folder in reach)

    def _mounts(self, access: Access, workspace: Sequence[Mount], found: Survey) -> Iterator[Mount]:
        if access.network:
            yield _shown_again(Path("/etc/resolv.conf").resolve())
        yield from self._toolchains
        yield from workspace
        yield from self._git(access)
        yield from self._masks(found)

    def _covers(self) -> Iterator[str]:
        for folder in self._covered:
            if str(folder) not in _TEMPORARY:
                yield from ("--tmpfs", str(folder))
        yield from self._shared.arguments()

    def _find_toolchains(self) -> tuple[Mount, ...]:
        found = find_toolchains(
            self._roots, self._environ, self._home, self._covered, self._settings.read_only
        )
        links = sorted(found.links.items())
        return (
            *(_shown_again(folder) for folder in sorted(found.folders)),
            *(("--symlink", target, link) for link, target in links),
        )

    def _find_shown_secrets(self) -> tuple[Path, ...]:
        """Below what is shown of covered folders."""
        shown = [path for option, _, path in self._toolchains if option != "--symlink"]
        left_out = [*self._roots, *self._chosen, *package_folders(self._home)]
        return (*secrets_in_toolchains(shown, left_out), *survey(self._chosen).hidden)

    def _git(self, access: Access) -> Iterator[Mount]:
        for repository in repositories(self._roots, self._home):
            place, folder = repository.place, repository.folder
            if place != folder:
                yield _shown_again(place)
            if access.git:
                yield from self._git_folders.writable(folder)
            else:
                yield ("--ro-bind", folder, folder)
            config = folder / "config"
            if config.is_file() and not config.is_symlink():
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
        if len(found.hidden) > _MAX_MASKS:
            raise SandboxError(
                f"the workspace has {len(found.hidden)} secret files, more than the {_MAX_MASKS} that the "
                "sandbox can cover; name their folders in .composerignore"
            )
        hidden = [path for path in found.hidden if self._is_in_reach(path)]
        for path in dict.fromkeys([*hidden, *self._shown_secrets, *private_system_files()]):
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

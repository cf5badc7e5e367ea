"""The folders that all commands of a run write to (`/tmp`, caches), and what is mounted in them.

Bubblewrap makes what it mounts on, follows links while it does, and has the whole disk at hand then:
a link that one command plants could lead the mounts of the next one anywhere. So nothing is mounted
in such a folder but below the names that were known before the first command, and each of these is
covered in every sandbox, since nobody can remove, rename or replace what is mounted on there. What
a command writes below such a name ends with it.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path

Mount = tuple[str, str | Path, Path]
"""Bubblewrap's option, the source or a link's target, and the place."""


class SharedFolders:
    def __init__(self, sources: dict[Path, Path], nothing: Path, mounts: Iterable[Mount]) -> None:
        """`sources`: what to bind, by its place in the sandbox; outer places first. `nothing`: an
        empty file. `mounts`: all that there may be later on."""
        self._sources = sources
        self._nothing = nothing
        self._covered: dict[Path, Path | None] = {}
        """Places right in one of them, and what covers each: a file, or for None a new folder."""
        for place in sources:
            self._cover(("--bind", sources[place], place))
        for mount in mounts:
            self._cover(mount)

    def arguments(self) -> Iterator[str]:
        """Bubblewrap's, to stand before those of the mounts."""
        for folder, source in self._sources.items():
            yield from ("--bind", str(source), str(folder))
            for place, file in self._covered.items():
                if place.parent == folder:
                    cover = ("--ro-bind", str(file)) if file else ("--tmpfs",)
                    yield from (*cover, str(place))

    def may_mount(self, mount: Mount) -> bool:
        """Whether no command can have made what it would be mounted on."""
        place = self._name(mount[2])
        return place is None or place in self._covered

    def _cover(self, mount: Mount) -> None:
        option, source, path = mount
        place = self._name(path)
        if place is None or place in self._covered:
            return
        on_disk = self._sources[place.parent] / place.name
        if path != place or (option != "--symlink" and Path(source).is_dir()):
            on_disk.mkdir(exist_ok=True)
            self._covered[place] = None
        elif option != "--symlink":
            on_disk.touch()
            self._covered[place] = self._nothing
        else:
            on_disk.symlink_to(source)  # nothing is mounted below it

    def _name(self, path: Path) -> Path | None:
        """Of the names right in a shared folder, the one that a path is or lies below."""
        for folder in reversed(self._sources):
            if folder in path.parents:
                return folder / path.relative_to(folder).parts[0]
        return None

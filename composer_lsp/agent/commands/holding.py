"""Keeping what is mounted in the workspace where it is, while another sandbox is made.

Bubblewrap mounts on paths that were looked up a moment before. A command that still runs may move a
folder in that moment, or put a link in its place, so that a secret is left uncovered or something is
mounted that lies elsewhere. Nobody can move what is mounted on in their own sandbox. So a command in
the background gets each folder on the way to such a place mounted on itself, and what it may move in
spite of that hinders other sandboxes.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

from composer_lsp.agent.commands.shared_folders import Mount


def holding(mounts: Sequence[Mount]) -> Iterator[Mount]:
    """The same mounts, and those of the folders on the way to each."""
    options = {mount[2]: mount for mount in mounts}
    held: set[Path] = set()
    for mount in mounts:
        around = _around(mount[2], options)
        if around is not None and _is_writable(options[around]):
            between = [path for path in mount[2].parents if around in path.parents]
            for folder in reversed(between):
                if folder not in held:
                    held.add(folder)
                    yield ("--bind", folder, folder)
        yield mount


def may_move(mounts: Sequence[Mount], place: Path) -> bool:
    """Whether a command with these mounts could put something else there on the disk."""
    options = {mount[2]: mount for mount in mounts}
    around = _around(place, options)
    return place not in options and around is not None and _is_writable(options[around])


def _around(place: Path, options: dict[Path, Mount]) -> Path | None:
    return next((folder for folder in place.parents if folder in options), None)


def _is_writable(mount: Mount) -> bool:
    """On the disk: overlays are a command's own."""
    option, source, place = mount
    return option == "--bind" and source == place

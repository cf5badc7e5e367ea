"""The checkpoints of a window's folders. Each folder has a store of its own, so that a window finds
them in whatever order, and beside whatever others, its folders are open."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from composer_index.store.location import store_location
from composer_lsp.agent.checkpoints import Checkpoint, CheckpointError, Checkpoints
from composer_lsp.agent.edits.change_set import FileChange
from composer_lsp.agent.workspace.paths import Paths


class WindowCheckpoints:
    """The paths of what is kept are absolute: a file's path in the workspace depends on the other
    folders. A change of several folders is kept in the store of each, under one id."""

    def __init__(self, paths: Paths, state: Path) -> None:
        self._paths = paths
        # A folder's name in the state folder is the one that its index has in the cache.
        self._stores = {
            root: Checkpoints(state / "checkpoints" / store_location(state, Path(root)).name)
            for root in paths.roots
        }

    def save(self, id: str, label: str, changes: Iterable[FileChange]) -> None:
        """Raises: OSError, TextError."""
        by_root: dict[str, list[FileChange]] = {}
        for change in changes:
            root = self._paths.locate(change.path).root
            by_root.setdefault(root, []).append(self._absolute(change))
        for root, some in by_root.items():
            self._stores[root].save(id, label, some)

    def last(self) -> Checkpoint | None:
        """What was kept last."""
        found = [each for store in self._stores.values() for each in store.list()]
        return max(found, key=lambda each: each.at, default=None)

    def reversed(self, id: str) -> Sequence[FileChange]:
        """The changes that take it back. Raises: CheckpointError."""
        return [self._shown(change) for store in self._having(id) for change in store.reversed(id)]

    def drop(self, id: str) -> None:
        for store in self._having(id):
            store.drop(id)

    def _having(self, id: str) -> list[Checkpoints]:
        return [
            store for store in self._stores.values() if any(each.id == id for each in store.list())
        ]

    def _absolute(self, change: FileChange) -> FileChange:
        origin = change.moved_from
        return replace(
            change,
            path=self._paths.locate(change.path).absolute,
            moved_from=None if origin is None else self._paths.locate(origin).absolute,
        )

    def _shown(self, change: FileChange) -> FileChange:
        origin = change.moved_from
        path, moved_from = self._path(change.path), None if origin is None else self._path(origin)
        return replace(change, path=path, moved_from=moved_from)

    def _path(self, absolute: str) -> str:
        place = self._paths.of_absolute(absolute)
        if place is None:
            raise CheckpointError(
                f"{absolute} is in no folder of this window; open its folder first"
            )
        return place.path

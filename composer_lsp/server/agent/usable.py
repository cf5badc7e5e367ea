"""Which documents the agent may see."""

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING
from urllib.parse import unquote

from composer_lsp.server.window_index import local_path

if TYPE_CHECKING:
    from composer_lsp.agent.workspace.paths import Paths

_FRESH_S = 5.0
"""An answer is looked up again in the background after so long: ignore files change."""


class UsableDocuments:
    """Remembers the answers: git is asked, which takes milliseconds, and editors want to know at
    each move of the cursor. Event loop only."""

    def __init__(
        self, roots: Callable[[], Sequence[str]], include_secret: Callable[[], tuple[str, ...]]
    ) -> None:
        self._roots = roots
        self._include_secret = include_secret
        self._paths: tuple[object, Paths] | None = None
        self._known: dict[str, tuple[bool, float]] = {}
        self._asking: dict[str, asyncio.Task[bool]] = {}

    async def has(self, uri: str) -> bool:
        """Whether it is a file of the window's folders, and not hidden."""
        roots = tuple(self._roots())
        path = local_path(uri)
        if not roots or path is None:
            return False
        key = (roots, self._include_secret())
        if self._paths is None or self._paths[0] != key:
            self._known.clear()
        known = self._known.get(unquote(uri))
        if known is None:
            return await asyncio.shield(self._ask(uri, path, key))
        if time.monotonic() - known[1] > _FRESH_S:
            self._ask(uri, path, key)
        return known[0]

    def forget(self, uri: str) -> None:
        """It was closed."""
        self._known.pop(unquote(uri), None)

    def _ask(
        self, uri: str, path: str, key: tuple[Sequence[str], tuple[str, ...]]
    ) -> "asyncio.Task[bool]":
        name = unquote(uri)
        if (task := self._asking.get(name)) is None:
            task = self._asking[name] = asyncio.create_task(self._look_up(name, path, key))
            task.add_done_callback(lambda _: self._asking.pop(name, None))
        return task

    async def _look_up(
        self, name: str, path: str, key: tuple[Sequence[str], tuple[str, ...]]
    ) -> bool:
        current = self._paths[1] if self._paths is not None and self._paths[0] == key else None
        paths, is_usable = await asyncio.to_thread(_is_usable, current, path, key)
        self._paths = key, paths
        self._known[name] = is_usable, time.monotonic()
        return is_usable


def _is_usable(
    paths: "Paths | None", path: str, key: tuple[Sequence[str], tuple[str, ...]]
) -> "tuple[Paths, bool]":
    # Imported here, in a thread: many windows never ask.
    from pathlib import Path

    from composer_lsp.agent.workspace.paths import Paths

    if paths is None:
        paths = Paths([Path(root) for root in key[0]], key[1])
    place = paths.of_absolute(path)
    return paths, place is not None and not paths.hidden_among([place])

"""The session's folders, also as the client writes them."""

import os
from collections.abc import Sequence
from pathlib import Path

from composer_lsp.agent.workspace.paths import Paths, Place


class ClientPaths(Paths):
    """A client that opened a folder by a link knows its files by no other path."""

    def __init__(self, roots: Sequence[Path]) -> None:
        super().__init__(roots)
        self._given = {os.path.realpath(root): str(root) for root in reversed(roots)}

    def given(self, place: Place) -> str:
        """Absolute, below the folder as the client named it."""
        root = self._given.get(place.root, place.root).rstrip(os.sep)
        return f"{root}{os.sep}{place.relative}"

"""The progress bar of indexing: one for all folders of the window, which one worker goes through."""

import asyncio
from collections.abc import Callable

from composer_lsp.server.editor import Editor, Progress

MANY_FILES = 50
"""Fewer are indexed before a progress bar could be read."""


class IndexBar:
    """Opens with the first report of many files, and closes when none is left. Event loop only."""

    def __init__(self, editor: Editor, on_cancel: Callable[[], None]) -> None:
        self._editor = editor
        self._on_cancel = on_cancel
        self._done: dict[str, int] = {}
        self._left: dict[str, int] = {}
        self._percent = 0
        self._bar: asyncio.Task[Progress] | None = None

    def report(self, root: str, done: int, left: int, *, may_open: bool) -> None:
        """How many of a folder's files are indexed and left; with none left it is finished, or its
        indexing has ended otherwise."""
        if left == 0:
            # A folder that is finished stays in the sum, or the bar would jump back.
            done = self._done.get(root, 0) + self._left.get(root, 0)
        self._done[root], self._left[root] = done, left
        if not any(self._left.values()):
            self.end()
        elif self._bar is None:
            if may_open and sum(self._left.values()) >= MANY_FILES:
                self._open()
        elif self._bar.done():
            self._show(self._bar.result())

    def end(self, text: str = "") -> None:
        """Close the bar if it is open, or as soon as it is. What is left may open another one."""
        self._done = {root: 0 for root, left in self._left.items() if left}
        self._left = {root: left for root, left in self._left.items() if left}
        self._percent = 0
        if (bar := self._bar) is not None:
            self._bar = None
            bar.add_done_callback(lambda done: done.result().end(text))

    def _open(self) -> None:
        begun = self._editor.begin_progress("Indexing", 0, on_cancel=self._on_cancel)
        self._bar = asyncio.ensure_future(begun)

    def _show(self, bar: Progress) -> None:
        num_done, num_left = sum(self._done.values()), sum(self._left.values())
        # Files that change meanwhile are more to do, and a percentage has to rise.
        self._percent = max(self._percent, 100 * num_done // (num_done + num_left))
        bar.report(f"{num_done:,} files done, {num_left:,} left", self._percent)

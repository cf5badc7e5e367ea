"""The engine's condition, passed on to the status and, while something loads, to a progress bar."""

import asyncio
import functools

from composer_lsp.server.editor import Editor, Progress
from composer_lsp.server.status import DEFAULT_MESSAGES, Condition, StatusBoard


class Conditions:
    def __init__(self, editor: Editor, board: StatusBoard) -> None:
        self._editor = editor
        self._board = board
        self._progress: asyncio.Task[Progress] | None = None

    def on_condition(self, condition: Condition, message: str) -> None:
        self._board.set_condition(condition, message)
        if condition in {"starting", "loading"}:
            self._show(message or DEFAULT_MESSAGES[condition])
        else:
            self._end()
        if condition == "ready":
            self._editor.forget_shown()

    def _show(self, message: str) -> None:
        if self._progress is None:
            self._progress = asyncio.create_task(self._editor.begin_progress(message))
        else:
            self._progress.add_done_callback(functools.partial(_report, message))

    def _end(self) -> None:
        if self._progress is not None:
            self._progress.add_done_callback(_end_progress)
            self._progress = None


def _report(message: str, task: "asyncio.Task[Progress]") -> None:
    if not task.cancelled():
        task.result().report(message)


def _end_progress(task: "asyncio.Task[Progress]") -> None:
    if not task.cancelled():
        task.result().end()

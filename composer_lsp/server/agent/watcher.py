"""Tells the client what a run does: by notifications, by partial results, or, where a plain client
does neither, by a progress bar and messages."""

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, cast

from lsprotocol import types

from composer_inference.environment import state_dir
from composer_lsp.agent.events import CallEvent, Event, TextEvent
from composer_lsp.server.agent.failures import FAILURES
from composer_lsp.server.agent.runs import Runs
from composer_lsp.server.agent.window_run import Run
from composer_lsp.server.editor import Progress
from composer_lsp.server.session import Session
from composer_lsp.server.settings import camel_case

_MAX_MESSAGE_CHARS = 300
"""A longer answer is shown as a document, where the client opens documents."""
_MAX_ANSWERS = 20
"""So many are kept as files."""
_MAX_BAR_CHARS = 120
"""Of a progress bar's message."""


class Watcher:
    """Of one run."""

    def __init__(
        self,
        session: Session,
        token: types.ProgressToken | None,
        work_done_token: types.ProgressToken | None = None,
    ) -> None:
        """`token`: for partial results; `work_done_token`: for a progress bar of the request's own."""
        self._session = session
        self._token = token
        self._work_done_token = work_done_token
        self._progress: Progress | None = None
        self._line = ""

    def tell(self, id: str, event: Event) -> None:
        kind = type(event).__name__.removesuffix("Event").lower()
        self._send({"run": id, "kind": kind, **_camel_cased(asdict(event))})
        if self._progress is not None and (message := self._message(event)):
            self._progress.report(message)

    async def answer(self, runs: Runs, run: Run) -> None:
        """To its end, for a client that waits for the answer. Raises as `Runs.ended`."""
        progress = self._session.editor.begin_given_progress(
            self._work_done_token, _title(run), run.stop
        )
        self._progress = progress
        try:
            await self.follow(runs, run)
        finally:
            progress.end()

    async def follow(self, runs: Runs, run: Run) -> None:
        """To its end. Raises as `Runs.ended`."""
        mode, request = run.request.mode, run.request.text
        self._send({"run": run.id, "kind": "begin", "mode": mode, "request": request})
        try:
            await runs.ended(run)
        finally:
            state = run.state if run.task.done() else "stopped"
            self._send({"run": run.id, "kind": "end", "state": state})

    async def show(self, runs: Runs, run: Run) -> None:
        """To its end, which the user is shown."""
        editor = self._session.editor
        progress = await editor.begin_progress(_title(run), on_cancel=run.stop)
        self._progress = progress
        run.task.add_done_callback(lambda _: progress.end())
        try:
            await self.follow(runs, run)
        except FAILURES as error:
            editor.show(f"Composer: {error}", types.MessageType.Error)
            return
        if run.finished is not None:
            is_good = run.state == "finished"
            kind = types.MessageType.Info if is_good else types.MessageType.Warning
            await self._show_text(run, run.finished.outcome.text, kind)

    async def _show_text(self, run: Run, text: str, kind: types.MessageType) -> None:
        editor = self._session.editor
        files = {change.path for change in run.pending.changes()}
        note = f"\nChanges of {', '.join(sorted(files))} wait to be accepted." if files else ""
        if len(text) > _MAX_MESSAGE_CHARS or "\n" in text:
            path = _written(run.id, f"# {run.request.text}\n\n{text}\n{note}")
            if await editor.show_document(path.as_uri()):
                return
        editor.show(f"Composer: {text}{note}", kind)

    def _message(self, event: Event) -> str:
        """For a progress bar: the call, or the line that the model is writing."""
        match event:
            case CallEvent():
                self._line = ""
                return f"{event.name} {_subject(event.arguments)}"[:_MAX_BAR_CHARS].strip()
            case TextEvent():
                self._line = f"{self._line}{event.text}".rpartition("\n")[2]
                return self._line[-_MAX_BAR_CHARS:].strip()
            case _:
                return ""

    def _send(self, value: Mapping[str, Any]) -> None:
        self._session.editor.send_agent_event(value)
        if self._token is not None:
            self._session.editor.send_partial(self._token, value)


def _title(run: Run) -> str:
    return f"Composer: {run.request.text.splitlines()[0][:60]}"


def _subject(arguments: str) -> str:
    """What a call is about: its first argument, if that is a text."""
    try:
        fields: object = json.loads(arguments)
    except (ValueError, RecursionError):
        return ""
    values = list(cast("dict[str, object]", fields).values()) if isinstance(fields, dict) else []
    return " ".join(values[0].split()) if values and isinstance(values[0], str) else ""


def _written(id: str, text: str) -> Path:
    """An answer as a file of the user's state."""
    folder = state_dir() / "answers"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    for old in sorted(folder.glob("*.md"))[: -_MAX_ANSWERS + 1]:
        old.unlink(missing_ok=True)
    path = folder / f"{id}.md"
    path.touch(mode=0o600)
    path.write_text(text, encoding="utf-8", errors="replace")
    return path


def _camel_cased(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {camel_case(name): value for name, value in fields.items()}

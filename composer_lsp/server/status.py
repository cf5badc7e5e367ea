"""What Composer is doing, as one state for the editor's status bar."""

import asyncio
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal

State = Literal[
    "idle",
    "starting",
    "downloading",
    "loading",
    "thinking",
    "snoozed",
    "disabled",
    "offline",
    "error",
]

Condition = Literal["ready", "starting", "loading", "offline", "error"]
"""How the engine is."""

_THINKING_AFTER_S = 0.1


@dataclass(frozen=True, kw_only=True, slots=True)
class Status:
    state: State
    message: str
    percent: int | None = None
    model: str | None = None

    def as_json(self) -> dict[str, Any]:
        values = {"percent": self.percent, "model": self.model}
        known = {key: value for key, value in values.items() if value is not None}
        return {"state": self.state, "message": self.message, **known}


class StatusBoard:
    """Keeps the facts, derives the one state that matters most, and publishes it when it changes.

    In order: a download, what the user has turned off, what is wrong, what is on its way, work.
    """

    def __init__(self) -> None:
        self._send: Callable[[Status], None] | None = None
        self._condition: Condition = "ready"
        self._message = ""
        self._note = ""
        self._model: str | None = None
        self._download: tuple[str, int] | None = None
        self._is_enabled = True
        self._is_snoozed = False
        self._thinking: set[object] = set()
        self._published: Status | None = None

    @property
    def current(self) -> Status:
        state, message, percent = self._derive()
        return Status(state=state, message=message, percent=percent, model=self._model)

    def start(self, send: Callable[[Status], None]) -> None:
        """From here on, send the state when it is not what was sent last; and send it now."""
        self._send = send
        self._publish()

    def set_condition(self, condition: Condition, message: str = "") -> None:
        self._condition, self._message = condition, message
        self._publish()

    def set_note(self, note: str) -> None:
        """What the user should know while all is well; empty: nothing."""
        self._note = note
        self._publish()

    def set_model(self, model: str | None) -> None:
        self._model = model
        self._publish()

    def set_download(self, model: str, percent: int) -> None:
        self._download = (model, percent)
        self._publish()

    def end_download(self) -> None:
        self._download = None
        self._publish()

    def set_enabled(self, enabled: bool) -> None:
        self._is_enabled = enabled
        self._publish()

    def set_snoozed(self, snoozed: bool) -> None:
        self._is_snoozed = snoozed
        self._publish()

    @contextmanager
    def thinking(self) -> Generator[None]:
        """While inside, a request is being worked on. However it ends, the state does not stick;
        one that ends soon, most of all from memory, does not flicker in the status bar."""
        request = object()
        timer = asyncio.get_running_loop().call_later(_THINKING_AFTER_S, self._begin, request)
        try:
            yield
        finally:
            timer.cancel()
            self._thinking.discard(request)
            self._publish()

    def _begin(self, request: object) -> None:
        self._thinking.add(request)
        self._publish()

    def _publish(self) -> None:
        if self._send is not None and (status := self.current) != self._published:
            self._published = status
            self._send(status)

    def _derive(self) -> tuple[State, str, int | None]:
        if self._download:
            model, percent = self._download
            return "downloading", f"Downloading {model}", percent
        if not self._is_enabled:
            return "disabled", "Suggestions are off", None
        if self._is_snoozed:
            return "snoozed", "Suggestions are snoozed", None
        if self._condition != "ready":
            return self._condition, self._message or DEFAULT_MESSAGES[self._condition], None
        if self._thinking:
            return "thinking", "Thinking", None
        return "idle", self._note or "Ready", None


DEFAULT_MESSAGES: dict[Condition, str] = {
    "starting": "Starting the engine",
    "loading": "Loading the model",
    "offline": "The engine cannot be reached",
    "error": "Something went wrong; see the log",
}

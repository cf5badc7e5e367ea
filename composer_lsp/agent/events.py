"""What a run tells those who watch it, as it happens."""

from contextvars import ContextVar
from dataclasses import dataclass
from typing import Literal

from composer_lsp.agent.tools.context import PlanStep


@dataclass(frozen=True, slots=True)
class TextEvent:
    """A piece of what the model says to the user."""

    text: str


@dataclass(frozen=True, slots=True)
class CallEvent:
    """A tool call begins."""

    id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class OutputEvent:
    """A piece of what a call's command writes, as it comes. Its result has all that the model
    reads."""

    id: str
    """The call's."""
    text: str


@dataclass(frozen=True, slots=True)
class ResultEvent:
    """A tool call has ended."""

    id: str
    text: str
    is_error: bool
    duration_s: float


@dataclass(frozen=True, slots=True)
class PlanEvent:
    steps: tuple[PlanStep, ...]


@dataclass(frozen=True, slots=True)
class EditsEvent:
    """The files that are changed by now."""

    paths: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class NoticeEvent:
    """Something that the user should know: an error that is tried again, a claim that does not
    hold."""

    text: str
    level: Literal["information", "warning"] = "warning"


Event = TextEvent | CallEvent | OutputEvent | ResultEvent | PlanEvent | EditsEvent | NoticeEvent

current_call: ContextVar[str] = ContextVar("current_call", default="")
"""The id of the call that runs, for the tool that it calls."""

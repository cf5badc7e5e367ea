"""What a run in a terminal shows: as text for a person, or as JSON for a program."""

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Protocol

from composer_index.printable import printable
from composer_lsp.agent.diff import shown, unified
from composer_lsp.agent.edits.change_set import FileChange
from composer_lsp.agent.events import (
    CallEvent,
    EditsEvent,
    Event,
    NoticeEvent,
    OutputEvent,
    PlanEvent,
    ResultEvent,
    TextEvent,
)

if TYPE_CHECKING:
    from composer_lsp.agent.run import Outcome

_MAX_ARGUMENTS = 100
_MARKS = {"todo": " ", "doing": ">", "done": "x"}


class Output(Protocol):
    def event(self, event: Event) -> None: ...

    def outcome(self, outcome: "Outcome", transcript: str, pending: Sequence[str]) -> None:
        """`transcript`: its id; empty where it is not kept. `pending`: the files whose changes are not
        applied yet."""
        ...

    def stopped(self, outcome: "Outcome", transcript: str, pending: Sequence[str]) -> None: ...

    def changes(self, changes: Sequence[FileChange]) -> None:
        """Before they are applied."""
        ...

    def applied(self, changes: Sequence[FileChange]) -> None: ...

    def error(self, text: str) -> None: ...


class TerminalOutput:
    """The answer goes to standard output, what happens meanwhile to standard error."""

    def __init__(self) -> None:
        from rich.console import Console

        self._out = Console(highlight=False, soft_wrap=True, emoji=False)
        self._err = Console(stderr=True, highlight=False, soft_wrap=True, emoji=False)
        self._names: dict[str, str] = {}
        self._said = ""
        self._is_mid_output = False

    def event(self, event: Event) -> None:
        match event:
            case TextEvent(text=text):
                self._said += text
                self._out.print(_safe(text), end="", markup=False)
            case CallEvent(id=call, name=name, arguments=arguments):
                self._line()
                self._names[call] = f"{printable(name)} {_short(arguments)}"
            case OutputEvent(text=text):
                self._err.print(_safe(text), end="", style="dim", markup=False)
                self._is_mid_output = not text.endswith("\n")
            case ResultEvent(id=call, text=text, is_error=is_error, duration_s=duration_s):
                self._line()
                self._err.print(
                    f"  {self._names.pop(call, '?')}  {duration_s:.1f} s", style="dim", markup=False
                )
                if is_error:
                    self._err.print(f"    {_first_line(text)}", style="red", markup=False)
            case PlanEvent(steps=steps):
                for step in steps:
                    line = f"  [{_MARKS[step.state]}] {printable(step.text)}"
                    self._err.print(line, markup=False)
            case NoticeEvent(text=text):
                self._line()
                self._err.print(_safe(text), style="yellow", markup=False)
            case EditsEvent():
                pass  # shown as a diff when the run has ended

    def outcome(self, outcome: "Outcome", transcript: str, pending: Sequence[str]) -> None:
        if outcome.text.strip() != self._said.strip():
            self._line()
            style = None if outcome.status == "finished" else "yellow"
            self._out.print(_safe(outcome.text), style=style, markup=False)
        self._line()
        if pending:
            paths = ", ".join(map(printable, pending))
            self._err.print(f"Not applied yet: {paths}.", style="yellow", markup=False)

    def stopped(self, outcome: "Outcome", transcript: str, pending: Sequence[str]) -> None:
        self.event(NoticeEvent(outcome.text))

    def changes(self, changes: Sequence[FileChange]) -> None:
        from rich.syntax import Syntax

        text = shown(changes)
        if self._out.is_terminal:
            self._out.print(Syntax(text, "diff", background_color="default"))
        else:
            self._out.print(text, markup=False)

    def applied(self, changes: Sequence[FileChange]) -> None:
        paths = ", ".join(printable(change.path) for change in changes)
        self._err.print(f"Changed {paths}.", markup=False)

    def error(self, text: str) -> None:
        self._line()
        print(f"composer-lsp: {_safe(text)}", file=sys.stderr)

    def _line(self) -> None:
        """End the line that is being streamed."""
        if self._said and not self._said.endswith("\n"):
            self._out.print()
        if self._is_mid_output:
            self._err.print()
        self._said, self._is_mid_output = "", False


class JsonOutput:
    def event(self, event: Event) -> None:
        kind = type(event).__name__.removesuffix("Event").lower()
        _print({"kind": kind, **asdict(event)})

    def outcome(self, outcome: "Outcome", transcript: str, pending: Sequence[str]) -> None:
        more = {"transcript": transcript, "pending": list(pending)}
        _print({"kind": "outcome", **asdict(outcome), **more})

    stopped = outcome

    def changes(self, changes: Sequence[FileChange]) -> None:
        _print({"kind": "diff", "text": unified(changes)})

    def applied(self, changes: Sequence[FileChange]) -> None:
        _print({"kind": "applied", "paths": [change.path for change in changes]})

    def error(self, text: str) -> None:
        _print({"kind": "error", "text": text})


def _print(value: Mapping[str, Any]) -> None:
    print(json.dumps(value), flush=True)


def _short(arguments: str) -> str:
    line = printable(" ".join(arguments.split()))
    return line if len(line) <= _MAX_ARGUMENTS else f"{line[: _MAX_ARGUMENTS - 1]}…"


def _first_line(text: str) -> str:
    return printable(text.split("\n", 1)[0])


def _safe(text: str) -> str:
    return "\n".join(map(printable, text.split("\n")))

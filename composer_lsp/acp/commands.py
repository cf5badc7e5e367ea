"""Slash commands: a mode for one prompt, and undo."""

import re
from dataclasses import dataclass
from typing import get_args

from acp import schema

from composer_lsp.agent.prompt.system import Mode

MODES: tuple[Mode, ...] = get_args(Mode)
_MODE_NAMES: dict[Mode, tuple[str, str]] = {
    "ask": ("Ask", "Answers questions about the code. Reads only."),
    "plan": ("Plan", "Writes a plan, and carries it out when you agree."),
    "edit": ("Edit", "Changes files. You see the changes before they are made."),
    "fix": ("Fix", "Fixes the problems that you name, at their cause."),
    "test": ("Test", "Writes tests for what you name, and runs them."),
}
_UNDO = "Takes back the changes that were made last."
_COMMAND = re.compile(r"/([a-z]+)(?:\s+(.*))?", re.DOTALL)


class CommandError(Exception):
    """A slash command that lacks its words."""


@dataclass(frozen=True, slots=True)
class Command:
    name: str
    text: str
    mode: Mode | None


def mode_named(name: str) -> Mode | None:
    return next((mode for mode in MODES if mode == name), None)


def read_command(text: str) -> Command | None:
    """None: it is no command, but a prompt. Raises: CommandError."""
    match = _COMMAND.fullmatch(text.strip())
    if match is None:
        return None
    name, words = match[1], (match[2] or "").strip()
    if name == "undo":
        return Command(name, words, None)
    mode = mode_named(name)
    if mode is None:
        return None
    if not words:
        raise CommandError(f"/{name} takes a request in words, such as: /{name} {_EXAMPLES[mode]}")
    return Command(name, words, mode)


def available_commands() -> list[schema.AvailableCommand]:
    commands = [_available(mode, _MODE_NAMES[mode][1], "what you want, in words") for mode in MODES]
    return [*commands, schema.AvailableCommand(name="undo", description=_UNDO)]


def session_modes(current: Mode) -> schema.SessionModeState:
    return schema.SessionModeState(
        current_mode_id=current,
        available_modes=[
            schema.SessionMode(id=mode, name=name, description=description)
            for mode, (name, description) in _MODE_NAMES.items()
        ],
    )


def _available(name: str, description: str, hint: str) -> schema.AvailableCommand:
    takes = schema.AvailableCommandInput(root=schema.UnstructuredCommandInput(hint=hint))
    return schema.AvailableCommand(name=name, description=description, input=takes)


_EXAMPLES: dict[Mode, str] = {
    "ask": "where is the price computed?",
    "plan": "split this module",
    "edit": "rename price to cost",
    "fix": "the failing test in test_shop.py",
    "test": "shop.py",
}

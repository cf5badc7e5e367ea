"""The `composer-lsp` command. Only the module of the subcommand that is run gets imported: an
editor waits for `serve`."""

import argparse
import importlib
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import Protocol, cast

from composer_inference.environment import EnvironmentVariableError
from composer_lsp import __version__

COMMANDS = {
    "serve": ("serve", "speak LSP on stdin and stdout, for editors (the default)"),
    "engine": ("engine", "run the inference engine that all windows share"),
    "model": ("model", "list, fetch, register and remove models"),
    "doctor": ("doctor", "check the installation and say how to mend it"),
    "index": ("index", "build and search the index of a workspace"),
    "ask": ("ask", "answer a question about the code of a folder"),
    "plan": ("plan", "plan a change to the code of a folder, and carry it out if you agree"),
    "edit": ("ask", "change the code of a folder, and show the difference before it is applied"),
    "fix": ("ask", "fix problems in the code of a folder, at their cause"),
    "test": ("ask", "write tests for code of a folder, and run them"),
    "transcript": ("transcripts", "list, show and export the agent's runs, and go on with one"),
    "acp": (
        "acp",
        "speak the Agent Client Protocol on stdin and stdout, for editors' agent panels",
    ),
    "complete": ("complete", "print a completion at a place in a file"),
    "try": ("try_", "see ghost text come in a real file, stage by stage"),
}
"""Module and help of each subcommand."""


class _Command(Protocol):
    def add_arguments(self, parser: argparse.ArgumentParser) -> None: ...

    def run(self, args: argparse.Namespace) -> int: ...


def main(argv: Sequence[str] | None = None) -> int:
    """Run a subcommand and return the process's exit code."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    _open_missing_streams()
    try:
        try:
            return _run(arguments)
        finally:
            # Here, where it can still be told that nobody takes what was printed.
            print(end="", flush=True)
    except EnvironmentVariableError as error:
        print(f"composer-lsp: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        _drop_output()
        return 1
    except OSError as error:
        print(f"composer-lsp: {error}", file=sys.stderr)
        _drop_output()
        return 2


def _run(arguments: list[str]) -> int:
    name = next((word for word in arguments if not word.startswith("-")), None)
    parser, command = _parser(name)
    if name is None and not {"-h", "--help", "--version"} & set(arguments):
        if not arguments and sys.stdin.isatty():
            parser.print_help()
            return 0
        # Editors' clients start servers with `--stdio` and without a subcommand.
        return _run(["serve", *arguments])
    args = parser.parse_args(arguments)
    assert command is not None, "argparse has refused a name that is no subcommand"
    return command.run(args)


def _open_missing_streams() -> None:
    """What a service or a job is started without (`<&-`) is empty, and takes all; the first file that is
    opened would take its number."""
    for name, flags, mode in (
        ("stdin", os.O_RDONLY, "r"),
        ("stdout", os.O_WRONLY, "w"),
        ("stderr", os.O_WRONLY, "w"),
    ):
        if getattr(sys, name) is None:
            descriptor = os.open(os.devnull, flags)
            os.set_inheritable(descriptor, True)
            setattr(sys, name, os.fdopen(descriptor, mode))


def _drop_output() -> None:
    """Whoever read our output has gone; Python would complain again when it flushes at its end."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _parser(chosen: str | None) -> tuple[argparse.ArgumentParser, _Command | None]:
    """The parser, with the arguments of the chosen subcommand alone, and its module."""
    parser = argparse.ArgumentParser(
        prog="composer-lsp",
        description="A coding model that lives in the editor, on your own machine.",
    )
    parser.add_argument("--version", action="version", version=f"composer-lsp {__version__}")
    subparsers = parser.add_subparsers(metavar="COMMAND", required=True)
    command = None
    for name, (module, help_text) in COMMANDS.items():
        subparser = subparsers.add_parser(name, help=help_text, description=help_text)
        if name == chosen:
            command = cast("_Command", importlib.import_module(f"composer_lsp.cli.{module}"))
            subparser.set_defaults(command=name)
            command.add_arguments(subparser)
    return parser, command

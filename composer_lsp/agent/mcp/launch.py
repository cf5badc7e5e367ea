"""What exactly is started or called: resolved, and bound to a digest that changes when it does."""

import hashlib
import json
import os
import shlex
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from composer_lsp.agent.commands.environment import is_hidden_variable
from composer_lsp.agent.mcp.configuration import (
    HttpServer,
    ServerError,
    StdioServer,
    expand,
    referred,
)
from composer_lsp.agent.mcp.shown import shown

BASE_ENVIRONMENT = ("PATH", "HOME", "LANG")
"""Of the user's environment, what each server gets besides what is named for it."""
MAX_SHOWN_CHARS = 4_000
"""Of all that the user is shown of a server. Nothing is cut from it, where something could hide."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Process:
    """How a stdio server is started."""

    argv: tuple[str, ...]
    """The first is an absolute path."""
    cwd: Path
    env: Mapping[str, str]


@dataclass(frozen=True, kw_only=True, slots=True)
class Endpoint:
    url: str
    headers: Mapping[str, str]
    is_sse: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class Launch:
    """One server as it would be used now."""

    target: Process | Endpoint
    identity: str
    """SHA-256 over all that decides what runs or who is asked; values that the user's own environment
    gives to `env` and headers are no part of it, so that a new token is no other server."""
    lines: tuple[str, ...]
    """The same for the user to read, without secrets."""


def resolve(
    server: StdioServer | HttpServer, roots: Sequence[Path], environ: Mapping[str, str]
) -> Launch:
    """Looks for the program, and reads what of it lies in the workspace. Raises: ServerError."""
    if isinstance(server, StdioServer):
        launch = _stdio(server, roots, environ)
    else:
        launch = _http(server, environ)
    num_chars = sum(map(len, launch.lines))
    if num_chars > MAX_SHOWN_CHARS:
        raise ServerError(
            f"its command line, variables and headers have {num_chars:,} characters, more than the "
            f"{MAX_SHOWN_CHARS:,} that can be asked about"
        )
    return launch


def _http(server: HttpServer, environ: Mapping[str, str]) -> Launch:
    url = expand(server.url, environ)
    if not url.startswith(("http://", "https://")):
        raise ServerError("its URL is none of http:// or https://")
    headers = {name: expand(value, environ) for name, value in server.headers.items()}
    for name, value in headers.items():
        if not value.isprintable() or not value.isascii():
            raise ServerError(f"the value of its header {name} cannot be sent")
    return Launch(
        target=Endpoint(url=url, headers=headers, is_sse=server.kind == "sse"),
        identity=_digest(
            {"kind": server.kind, "url": [server.url, url], "headers": dict(server.headers)}
        ),
        lines=(
            f"URL: {_line(server.url)}",
            *_assigned("Header", server.headers),
            *_given([server.url, *server.headers.values()]),
        ),
    )


def _stdio(server: StdioServer, roots: Sequence[Path], environ: Mapping[str, str]) -> Launch:
    cwd = (server.folder / server.cwd).resolve()
    if not cwd.is_dir():
        raise ServerError(f"its folder {cwd} does not exist")
    env = {name: environ[name] for name in BASE_ENVIRONMENT if name in environ}
    env |= {name: expand(value, environ) for name, value in server.env.items()}
    args = tuple(expand(arg, environ) for arg in server.args)
    program = _program(server.command, cwd, env.get("PATH", os.defpath))
    digests = _digests([program, *_paths(args)], cwd, roots)
    return Launch(
        target=Process(argv=(program, *args), cwd=cwd, env=env),
        identity=_digest(
            {
                "kind": "stdio",
                "program": [program, os.path.realpath(program)],
                "args": [list(server.args), list(args)],
                "cwd": str(cwd),
                "env": dict(server.env),
                "files": digests,
            }
        ),
        lines=(
            f"Command: {_line(shlex.join([program, *server.args]))}",
            f"Folder: {_line(str(cwd))}",
            *_assigned("Environment", server.env),
            *_given([*server.args, *server.env.values()]),
            *(f"In the workspace: {_line(path)}" for path in digests),
        ),
    )


def _program(command: str, cwd: Path, path: str) -> str:
    """Its absolute path; links stay, since a program may ask by which name it was called."""
    if os.sep in command or (os.altsep and os.altsep in command):
        expanded = Path(command).expanduser()
        found = shutil.which(os.path.normpath(cwd / expanded))
    else:
        # An entry that is relative would find what lies in whatever folder Composer runs in.
        entries = [entry for entry in path.split(os.pathsep) if Path(entry).is_absolute()]
        found = shutil.which(command, path=os.pathsep.join(entries))
    if found is None:
        raise ServerError(f"its command {shown(command, 200)!r} was not found")
    return found


def _paths(args: Sequence[str]) -> list[str]:
    """What of the arguments may name a file: as it stands, and after `--option=`."""
    return [part for arg in args for part in (arg, arg.partition("=")[2]) if part]


def _digests(paths: Sequence[str], cwd: Path, roots: Sequence[Path]) -> dict[str, str]:
    """Of those that are files in the workspace, which a run or a pull may change: their SHA-256."""
    real_roots = [root.resolve() for root in roots]
    found: dict[str, str] = {}
    for path in paths:
        try:
            named = Path(os.path.normpath(cwd / path))
            real = named.resolve()
            is_inside = any(
                each.is_relative_to(root) for each in (named, real) for root in real_roots
            )
            if is_inside and real.is_file():
                with real.open("rb") as file:
                    found[str(named)] = hashlib.file_digest(file, "sha256").hexdigest()
        except (OSError, ValueError):
            continue  # no file: an argument of another kind
    return found


def _assigned(label: str, values: Mapping[str, str]) -> list[str]:
    return [f"{label}: {name}={_value(name, value)}" for name, value in sorted(values.items())]


def _value(name: str, value: str) -> str:
    if not referred(value) and is_hidden_variable(name.replace("-", "_"), value):
        return "(not shown)"
    return _line(value)


def _line(text: str) -> str:
    return shown(text, len(text))


def _given(texts: Sequence[str]) -> list[str]:
    names = sorted({name for text in texts for name in referred(text)})
    return [f"It gets your environment's {', '.join(names)}"] if names else []


def _digest(value: object) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()

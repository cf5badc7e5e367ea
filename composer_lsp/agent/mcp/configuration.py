"""Which tool servers there are: from the user's settings and from `.mcp.json` in the workspace.

Both hold the JSON that other tools have:

    {"NAME": {"command": "npx", "args": ["-y", "docs"], "env": {"KEY": "${env:DOCS_KEY}"}, "cwd": "."}}
    {"NAME": {"url": "https://…/mcp", "headersEnv": {"X-Key": "DOCS_KEY"}}}

`.mcp.json` keeps it under `mcpServers`. It came with the repository, so nothing in it is believed: who
asks the user shows where a server was named.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, cast
from urllib.parse import urlsplit

FILE_NAME = ".mcp.json"
MAX_FILE_BYTES = 256_000
MAX_SERVERS = 16
_NAME = re.compile(r"[\w.@/ -]{1,64}")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_HEADER = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_REFERENCE = re.compile(r"\$\{(?:env:)?(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?::-(?P<default>[^}]*))?\}")
_FOLDER = "${workspaceFolder}"

Source = Literal["settings", "command line", "client", "workspace"]
"""`settings`: the user's own. `command line`: a file that the user named there. `client`: the editor,
for a session. `workspace`: a file that came with the code."""


class ServerError(Exception):
    """An entry that is no server, or one that cannot be started; the text says why."""


@dataclass(frozen=True, kw_only=True, slots=True)
class StdioServer:
    """A program that is started, and spoken to over its standard input and output."""

    name: str
    source: Source
    folder: Path
    """What a relative `cwd` is relative to: the workspace's folder."""
    command: str
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict[str, str])
    """Values may hold references such as `${env:TOKEN}`; so may arguments."""
    cwd: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class HttpServer:
    name: str
    source: Source
    url: str
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    """Values may hold references such as `${env:TOKEN}`; so may the URL."""
    kind: Literal["http", "sse"] = "http"
    """`http`: streamable HTTP. `sse`: what servers spoke before it."""


Server = StdioServer | HttpServer


@dataclass(frozen=True, kw_only=True, slots=True)
class Named:
    """Servers, as somebody names them."""

    source: Source
    where: str
    """For messages."""
    servers: object
    """As in the settings; checked when it is read."""


def of_settings(servers: object) -> Named:
    """`servers`: the value of `composer.agent.mcpServers`."""
    return Named(source="settings", where="composer.agent.mcpServers", servers=servers or {})


def of_file(path: Path) -> Named:
    """A file that the user names. Raises: ServerError."""
    try:
        return Named(source="command line", where=str(path), servers=_content(path))
    except OSError as error:
        raise ServerError(f"{path} cannot be read: {error.strerror}") from error
    except ServerError as error:
        raise ServerError(f"{path} is not used: {error}") from error


@dataclass(frozen=True, kw_only=True, slots=True)
class Configured:
    servers: tuple[Server, ...] = ()
    problems: tuple[str, ...] = ()
    """What is malformed, a sentence each. It is left out, and the rest holds."""


def configured_servers(named: Sequence[Named], folders: Sequence[Path]) -> Configured:
    """All servers of a workspace. What is named first goes first, and before a file of a folder that
    names a server alike; so does one that is disabled. Reads a file a folder."""
    home = folders[0] if folders else Path.home()
    servers: dict[str, Server] = {}
    taken: set[str] = set()
    problems: list[str] = []
    sources = [(each, home) for each in named]
    for folder in folders:
        try:
            if (found := _of_folder(folder)) is not None:
                sources.append((found, folder))
        except ServerError as error:
            problems.append(str(error))
    for each, folder in sources:
        listed, disabled, malformed = _entries(each, folder)
        problems += malformed
        for server in listed:
            if server.name not in taken:
                servers[server.name] = server
        taken.update((server.name for server in listed), disabled)
    found = list(servers.values())
    if len(found) > MAX_SERVERS:
        names = ", ".join(server.name for server in found[MAX_SERVERS:])
        problems.append(f"more than {MAX_SERVERS} tool servers are configured; left out: {names}")
    return Configured(servers=tuple(found[:MAX_SERVERS]), problems=tuple(problems))


def _of_folder(folder: Path) -> Named | None:
    """None: there is no file. Raises: ServerError."""
    path = folder / FILE_NAME
    try:
        if not path.is_file():
            return None
        return Named(source="workspace", where=str(path), servers=_content(path))
    except OSError as error:
        raise ServerError(f"{path} cannot be read: {error.strerror}") from error
    except ServerError as error:
        raise ServerError(f"{path} is not used: {error}") from error


def _content(path: Path) -> object:
    """What a file has under `mcpServers`. Raises: OSError, ServerError."""
    with path.open("rb") as file:
        data = file.read(MAX_FILE_BYTES + 1)
    if len(data) > MAX_FILE_BYTES:
        raise ServerError(f"it has more than {MAX_FILE_BYTES:,} bytes")
    try:
        content = json.loads(data)
    except RecursionError as error:
        raise ServerError(str(error)) from error
    except ValueError as error:
        where = f" (line {error.lineno})" if isinstance(error, json.JSONDecodeError) else ""
        raise ServerError(f"it is no JSON{where}") from error
    if not isinstance(content, dict) or "mcpServers" not in content:
        raise ServerError("it has no `mcpServers`")
    return cast("dict[str, object]", content)["mcpServers"]


def _entries(named: Named, folder: Path) -> tuple[list[Server], set[str], list[str]]:
    """The servers, the names of those that are disabled, and what is malformed."""
    entries, where = named.servers, named.where
    if not isinstance(entries, Mapping):
        return [], set(), [f"{where}: the servers must be an object of names, not {_kind(entries)}"]
    servers: list[Server] = []
    disabled: set[str] = set()
    problems: list[str] = []
    for name, entry in cast("Mapping[str, object]", entries).items():
        try:
            if not _NAME.fullmatch(name):
                raise ServerError("a name has up to 64 letters, digits, spaces and `_-.@/`")
            values = _object(entry, "it")
            if values.get("disabled") is True or values.get("enabled") is False:
                disabled.add(name)
            else:
                servers.append(_server(name, values, named.source, folder))
        except ServerError as error:
            problems.append(f"{where}: the tool server {name[:64]!r} is left out: {error}")
    return servers, disabled, problems


def _server(name: str, values: Mapping[str, Any], source: Source, folder: Path) -> Server:
    kind = values.get("type", values.get("transport"))
    if kind not in (None, "stdio", "http", "streamable-http", "streamableHttp", "sse"):
        raise ServerError(f"`type` is {kind!r}; there are `stdio`, `http` and `sse`")
    if "command" in values and "url" in values:
        raise ServerError("it has a `command` and a `url`; which one is meant?")
    if "command" in values:
        command = _within(_text(values["command"], "command"), folder)
        if not command:
            raise ServerError("`command` is empty")
        return StdioServer(
            name=name,
            source=source,
            folder=folder,
            command=command,
            args=tuple(_within(arg, folder) for arg in _texts(values.get("args", []), "args")),
            env={
                key: _within(value, folder)
                for key, value in _named(values.get("env", {}), "env", _VARIABLE).items()
            },
            cwd=_within(_text(values.get("cwd", ""), "cwd"), folder),
        )
    if "url" not in values:
        raise ServerError("it needs a `command` or a `url`")
    return HttpServer(
        name=name,
        source=source,
        url=_url(_text(values["url"], "url")),
        headers=_headers(values),
        kind="sse" if kind == "sse" else "http",
    )


def _url(url: str) -> str:
    try:
        parts = urlsplit(url)
        is_url = parts.scheme in ("http", "https") and bool(parts.hostname)
    except ValueError:
        is_url = False
    if not is_url and not _REFERENCE.match(url):
        raise ServerError("`url` must begin with http:// or https:// and a host")
    return url


def _headers(values: Mapping[str, Any]) -> dict[str, str]:
    headers = _named(values.get("headers", {}), "headers", _HEADER)
    for header, variable in _named(values.get("headersEnv", {}), "headersEnv", _HEADER).items():
        if not _VARIABLE.fullmatch(variable):
            raise ServerError(f"headersEnv.{header} must be the name of an environment variable")
        headers[header] = f"${{env:{variable}}}"
    return headers


def expand(text: str, environ: Mapping[str, str]) -> str:
    """The text with `${env:NAME}` (also `${NAME}`, `${NAME:-default}`) replaced.

    Raises: ServerError if a variable is not set, or a reference is of another kind.
    """

    def value(match: re.Match[str]) -> str:
        name = match["name"]
        if name in environ:
            return environ[name]
        if match["default"] is None:
            raise ServerError(f"the environment variable {name} is not set")
        return match["default"]

    _known_only(text)
    return _REFERENCE.sub(value, text)


def referred(text: str) -> list[str]:
    """The names of the environment variables that a text refers to."""
    return [match["name"] for match in _REFERENCE.finditer(text)]


def _known_only(text: str) -> str:
    """Raises: ServerError."""
    rest = _REFERENCE.sub("", text)
    if (begin := rest.find("${")) >= 0:
        raise ServerError(f"{rest[begin : begin + 40]!r} is not understood; write ${{env:NAME}}")
    return text


def _within(text: str, folder: Path) -> str:
    return _known_only(text.replace(_FOLDER, str(folder)))


def _object(value: object, name: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise ServerError(f"{name} must be an object, not {_kind(value)}")
    return cast("Mapping[str, Any]", value)


def _named(value: object, name: str, keys: re.Pattern[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for key, text in _object(value, f"`{name}`").items():
        if not keys.fullmatch(key):
            raise ServerError(f"`{name}` has the name {key[:64]!r}, which is none")
        found[key] = _known_only(_text(text, f"{name}.{key}"))
    return found


def _texts(value: object, name: str) -> list[str]:
    if not isinstance(value, (list, tuple)):
        raise ServerError(f"`{name}` must be a list of strings, not {_kind(value)}")
    return [_text(each, name) for each in cast("Sequence[object]", value)]


def _text(value: object, name: str) -> str:
    if not isinstance(value, str):
        raise ServerError(f"`{name}` must be a string, not {_kind(value)}")
    if any(character in value for character in "\0\r\n"):
        raise ServerError(f"`{name}` holds a line break or a zero byte")
    return value


def _kind(value: object) -> str:
    return "nothing" if value is None else type(value).__name__

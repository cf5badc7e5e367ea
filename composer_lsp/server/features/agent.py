"""The agent's commands: ask, plan, edit and the like, and what happens to what they changed."""

from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, cast

from lsprotocol import types
from pygls.exceptions import JsonRpcException, JsonRpcInvalidParams

from composer_lsp.server.server import ComposerServer
from composer_lsp.server.window_index import local_path

if TYPE_CHECKING:
    from composer_lsp.agent.events import Event
    from composer_lsp.agent.prompt.system import Mode, Request
    from composer_lsp.agent.workspace.workspace import Selection

JsonObject = dict[str, Any]

_MODES: "Mapping[str, tuple[Mode, str]]" = {
    "composer.ask": ("ask", ""),
    "composer.explain": ("ask", "Explain this code."),
    "composer.plan": ("plan", ""),
    "composer.edit": ("edit", ""),
    "composer.fix": ("fix", "Fix the problems here."),
    "composer.test": ("test", "Write tests for this code."),
}
"""Each with its mode, and the request where none is given."""


def register(server: ComposerServer) -> None:
    for name, (mode, request) in _MODES.items():
        server.command(name)(_starter(name, mode, request))
    for name, command in {
        "composer.stop": stop,
        "composer.accept": accept,
        "composer.reject": reject,
        "composer.undo": undo,
        "composer.runs": runs,
    }.items():
        server.command(name)(command)


def _starter(name: str, mode: "Mode", default: str) -> Callable[..., Awaitable[JsonObject]]:
    async def start(ls: ComposerServer, *arguments: Any) -> JsonObject:
        """Arguments: the request, and optionally `{"uri", "range", "token"}`: the document and the
        selection that it is about, and a token for what comes meanwhile (`$/progress`). Answers when
        the run has ended, with its text and its pending changes; cancelling the request stops it."""
        text = arguments[0] if arguments and arguments[0] is not None else default
        if not isinstance(text, str) or not text.strip():
            raise JsonRpcInvalidParams(f"{name} takes a request in words, not {text!r}")
        given = arguments[1] if len(arguments) > 1 else None
        if given is not None and not isinstance(given, Mapping):
            raise JsonRpcInvalidParams(f"{name} takes an object, not {given!r}")
        options = cast("Mapping[str, Any]", given or {})
        service = await ls.session.agent_runs()
        with _refusals():
            request = _request(ls, mode, text, options)
            token = options.get("token")
            run = await service.run(request, lambda id, event: _tell(ls, token, id, event))
            return dict(service.described(run.id))

    return start


async def stop(ls: ComposerServer, *arguments: Any) -> JsonObject:
    """Arguments: a run, or none for all that are running."""
    id = _text("composer.stop", arguments, 0)
    service = await ls.session.agent_runs()
    with _refusals():
        return {"stopped": service.stop(id)}


async def accept(ls: ComposerServer, *arguments: Any) -> JsonObject:
    """Arguments: a run; optionally a path of it, and a list of the file's hunks by their numbers.
    Applies them; they are pending no more."""
    id, path, hunks = _choice("composer.accept", arguments)
    service = await ls.session.agent_runs()
    with _refusals():
        await service.accept(id, path, hunks)
        return dict(service.described(id))


async def reject(ls: ComposerServer, *arguments: Any) -> JsonObject:
    """Arguments as those of `composer.accept`. Forgets them; no file is touched."""
    id, path, hunks = _choice("composer.reject", arguments)
    service = await ls.session.agent_runs()
    with _refusals():
        service.reject(id, path, hunks)
        return dict(service.described(id))


async def undo(ls: ComposerServer, *arguments: Any) -> JsonObject:
    """Take back what was accepted last, in this window or an earlier one."""
    service = await ls.session.agent_runs()
    with _refusals():
        return {"undone": await service.undo()}


async def runs(ls: ComposerServer, *arguments: Any) -> JsonObject:
    """The runs of this window, the newest first, with what is pending of each."""
    service = await ls.session.agent_runs()
    return {"runs": [dict(service.described(id)) for id in service.ids]}


def _tell(ls: ComposerServer, token: Any, id: str, event: "Event") -> None:
    kind = type(event).__name__.removesuffix("Event").lower()
    value = {"run": id, "kind": kind, **_camel_cased(asdict(event))}
    ls.session.editor.send_agent_event(value)
    if token is not None:
        ls.session.editor.send_partial(token, value)


def _camel_cased(fields: Mapping[str, Any]) -> JsonObject:
    from composer_lsp.server.settings import camel_case

    return {camel_case(name): value for name, value in fields.items()}


def _request(ls: ComposerServer, mode: "Mode", text: str, options: Mapping[str, Any]) -> "Request":
    from composer_lsp.agent.prompt.system import Request

    paths = _paths(ls)
    active = _shown_path(paths, options.get("uri"))
    documents = ls.session.documents.text_documents
    open_paths = [path for uri in documents if (path := _shown_path(paths, uri))]
    return Request(
        mode=mode,
        text=text,
        active_path=active,
        open_paths=open_paths,
        selection=_selection(ls, active, options),
    )


def _selection(ls: ComposerServer, path: str, options: Mapping[str, Any]) -> "Selection | None":
    from composer_lsp.agent.workspace.workspace import Selection

    chosen = options.get("range")
    if chosen is None or not path:
        return None
    try:
        start, end = (
            types.Position(int(chosen[name]["line"]), int(chosen[name]["character"]))
            for name in ("start", "end")
        )
    except (KeyError, TypeError, ValueError) as error:
        raise JsonRpcInvalidParams(f"range is an LSP range, not {chosen!r}") from error
    document = ls.document(str(options["uri"]))
    first, last = sorted((document.buffer.offset_at(start), document.buffer.offset_at(end)))
    if first == last:
        return None
    return Selection(
        path=path,
        start_line=min(start.line, end.line) + 1,
        end_line=max(start.line, end.line) + 1,
        text=document.buffer.valid_text[first:last],
    )


def _paths(ls: ComposerServer) -> Any:
    from pathlib import Path

    from composer_lsp.agent.workspace.paths import Paths

    return Paths([Path(root) for root in ls.session.index.index_roots()])


def _shown_path(paths: Any, uri: object) -> str:
    """The workspace's path of a document; empty for what is none of its files, or hidden."""
    path = local_path(uri) if isinstance(uri, str) else None
    place = None if path is None else paths.of_absolute(path)
    return "" if place is None or paths.hidden_among([place]) else place.path


def _choice(name: str, arguments: Sequence[Any]) -> tuple[str, str | None, frozenset[int] | None]:
    id, path = _text(name, arguments, 0), _text(name, arguments, 1)
    if id is None:
        raise JsonRpcInvalidParams(f"{name} takes a run; composer.runs lists them")
    given = arguments[2] if len(arguments) > 2 else None
    if given is None:
        return id, path, None
    hunks = cast("list[Any]", given) if isinstance(given, list) else None
    if path is None or hunks is None or not all(type(each) is int for each in hunks):
        raise JsonRpcInvalidParams(f"{name} takes a path and a list of numbers, not {given!r}")
    return id, path, frozenset(hunks)


def _text(name: str, arguments: Sequence[Any], position: int) -> str | None:
    value = arguments[position] if len(arguments) > position else None
    if value is not None and not isinstance(value, str):
        raise JsonRpcInvalidParams(f"{name} takes text, not {value!r}")
    return value


@contextmanager
def _refusals() -> Generator[None, None, None]:
    """What cannot be done, as an answer that says why."""
    from composer_inference.endpoint import EndpointError
    from composer_lsp.agent.checkpoints import CheckpointError
    from composer_lsp.agent.workspace.workspace import WorkspaceError
    from composer_lsp.engine.errors import EngineError
    from composer_lsp.server.agent.runs import RunError

    try:
        yield
    except (RunError, CheckpointError, WorkspaceError, EngineError, EndpointError) as error:
        raise JsonRpcException(str(error), code=types.LSPErrorCodes.RequestFailed) from error

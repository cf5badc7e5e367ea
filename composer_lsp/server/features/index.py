"""The workspace's index: commands, `workspace/symbol`, and the end of its progress bar."""

from pathlib import Path
from typing import Any, cast

from lsprotocol import types
from pygls.exceptions import JsonRpcException, JsonRpcInvalidParams

from composer_lsp.index.client import WorkerError
from composer_lsp.server.server import ComposerServer

_KINDS = {
    "class": types.SymbolKind.Class,
    "interface": types.SymbolKind.Interface,
    "enum": types.SymbolKind.Enum,
    "type": types.SymbolKind.TypeParameter,
    "function": types.SymbolKind.Function,
    "method": types.SymbolKind.Method,
    "macro": types.SymbolKind.Constant,
    "module": types.SymbolKind.Module,
    "constant": types.SymbolKind.Constant,
    "variable": types.SymbolKind.Variable,
    "field": types.SymbolKind.Field,
    "heading": types.SymbolKind.String,
    "table": types.SymbolKind.Struct,
}
_MAX_RESULTS = 100

JsonObject = dict[str, Any]


def register(server: ComposerServer) -> None:
    for name, command in {
        "composer.index.search": search,
        "composer.index.status": status,
        "composer.index.rebuild": rebuild,
        "composer.index.pause": pause,
        "composer.index.reconcile": reconcile,
    }.items():
        server.command(name)(command)
    server.feature(types.WORKSPACE_SYMBOL)(workspace_symbol)
    server.feature(types.WINDOW_WORK_DONE_PROGRESS_CANCEL)(work_done_progress_cancel)


async def search(ls: ComposerServer, *arguments: Any) -> JsonObject:
    """Arguments: the query, and optionally `{"limit", "glob", "language"}`. The answer's `results`
    are the best first; `states` says of each folder whether it is `cold`, `building` or `ready`."""
    query = arguments[0] if arguments else None
    options: Any = arguments[1] if len(arguments) > 1 and arguments[1] is not None else {}
    if not isinstance(query, str) or not query.strip():
        raise JsonRpcInvalidParams(f"composer.index.search takes a query, not {query!r}")
    if not isinstance(options, dict):
        raise JsonRpcInvalidParams(f"composer.index.search takes an object, not {options!r}")
    options = cast("JsonObject", options)
    limit = options.get("limit", 10)
    if type(limit) is not int or not 1 <= limit <= _MAX_RESULTS:  # A bool is an int as well.
        raise JsonRpcInvalidParams(f"limit is a number from 1 to {_MAX_RESULTS}, not {limit!r}")
    glob, language = _text(options, "glob"), _text(options, "language")
    try:
        found = await ls.session.index.service.search(
            query, limit=limit, glob=glob, language=language
        )
    except WorkerError as error:
        raise _failed(error) from error
    return dict(found)


async def status(ls: ComposerServer, *arguments: Any) -> list[Any]:
    """Of each folder: its state, how many files are indexed, waiting and skipped, and where the
    index lies."""
    try:
        return list(await ls.session.index.service.status())
    except WorkerError as error:
        raise _failed(error) from error


async def rebuild(ls: ComposerServer, *arguments: Any) -> None:
    """Forget everything and index anew; search goes on from text meanwhile."""
    try:
        await ls.session.index.service.rebuild()
    except WorkerError as error:
        raise _failed(error) from error


def pause(ls: ComposerServer, *arguments: Any) -> JsonObject:
    """Arguments: true or false; without one it changes from one to the other."""
    index = ls.session.index
    wanted = arguments[0] if arguments else None
    if wanted is not None and not isinstance(wanted, bool):
        raise JsonRpcInvalidParams(f"composer.index.pause takes true or false, not {wanted!r}")
    index.pause(paused=not index.service.is_paused if wanted is None else wanted)
    return {"paused": index.service.is_paused}


def reconcile(ls: ComposerServer, *arguments: Any) -> None:
    """Compare all files with the index: for clients whose window was away."""
    ls.session.index.service.reconcile()


async def workspace_symbol(
    ls: ComposerServer, params: types.WorkspaceSymbolParams
) -> list[types.WorkspaceSymbol]:
    settings = ls.session.settings.index
    if not settings.enabled or not settings.workspace_symbols or not ls.session.index.index_roots():
        return []
    try:
        found = await ls.session.index.service.symbols(params.query, limit=_MAX_RESULTS)
    except WorkerError as error:
        raise _failed(error) from error
    return [
        types.WorkspaceSymbol(
            name=each["name"],
            kind=_KINDS[each["kind"]],
            container_name=each["symbol"].removesuffix(each["name"]).rstrip(".:#") or None,
            location=types.Location(
                uri=Path(each["root"], each["path"]).as_uri(),
                range=types.Range(
                    types.Position(each["start_line"] - 1, 0), types.Position(each["end_line"], 0)
                ),
            ),
        )
        for each in found
    ]


def work_done_progress_cancel(
    ls: ComposerServer, params: types.WorkDoneProgressCancelParams
) -> None:
    ls.session.editor.on_progress_cancelled(params.token)


def _text(options: JsonObject, name: str) -> str | None:
    value = options.get(name)
    if value is not None and not isinstance(value, str):
        raise JsonRpcInvalidParams(f"{name} is a string, not {value!r}")
    return value or None


def _failed(error: WorkerError) -> JsonRpcException:
    return JsonRpcException(str(error), code=types.LSPErrorCodes.RequestFailed)

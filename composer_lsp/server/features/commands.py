"""workspace/executeCommand: what a user can ask of Composer from any editor."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

from lsprotocol import types
from pygls.exceptions import JsonRpcException, JsonRpcInvalidParams

from composer_lsp.completion.copies import Copy
from composer_lsp.completion.request import CompletionRequest
from composer_lsp.server.agent.arguments import flag, read_options, selected_lines
from composer_lsp.server.documents import Document
from composer_lsp.server.features.suggestions import counts
from composer_lsp.server.logs import log_path
from composer_lsp.server.model_fetch import ModelFetchError
from composer_lsp.server.server import ComposerServer
from composer_lsp.server.service import ServiceError
from composer_lsp.server.switches import LANGUAGE_SCOPE

_SNOOZE_MINUTES = 5.0
_MAX_SNOOZE_MINUTES = 24 * 60.0

JsonObject = dict[str, Any]


def register(server: ComposerServer) -> None:
    commands: dict[str, Callable[..., Any]] = {
        "composer.status": status,
        "composer.prepare": prepare,
        "composer.copied": copied,
        "composer.snooze": snooze,
        "composer.toggle": toggle,
        "composer.restartEngine": restart_engine,
        "composer.pullModel": pull_model,
        "composer.showLog": show_log,
    }
    for name, command in commands.items():
        server.command(name)(command)


async def status(ls: ComposerServer, *arguments: Any) -> JsonObject:
    """What `composer/status` says, for clients that ask instead of listening, and where the last
    suggestion's time went: milliseconds of each stage, and numbers of tokens; how many suggestions of this
    window were shown and accepted, and what became of its next edits. Arguments: optionally
    `{"agent": true}`, for what the agent does and has."""
    status = ls.session.board.current.as_json()
    if (last := ls.session.last_suggestion) is not None:
        timings = {name: round(ms, 1) for name, ms in last.timings.items()}
        status["lastCompletion"] = timings | dict(last.tokens)
    if any(ls.session.next_edits.counts.values()):
        status["nextEdits"] = dict(ls.session.next_edits.counts)
    status["suggestions"] = counts(ls)
    options: Any = arguments[0] if arguments and arguments[0] is not None else {}
    if not isinstance(options, Mapping):
        raise JsonRpcInvalidParams(f"composer.status takes an object, not {options!r}")
    if flag(cast("Mapping[str, Any]", options), "agent"):
        await ls.session.agent_runs()
        from composer_lsp.server.agent.status import agent_status

        status["agent"] = await agent_status(ls.session)
    return status


async def prepare(ls: ComposerServer, *arguments: Any) -> JsonObject:
    """The user opened a document or rests in it: what the next keystroke's suggestion needs is computed
    in the background, other files' text included. Arguments: `{"uri", "range"}`, at whose end the cursor
    is. Answered when that is done, with `{"prepared": false}` where there are no suggestions."""
    document, place = _place(ls, "composer.prepare", arguments)
    request = CompletionRequest(
        document=document.snapshot(), offset=document.buffer.offset_at(place.end)
    )
    return {"prepared": await ls.session.prepare(request)}


def copied(ls: ComposerServer, *arguments: Any) -> JsonObject:
    """The user copied a piece of an open document, which suggestions elsewhere may then take up.
    Arguments: `{"uri", "range"}`. Answered with `{"kept": false}` where it is too short or too long."""
    document, place = _place(ls, "composer.copied", arguments)
    first_line, _, text = selected_lines(document, place)
    copy = Copy(
        uri=document.uri, language_id=document.language_id or "", first_line=first_line, text=text
    )
    return {"kept": ls.session.copies.add(copy)}


def _place(ls: ComposerServer, name: str, arguments: Sequence[Any]) -> tuple[Document, types.Range]:
    """Raises: JsonRpcInvalidParams."""
    options = read_options(name, arguments, 0)
    if options.uri is None or options.range is None:
        raise JsonRpcInvalidParams(f'{name} takes {{"uri": …, "range": …}} of an open document')
    return ls.document(options.uri), options.range


def snooze(ls: ComposerServer, *arguments: Any) -> JsonObject:
    """Arguments: minutes without automatic suggestions, 5 by default; 0 ends the pause."""
    minutes = arguments[0] if arguments and arguments[0] is not None else _SNOOZE_MINUTES
    if isinstance(minutes, bool) or not isinstance(minutes, int | float):
        raise JsonRpcInvalidParams(f"composer.snooze takes a number of minutes, not {minutes!r}")
    if not 0 <= minutes <= _MAX_SNOOZE_MINUTES:
        raise JsonRpcInvalidParams(
            f"composer.snooze takes 0 to {_MAX_SNOOZE_MINUTES:.0f} minutes, not {minutes}"
        )
    ls.session.switches.snooze(minutes)
    return ls.session.board.current.as_json()


def toggle(ls: ComposerServer, *arguments: Any) -> JsonObject:
    """Arguments: `global` (the default) or `language:ID`."""
    scope = arguments[0] if arguments and arguments[0] is not None else "global"
    language = scope.removeprefix(LANGUAGE_SCOPE) if isinstance(scope, str) else None
    if scope == "global":
        return {"enabled": ls.session.switches.toggle(None)}
    if not language or language == scope:
        raise JsonRpcInvalidParams(
            f'composer.toggle takes "global" or "{LANGUAGE_SCOPE}ID", not {scope!r}'
        )
    return {"enabled": ls.session.switches.toggle(language)}


async def restart_engine(ls: ComposerServer, *arguments: Any) -> JsonObject:
    """Replace the engine of this machine, for all windows; what runs there is finished."""
    try:
        await ls.session.restart_service()
    except ServiceError as error:
        raise JsonRpcException(str(error), code=types.LSPErrorCodes.RequestFailed) from error
    return ls.session.board.current.as_json()


async def pull_model(ls: ComposerServer, *arguments: Any) -> JsonObject:
    """Arguments: the model's name; by default the one that the settings choose."""
    name = arguments[0] if arguments else None
    if name is not None and not isinstance(name, str):
        raise JsonRpcInvalidParams(f"composer.pullModel takes a model's name, not {name!r}")
    try:
        path = await ls.session.pull_model(name)
    except ModelFetchError as error:
        raise JsonRpcException(str(error), code=types.LSPErrorCodes.RequestFailed) from error
    return {"path": path}


def show_log(ls: ComposerServer, *arguments: Any) -> JsonObject:
    """Where the log is; editors open it."""
    return {"path": str(log_path())}

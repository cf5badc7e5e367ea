"""Commands about suggestions that were shown: the user took one, and why it is what it is."""

from dataclasses import asdict
from typing import Any, cast

from lsprotocol import types
from pygls.exceptions import JsonRpcException, JsonRpcInvalidParams

from composer_inference.environment import state_dir
from composer_lsp.server.server import ComposerServer
from composer_lsp.server.shown import UnknownSuggestionError

JsonObject = dict[str, Any]

ACCEPTED = "composer.acceptedSuggestion"
_SAVED = "suggestion.json"


def register(server: ComposerServer) -> None:
    server.command(ACCEPTED)(accepted_suggestion)
    server.command("composer.explainSuggestion")(explain_suggestion)


async def accepted_suggestion(ls: ComposerServer, *arguments: Any) -> JsonObject:
    """Items carry this command, and clients run it when one was accepted. Arguments: the suggestion,
    and where only its beginning was taken, `{"acceptedLength": n}` (UTF-16 units so far). Answers with
    what was accepted in this window."""
    id, length = _arguments(arguments)
    try:
        if length is None:
            ls.session.accepted(id)
        else:
            ls.session.shown.accept_part(id)
    except UnknownSuggestionError as error:
        raise JsonRpcInvalidParams(f"{ACCEPTED}: {error}") from error
    return counts(ls)


async def explain_suggestion(ls: ComposerServer, *arguments: Any) -> JsonObject:
    """Why the last suggestion is what it is, or why none was shown: `markdown` for people, `explanation`
    with the same, and `path`, the file from which `composer-lsp complete --replay` tells it again."""
    answer = ls.session.last_answer
    if answer is None:
        raise JsonRpcException(
            "no suggestion to explain: the model was asked for none in this window yet",
            code=types.LSPErrorCodes.RequestFailed,
        )
    # Needed by few.
    from composer_lsp.completion.answer import save_answer
    from composer_lsp.completion.explanation import as_markdown, explained

    explanation = explained(answer)
    path = state_dir() / _SAVED
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        save_answer(answer, path)
    except OSError as error:
        raise JsonRpcException(
            f"the suggestion cannot be saved to {path}: {error.strerror}",
            code=types.LSPErrorCodes.RequestFailed,
        ) from error
    told = as_markdown(explanation, shown=ls.session.on_screen)
    return {
        "markdown": f"{told}\nAgain: `composer-lsp complete --replay {path}`\n",
        "explanation": explanation.as_json(),
        "path": str(path),
    }


def counts(ls: ComposerServer) -> JsonObject:
    """What `composer.status` says of suggestions."""
    shown = asdict(ls.session.shown.counts)
    return {
        "shown": shown["num_shown"],
        "accepted": shown["num_accepted"],
        "partlyAccepted": shown["num_partly_accepted"],
    }


def _arguments(arguments: tuple[Any, ...]) -> tuple[str, int | None]:
    id = arguments[0] if arguments else None
    if not isinstance(id, str):
        raise JsonRpcInvalidParams(f"{ACCEPTED} takes a suggestion's id, not {id!r}")
    options: Any = arguments[1] if len(arguments) > 1 and arguments[1] is not None else {}
    if not isinstance(options, dict):
        raise JsonRpcInvalidParams(f"{ACCEPTED} takes an object, not {options!r}")
    length: Any = cast("JsonObject", options).get("acceptedLength")
    if length is not None and (type(length) is not int or length < 1):
        raise JsonRpcInvalidParams(f"acceptedLength is a number from 1 on, not {length!r}")
    return id, length

"""What comes with the agent's commands, read and checked."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from lsprotocol import types
from pygls.exceptions import JsonRpcInvalidParams

from composer_lsp.server.agent.diagnostics import Known, known_from_json
from composer_lsp.server.documents import Document

_MAX_DIAGNOSTICS = 50


@dataclass(frozen=True, kw_only=True, slots=True)
class Options:
    """The object that comes with a request."""

    uri: str | None = None
    range: types.Range | None = None
    token: str | int | None = None
    """For partial results (`$/progress`)."""
    diagnostics: Sequence[Known] | None = None
    """None: those that are known of the document."""
    plan: str | None = None
    """A run whose plan is to be carried out."""
    continues: str | None = None
    """A run that has ended, and goes on with this request."""
    is_detached: bool = False
    """Answered when the run has begun; its end is shown by messages."""


def read_options(name: str, arguments: Sequence[Any], position: int = 1) -> Options:
    """Raises: JsonRpcInvalidParams."""
    given = arguments[position] if len(arguments) > position else None
    if given is None:
        return Options()
    if not isinstance(given, Mapping):
        raise JsonRpcInvalidParams(f"{name} takes an object, not {given!r}")
    fields = cast("Mapping[str, Any]", given)
    token = fields.get("token")
    if token is not None and (isinstance(token, bool) or not isinstance(token, str | int)):
        raise JsonRpcInvalidParams(f"token is a string or a number, not {token!r}")
    return Options(
        uri=_string(fields, "uri"),
        range=_range(fields.get("range")),
        token=token,
        diagnostics=_diagnostics(fields.get("diagnostics")),
        plan=_string(fields, "plan"),
        continues=_string(fields, "continue"),
        is_detached=flag(fields, "detached"),
    )


def text_at(name: str, arguments: Sequence[Any], position: int) -> str | None:
    """Raises: JsonRpcInvalidParams."""
    value = arguments[position] if len(arguments) > position else None
    if value is not None and not isinstance(value, str):
        raise JsonRpcInvalidParams(f"{name} takes text, not {value!r}")
    return value


def flag(fields: Mapping[str, Any], name: str) -> bool:
    """Raises: JsonRpcInvalidParams."""
    value = fields.get(name)
    if value is not None and not isinstance(value, bool):
        raise JsonRpcInvalidParams(f"{name} is true or false, not {value!r}")
    return bool(value)


def selected_lines(document: Document, chosen: types.Range) -> tuple[int, int, str]:
    """The lines of a range (1-based, both included), and the text in it, which may be empty. A line
    at whose beginning the range ends is none of them."""
    start, end = sorted((chosen.start, chosen.end), key=lambda each: (each.line, each.character))
    first, last = document.buffer.offset_at(start), document.buffer.offset_at(end)
    last_line = end.line - (end.character == 0 and end.line > start.line)
    return start.line + 1, last_line + 1, document.buffer.valid_text[first:last]


def _string(fields: Mapping[str, Any], name: str) -> str | None:
    value = fields.get(name)
    if value is not None and not isinstance(value, str):
        raise JsonRpcInvalidParams(f"{name} is a string, not {value!r}")
    return value


def _range(chosen: Any) -> types.Range | None:
    if chosen is None:
        return None
    try:
        start, end = (
            types.Position(int(chosen[name]["line"]), int(chosen[name]["character"]))
            for name in ("start", "end")
        )
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise JsonRpcInvalidParams(f"range is an LSP range, not {chosen!r}") from error
    if min(start.line, start.character, end.line, end.character) < 0:
        raise JsonRpcInvalidParams(f"range is an LSP range, not {chosen!r}")
    return types.Range(start, end)


def _diagnostics(given: Any) -> Sequence[Known] | None:
    if given is None:
        return None
    if not isinstance(given, list):
        raise JsonRpcInvalidParams(f"diagnostics is a list, not {given!r}")
    try:
        return known_from_json(cast("list[object]", given)[:_MAX_DIAGNOSTICS])
    except ValueError as error:
        raise JsonRpcInvalidParams(str(error)) from error

"""The next edit: `composer/nextEdit`, and `textDocument/copilotInlineEdit` as other plugins ask for it.

Both name the version of the document that they are about. An answer for another version is empty, and
so is one that came too late, so that nothing is drawn where it does not belong.
"""

from collections.abc import Mapping, Sequence
from typing import Any, cast

from lsprotocol import types
from pygls.exceptions import JsonRpcInvalidParams

from composer_lsp.server.agent.diagnostics import Known, known_from_json
from composer_lsp.server.documents import Document, TextBuffer
from composer_lsp.server.latest import SupersededError
from composer_lsp.server.next_edit import Given, Request
from composer_lsp.server.server import ComposerServer

NEXT_EDIT = "composer/nextEdit"
COPILOT_INLINE_EDIT = "textDocument/copilotInlineEdit"
DID_SHOW_INLINE_EDIT = "textDocument/didShowInlineEdit"
ACCEPTED = "composer.nextEdit.accepted"
DISMISSED = "composer.nextEdit.dismissed"
_INVOKED = 1
_MAX_NUMBER = (1 << 31) - 1
"""LSP's, of a `uinteger`."""

JsonObject = dict[str, Any]


def register(server: ComposerServer) -> None:
    server.feature(NEXT_EDIT)(next_edit)
    server.feature(COPILOT_INLINE_EDIT)(copilot_inline_edit)
    server.feature(DID_SHOW_INLINE_EDIT)(did_show_inline_edit)
    server.command(ACCEPTED)(accepted)
    server.command(DISMISSED)(dismissed)


async def next_edit(ls: ComposerServer, params: object) -> JsonObject | None:
    """Params: `textDocument` with `uri` and `version`, `position`, and optionally `context` with
    `triggerKind` and `diagnostics`."""
    given = await _find(ls, params, in_document_only=False)
    if given is None:
        return None
    proposal = given.proposal
    span = _range(ls, given)
    return {
        "id": given.id,
        "kind": proposal.kind,
        "title": proposal.title,
        "textDocument": {"uri": proposal.document.uri, "version": given.version},
        "range": span,
        "oldText": proposal.old_text,
        "newText": proposal.text,
        "command": _command(given),
    }


async def copilot_inline_edit(ls: ComposerServer, params: object) -> JsonObject:
    """As copilot-language-server answers it: the edit in the document, if there is one."""
    given = await _find(ls, params, in_document_only=True)
    if given is None:
        return {"edits": []}
    edit = {
        "text": given.proposal.text,
        "range": _range(ls, given),
        "command": _command(given),
        "textDocument": {"uri": given.proposal.document.uri, "version": given.version},
    }
    return {"edits": [edit]}


def did_show_inline_edit(ls: ComposerServer, params: object) -> None:
    """Params: `item`, an edit as it was answered, or the `command` of one."""
    command = _object(_object(_object(params).get("item")).get("command"))
    arguments: object = command.get("arguments")
    if isinstance(arguments, list) and arguments:
        ls.session.next_edits.on_shown(str(cast("list[object]", arguments)[0]))


def accepted(ls: ComposerServer, *arguments: Any) -> JsonObject:
    """Arguments: the id of a next edit that the user took."""
    return {"known": ls.session.next_edits.on_accepted(_id(ACCEPTED, arguments))}


def dismissed(ls: ComposerServer, *arguments: Any) -> JsonObject:
    """Arguments: the id of a next edit that the user does not want, nor others of its change."""
    return {"known": ls.session.next_edits.on_dismissed(_id(DISMISSED, arguments))}


async def _find(ls: ComposerServer, params: object, *, in_document_only: bool) -> Given | None:
    fields = _object(params)
    document, version = _document(ls, fields)
    if version is not None and version != document.version:
        return None
    context = _object(fields.get("context"))
    request = Request(
        document=document.snapshot(),
        offset=document.buffer.offset_at(_position(fields)),
        is_invoked=context.get("triggerKind") == _INVOKED,
        in_document_only=in_document_only,
        diagnostics=_diagnostics(context),
    )
    try:
        return await ls.session.next_edits.find(request)
    except SupersededError:
        return None


def _document(ls: ComposerServer, fields: Mapping[str, Any]) -> tuple[Document, int | None]:
    identifier = _object(fields.get("textDocument"))
    uri, version = identifier.get("uri"), identifier.get("version")
    if not isinstance(uri, str):
        raise JsonRpcInvalidParams("textDocument.uri is missing")
    if version is not None and not isinstance(version, int):
        raise JsonRpcInvalidParams(f"textDocument.version is a number, not {version!r}")
    return ls.document(uri), version


def _position(fields: Mapping[str, Any]) -> types.Position:
    position = _object(fields.get("position"))
    line, character = position.get("line"), position.get("character")
    if not isinstance(line, int) or not isinstance(character, int) or min(line, character) < 0:
        raise JsonRpcInvalidParams("position has a line and a character, numbers from 0 on")
    return types.Position(min(line, _MAX_NUMBER), min(character, _MAX_NUMBER))


def _diagnostics(context: Mapping[str, Any]) -> Sequence[Known]:
    sent: object = context.get("diagnostics") or []
    if not isinstance(sent, list):
        raise JsonRpcInvalidParams("context.diagnostics is a list")
    try:
        return known_from_json(cast("list[object]", sent))
    except ValueError as error:
        raise JsonRpcInvalidParams(str(error)) from None


def _range(ls: ComposerServer, given: Given) -> JsonObject:
    document = given.proposal.document
    opened = ls.protocol.workspace.find(document.uri)
    encoding = ls.protocol.workspace.encoding
    # Offsets are of the snapshot, whose lone surrogates are other characters, one for one.
    buffer = opened.buffer if opened is not None else TextBuffer(document.text, encoding)
    return {
        "start": _json(buffer.position_at(given.proposal.start)),
        "end": _json(buffer.position_at(given.proposal.end)),
    }


def _json(position: types.Position) -> JsonObject:
    return {"line": position.line, "character": position.character}


def _command(given: Given) -> JsonObject:
    return {"title": given.proposal.title, "command": ACCEPTED, "arguments": [given.id]}


def _id(command: str, arguments: tuple[Any, ...]) -> str:
    if len(arguments) != 1 or not isinstance(arguments[0], str):
        raise JsonRpcInvalidParams(f"{command} takes the id of a next edit, not {arguments!r}")
    return arguments[0]


def _object(value: object) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else {}

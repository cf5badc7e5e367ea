"""The request of a run, from what a command says and what the window knows."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pygls.exceptions import JsonRpcInvalidParams

from composer_lsp.agent.prompt.system import Mode, Request
from composer_lsp.agent.workspace.paths import Paths
from composer_lsp.agent.workspace.workspace import Diagnostic, Selection
from composer_lsp.server.agent.arguments import Options, selected_lines
from composer_lsp.server.agent.workspace import diagnostic_at
from composer_lsp.server.documents import Document
from composer_lsp.server.session import Session
from composer_lsp.server.window_index import local_path


@dataclass(frozen=True, kw_only=True, slots=True)
class _Place:
    path: str
    """The workspace's; empty for what is none of its files, or hidden."""
    document: Document | None


async def make_request(
    session: Session, mode: Mode, text: str, options: Options, plan: tuple[str, ...] = ()
) -> Request:
    """Raises: JsonRpcInvalidParams for a range of a document that is not open."""
    shown = await _shown_paths(session, options.uri)
    place = _Place(path="", document=None)
    if options.uri is not None:
        document = session.documents.find(options.uri)
        place = _Place(path=shown.get(options.uri, ""), document=document)
    open_paths = [path for uri, path in shown.items() if session.documents.find(uri) is not None]
    selection = _selection(place, options)
    if options.range is not None and selection is None and place.path:
        text += f"\n(The cursor is at {place.path}:{options.range.start.line + 1}.)"
    return Request(
        mode=mode,
        text=text,
        active_path=place.path,
        open_paths=open_paths,
        selection=selection,
        diagnostics=_diagnostics(session, place, options),
        plan=plan,
    )


async def rewrite_request(session: Session, text: str, options: Options) -> Request:
    """Of a selection that is rewritten; where nothing is selected, it is the cursor's line.

    Raises: JsonRpcInvalidParams.
    """
    if options.uri is None or options.range is None:
        raise JsonRpcInvalidParams("composer.editSelection takes a uri and a range")
    request = await make_request(session, "edit", text, options)
    document = session.documents.find(options.uri)
    if not request.active_path or document is None:
        raise JsonRpcInvalidParams(
            f"{options.uri} is no file of this window that the agent may see"
        )
    start, end, selected = selected_lines(document, options.range)
    selection = Selection(path=request.active_path, start_line=start, end_line=end, text=selected)
    return Request(
        mode="edit",
        text=text,
        active_path=request.active_path,
        selection=selection,
        diagnostics=request.diagnostics,
    )


def _selection(place: _Place, options: Options) -> Selection | None:
    if options.range is None or not place.path:
        return None
    if place.document is None:
        raise JsonRpcInvalidParams(f"{options.uri} is not open; send textDocument/didOpen first")
    start, end, text = selected_lines(place.document, options.range)
    if not text:
        return None
    return Selection(path=place.path, start_line=start, end_line=end, text=text)


def _diagnostics(session: Session, place: _Place, options: Options) -> list[Diagnostic]:
    """Those that came with the command, or what is known of the document."""
    if not place.path:
        return []
    known = options.diagnostics
    if known is None and place.document is not None:
        known = session.diagnostics.of(place.document.uri, place.document.version or 0)
    return [diagnostic_at(place.path, each) for each in known or ()]


async def _shown_paths(session: Session, uri: str | None) -> dict[str, str]:
    """The workspace's path of each document that may be seen: the open ones, the last used first, and
    this one."""
    roots, secret = session.index.index_roots(), session.settings.index.include_secret
    uris = dict.fromkeys(
        [document.uri for document in session.documents.recent] + ([uri] if uri is not None else [])
    )
    files = {each: path for each in uris if (path := local_path(each)) is not None}
    return await asyncio.to_thread(_not_hidden, roots, secret, files)


def _not_hidden(
    roots: Sequence[str], secret: tuple[str, ...], files: dict[str, str]
) -> dict[str, str]:
    paths = Paths([Path(root) for root in roots], secret)
    places = {uri: place for uri, path in files.items() if (place := paths.of_absolute(path))}
    hidden = paths.hidden_among(places.values())
    return {uri: place.path for uri, place in places.items() if place not in hidden}

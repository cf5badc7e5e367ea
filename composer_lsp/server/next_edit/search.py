"""One search for the next edit. Only `imports.import_next_edit` imports this module."""

from collections.abc import Collection
from dataclasses import replace

from lsprotocol.types import DiagnosticSeverity

from composer_lsp.completion.filters import wants_suggestion
from composer_lsp.next_edit.finder import next_edit
from composer_lsp.next_edit.proposal import Diagnostic, Proposal, Situation
from composer_lsp.server.agent.diagnostics import Known
from composer_lsp.server.next_edit.next_edits import Request
from composer_lsp.server.next_edit.other_files import NO_OTHERS, WorkspaceFiles
from composer_lsp.server.service import ServiceError
from composer_lsp.server.session import Session

_MAX_EDITS = 64


async def search(
    session: Session, request: Request, dismissed: Collection[tuple[str, ...]]
) -> Proposal | None:
    """The next edit by what the window knows now."""
    document = request.document
    if not session.may_show(document.uri, document.language_id) or not _is_wanted(session, request):
        return None
    edits = [edit for edit in session.edits.recent(_MAX_EDITS) if edit.is_open]
    snapshots = {document.uri: document}
    for edit in edits:
        if edit.uri not in snapshots and (other := session.documents.find(edit.uri)) is not None:
            snapshots[edit.uri] = other.snapshot()
    known = request.diagnostics or session.diagnostics.of(document.uri, document.version)
    situation = Situation(
        document=document,
        offset=request.offset,
        edits=[edit for edit in edits if edit.uri in snapshots],
        snapshots=snapshots,
        diagnostics=[*map(_diagnostic, known)],
    )
    edited = frozenset(edit.uri for edit in situation.edits)
    others = NO_OTHERS if request.in_document_only else WorkspaceFiles(session, edited)
    try:
        return await next_edit(situation, others, session, dismissed)
    except ServiceError as error:
        session.on_service_error(error)
        return None


def _is_wanted(session: Session, request: Request) -> bool:
    settings = session.settings
    tab = replace(settings.tab, enabled=settings.tab.enabled and settings.next_edit.enabled)
    trigger = "invoked" if request.is_invoked else "automatic"
    return wants_suggestion(request.document, trigger, tab, session.index.index_roots())


def _diagnostic(known: Known) -> Diagnostic:
    is_error = known.severity == DiagnosticSeverity.Error
    return Diagnostic(line=known.start_line, message=known.message, is_error=is_error)

"""Document and notebook synchronisation: `DocumentStore` keeps the texts, a change ends the request
that it makes pointless, and the index hears of unsaved text."""

from lsprotocol import types

from composer_lsp.server.server import ComposerServer


def register(server: ComposerServer) -> None:
    server.feature(types.TEXT_DOCUMENT_DID_OPEN)(did_open)
    server.feature(types.TEXT_DOCUMENT_DID_CHANGE)(did_change)
    server.feature(types.TEXT_DOCUMENT_DID_SAVE)(did_save)
    server.feature(types.TEXT_DOCUMENT_DID_CLOSE)(did_close)
    server.feature(types.NOTEBOOK_DOCUMENT_DID_OPEN)(notebook_did_open)
    server.feature(types.NOTEBOOK_DOCUMENT_DID_CHANGE)(notebook_did_change)
    server.feature(types.NOTEBOOK_DOCUMENT_DID_CLOSE)(notebook_did_close)


def did_open(ls: ComposerServer, params: types.DidOpenTextDocumentParams) -> None:
    ls.session.forget(params.text_document.uri)
    document = ls.document(params.text_document.uri)
    ls.session.watch_edits(document)
    ls.session.index.document_changed(document)


def did_change(ls: ComposerServer, params: types.DidChangeTextDocumentParams) -> None:
    ls.session.end_suggesting(params.text_document.uri)
    if (document := ls.protocol.workspace.find(params.text_document.uri)) is not None:
        ls.session.index.document_changed(document)


def did_save(ls: ComposerServer, params: types.DidSaveTextDocumentParams) -> None:
    ls.session.index.document_saved(params.text_document.uri)


def did_close(ls: ComposerServer, params: types.DidCloseTextDocumentParams) -> None:
    ls.session.forget(params.text_document.uri)
    ls.session.index.document_closed(params.text_document.uri)


def notebook_did_open(ls: ComposerServer, params: types.DidOpenNotebookDocumentParams) -> None:
    for cell in params.cell_text_documents:
        _cell_opened(ls, cell.uri)


def notebook_did_change(ls: ComposerServer, params: types.DidChangeNotebookDocumentParams) -> None:
    cells = params.change.cells
    if cells is None:
        return
    for changed in cells.text_content or ():
        ls.session.end_suggesting(changed.document.uri)
    for closed in (cells.structure and cells.structure.did_close) or ():
        ls.session.forget(closed.uri)
    for opened in (cells.structure and cells.structure.did_open) or ():
        _cell_opened(ls, opened.uri)


def notebook_did_close(ls: ComposerServer, params: types.DidCloseNotebookDocumentParams) -> None:
    for cell in params.cell_text_documents:
        ls.session.forget(cell.uri)


def _cell_opened(ls: ComposerServer, uri: str) -> None:
    ls.session.forget(uri)
    if (document := ls.protocol.workspace.find(uri)) is not None:
        ls.session.watch_edits(document)

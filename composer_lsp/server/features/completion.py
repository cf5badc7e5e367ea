"""textDocument/completion: the same suggestion in the menu of clients without ghost text.

Such clients may hold back the entries of all servers until the slowest has answered, so an answer
is never waited for long: the list is marked incomplete, the work goes on, and the client's next
question gets it.
"""

import asyncio
import re

from lsprotocol import types

from composer_lsp.completion.request import CompletionRequest, Suggestion
from composer_lsp.server.documents import Document
from composer_lsp.server.features.suggestions import ACCEPTED
from composer_lsp.server.latest import SupersededError
from composer_lsp.server.server import ComposerServer

_PATIENCE_S = 1.0
_MAX_LABEL = 60
_WORD = re.compile(r"\w*\Z")
_HYPHENATED_WORD = re.compile(r"[\w-]*\Z")
_HYPHENATED = frozenset(
    {"clojure", "css", "emacs-lisp", "less", "lisp", "racket", "scheme", "scss"}
)
"""Languages whose words have hyphens, by id."""
_LAST = "\U0010ffff"
"""Sorts behind the entries of other servers."""


def register(server: ComposerServer) -> None:
    # Not empty: some multiplexers, rass among them, take an empty object for no provider.
    options = types.CompletionOptions(resolve_provider=False)
    server.feature(types.TEXT_DOCUMENT_COMPLETION, options)(completion)


async def completion(
    ls: ComposerServer, params: types.CompletionParams
) -> types.CompletionList | None:
    document = ls.document(params.text_document.uri)
    request = CompletionRequest(
        document=document.snapshot(), offset=document.buffer.offset_at(params.position)
    )
    task = ls.session.resume_suggesting(request)
    try:
        await asyncio.wait((task,), timeout=_PATIENCE_S)
    except asyncio.CancelledError:
        task.cancel()
        raise
    suggestions = ()
    if task.done():
        try:
            suggestions = ls.session.suggestions(request, task)
        except SupersededError:
            return None
    items = [
        _item(document, request, suggestion, ls.session.shown.give(request, suggestion).id)
        for suggestion in suggestions[:1]
    ]
    return types.CompletionList(is_incomplete=True, items=items)


def _item(
    document: Document, request: CompletionRequest, suggestion: Suggestion, id: str
) -> types.CompletionItem:
    text = request.document.text
    # Clients match entries against the word before the cursor, so the entry has to begin with it.
    line_start = max(text.rfind("\n", 0, suggestion.start), text.rfind("\r", 0, suggestion.start))
    pattern = _HYPHENATED_WORD if request.document.language_id in _HYPHENATED else _WORD
    word = pattern.search(text, line_start + 1, suggestion.start)
    start = word.start() if word else suggestion.start
    new_text = text[start : suggestion.start] + suggestion.text
    first_line = new_text.strip().splitlines()[0] if new_text.strip() else new_text
    return types.CompletionItem(
        label=first_line[:_MAX_LABEL],
        kind=types.CompletionItemKind.Text,
        detail="Composer",
        documentation=new_text,
        sort_text=_LAST,
        filter_text=new_text,
        insert_text_format=types.InsertTextFormat.PlainText,
        text_edit=types.TextEdit(
            range=types.Range(
                document.buffer.position_at(start), document.buffer.position_at(suggestion.end)
            ),
            new_text=new_text,
        ),
        command=types.Command(title="Accepted", command=ACCEPTED, arguments=[id]),
    )

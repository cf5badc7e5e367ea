"""textDocument/inlineCompletion: ghost text.

An empty list means that there is nothing to show. `null` means that the answer came too late, and
that the client may keep what it shows until the answer to its newer request. An explicit request is
answered with several suggestions where there are, which clients let the user go through.
"""

from dataclasses import replace

from lsprotocol import types

from composer_lsp.completion.request import CompletionRequest, Suggestion
from composer_lsp.server.documents import Document
from composer_lsp.server.features.suggestions import ACCEPTED
from composer_lsp.server.latest import SupersededError
from composer_lsp.server.server import ComposerServer

Kind = types.InlineCompletionTriggerKind

_MAX_INVOKED = 3
"""Suggestions in the answer to an explicit request."""


def register(server: ComposerServer) -> None:
    server.feature(types.TEXT_DOCUMENT_INLINE_COMPLETION, types.InlineCompletionOptions())(
        inline_completion
    )


async def inline_completion(
    ls: ComposerServer, params: types.InlineCompletionParams
) -> types.InlineCompletionList | None:
    document = ls.document(params.text_document.uri)
    selected = _Selected(document, params)
    try:
        suggestions = await ls.session.suggest(selected.request)
    except SupersededError:
        return None
    items = [
        selected.item(suggestion, ls.session.shown.give(selected.request, suggestion).id)
        for suggestion in suggestions
    ]
    return types.InlineCompletionList(items=items)


class _Selected:
    """A request at the cursor or, while an entry of the completion menu is selected, at the end of
    that entry as if it had been accepted: the client shows only what continues it."""

    def __init__(self, document: Document, params: types.InlineCompletionParams) -> None:
        self._buffer = document.buffer
        self._text = ""
        cursor = self._buffer.offset_at(params.position)
        self._start = self._end = self._cursor = cursor
        snapshot = document.snapshot()
        info = params.context.selected_completion_info
        if info is not None:
            start, end = sorted(map(self._buffer.offset_at, (info.range.start, info.range.end)))
            if start <= cursor <= end:
                self._text, self._start, self._end = info.text, start, end
                text = snapshot.text[:start] + info.text + snapshot.text[end:]
                snapshot = replace(snapshot, text=text)
        is_invoked = params.context.trigger_kind == Kind.Invoked
        self.request = CompletionRequest(
            document=snapshot,
            offset=self._start + len(self._text),
            trigger="invoked" if is_invoked else "automatic",
            max_suggestions=_MAX_INVOKED if is_invoked else 1,
        )

    def item(self, suggestion: Suggestion, id: str) -> types.InlineCompletionItem:
        """The suggestion on the text as the client has it."""
        if not self._text:
            return self._item(suggestion.text, suggestion.start, suggestion.end, id)
        # Offsets after the entry's text moved by as much as it is longer than what it replaces.
        entry_end = self._start + len(self._text)
        kept = self._text[: max(0, suggestion.start - self._start)]
        end = self._end + max(0, suggestion.end - entry_end)
        return self._item(kept + suggestion.text, self._start, end, id)

    def _item(self, text: str, start: int, end: int, id: str) -> types.InlineCompletionItem:
        span = types.Range(self._buffer.position_at(start), self._buffer.position_at(end))
        return types.InlineCompletionItem(
            insert_text=text,
            range=span,
            filter_text=self._filter_text(text, start, end),
            command=types.Command(title="Accepted", command=ACCEPTED, arguments=[id]),
        )

    def _filter_text(self, text: str, start: int, end: int) -> str | None:
        """Clients show an item only where this begins with what it replaces before the cursor, and has
        in it what it replaces after it; by default they take the item's own text."""
        if start == end:
            return None
        document = self._buffer.text
        before, after = document[start : self._cursor], document[self._cursor : end]
        return before + text.removeprefix(before) + after

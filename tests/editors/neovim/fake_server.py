"""A language server with two answers for every place, which the real one never has."""

from lsprotocol import types
from pygls.lsp.server import LanguageServer

server = LanguageServer("composer-lsp", "0")


@server.feature(types.TEXT_DOCUMENT_INLINE_COMPLETION, types.InlineCompletionOptions())
def inline_completion(params: types.InlineCompletionParams) -> list[types.InlineCompletionItem]:
    span = types.Range(params.position, params.position)
    texts = ("first()\nmore()", "second()")
    return [types.InlineCompletionItem(insert_text=text, range=span) for text in texts]


server.start_io()

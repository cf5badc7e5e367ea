"""A language server with several answers for every place.

usage: fake_server.py NUM_AUTOMATIC     how many answers there are for a request that nobody made by key
"""

import sys

from lsprotocol import types
from pygls.lsp.server import LanguageServer

TEXTS = ("first()\nmore()", "second()", "third()")

server = LanguageServer("composer-lsp", "0")


@server.feature(types.TEXT_DOCUMENT_INLINE_COMPLETION, types.InlineCompletionOptions())
def inline_completion(params: types.InlineCompletionParams) -> list[types.InlineCompletionItem]:
    is_invoked = params.context.trigger_kind == types.InlineCompletionTriggerKind.Invoked
    span = types.Range(params.position, params.position)
    texts = TEXTS if is_invoked else TEXTS[: int(sys.argv[1])]
    return [types.InlineCompletionItem(insert_text=text, range=span) for text in texts]


server.start_io()

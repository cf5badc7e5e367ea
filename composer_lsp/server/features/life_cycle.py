"""initialized: the client is ready to be asked and told things."""

from lsprotocol import types

from composer_lsp.server.server import ComposerServer


def register(server: ComposerServer) -> None:
    server.feature(types.INITIALIZED)(initialized)


def initialized(ls: ComposerServer, params: types.InitializedParams) -> None:
    ls.session.run_in_background(ls.on_initialized())

"""initialized: the client is ready to be asked and told things."""

from lsprotocol import types

from composer_lsp.server.server import ComposerServer


def register(server: ComposerServer) -> None:
    server.feature(types.INITIALIZED)(initialized)


async def initialized(ls: ComposerServer, params: types.InitializedParams) -> None:
    await ls.on_initialized()

"""workspace/didChangeConfiguration: settings that the client pushes, or tells when it is asked."""

from lsprotocol import types

from composer_lsp.server.server import ComposerServer


def register(server: ComposerServer) -> None:
    server.feature(types.WORKSPACE_DID_CHANGE_CONFIGURATION)(did_change_configuration)


async def did_change_configuration(
    ls: ComposerServer, params: types.DidChangeConfigurationParams
) -> None:
    ls.session.configure("pushed", params.settings)
    await ls.session.pull_configuration()

"""Workspace folders and watched files.

pygls keeps the folders, and the session reads them at each request; file changes are accepted from
clients that send them to every server.
"""

import logging

from lsprotocol import types

from composer_lsp.server.server import ComposerServer

logger = logging.getLogger(__name__)


def register(server: ComposerServer) -> None:
    server.feature(types.WORKSPACE_DID_CHANGE_WATCHED_FILES)(did_change_watched_files)


def did_change_watched_files(ls: ComposerServer, params: types.DidChangeWatchedFilesParams) -> None:
    logger.debug("%d watched files changed", len(params.changes))

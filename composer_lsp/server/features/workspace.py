"""Workspace folders and watched files.

pygls keeps the folders, and the session reads them at each request. File changes are accepted from
clients that send them to every server, and none are asked for: what could change, `.composerignore`,
is looked at with every request (`composer_index.ignores`), so that no client's watcher has to be
there, to be in time, or to be believed.
"""

import logging

from lsprotocol import types

from composer_lsp.server.server import ComposerServer

logger = logging.getLogger(__name__)


def register(server: ComposerServer) -> None:
    server.feature(types.WORKSPACE_DID_CHANGE_WATCHED_FILES)(did_change_watched_files)


def did_change_watched_files(ls: ComposerServer, params: types.DidChangeWatchedFilesParams) -> None:
    logger.debug("%d watched files changed", len(params.changes))

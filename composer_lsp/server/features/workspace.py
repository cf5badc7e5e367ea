"""Workspace folders and watched files.

pygls keeps the folders, and the session reads them at each request. File changes are hints for the
index, taken from clients that send them to every server, and none are asked for: the index's worker
watches by itself, and `.composerignore` is looked at with every request (`composer_index.ignores`),
so that no client's watcher has to be there, to be in time, or to be believed.
"""

from lsprotocol import types

from composer_lsp.server.server import ComposerServer


def register(server: ComposerServer) -> None:
    server.feature(types.WORKSPACE_DID_CHANGE_WATCHED_FILES)(did_change_watched_files)
    server.feature(types.WORKSPACE_DID_CHANGE_WORKSPACE_FOLDERS)(did_change_workspace_folders)


def did_change_watched_files(ls: ComposerServer, params: types.DidChangeWatchedFilesParams) -> None:
    ls.session.index.files_changed([change.uri for change in params.changes])


def did_change_workspace_folders(
    ls: ComposerServer, params: types.DidChangeWorkspaceFoldersParams
) -> None:
    ls.session.run_in_background(ls.session.index.follow())

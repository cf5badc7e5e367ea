"""textDocument/codeLens: accept and reject above each pending hunk, for clients that do not show
pending hunks themselves."""

from collections.abc import Sequence
from typing import Any

from lsprotocol import types

from composer_lsp.server.server import ComposerServer


def register(server: ComposerServer) -> None:
    options = types.CodeLensOptions(resolve_provider=False)
    server.feature(types.TEXT_DOCUMENT_CODE_LENS, options)(code_lens)


def code_lens(ls: ComposerServer, params: types.CodeLensParams) -> list[types.CodeLens]:
    runs = ls.session.loaded_runs
    document = ls.protocol.workspace.find(params.text_document.uri)
    is_shown = ls.session.settings.agent.code_lens and not ls.session.editor.features.shows_hunks
    if runs is None or document is None or not is_shown:
        return []
    lenses: list[types.CodeLens] = []
    for file in runs.pending_in(document):
        whole = f"all of Composer's changes here ({file.num_hunks})"
        lenses += _pair(0, whole, [file.run, file.path])
        for hunk in file.hunks:
            lenses += _pair(hunk.start_line, "this change", [hunk.run, hunk.path, [hunk.id]])
    return lenses


def _pair(line: int, what: str, arguments: Sequence[Any]) -> list[types.CodeLens]:
    place = types.Range(types.Position(line, 0), types.Position(line, 0))
    return [
        types.CodeLens(
            range=place,
            command=types.Command(
                title=f"{verb} {what}",
                command=f"composer.{verb.lower()}",
                arguments=list(arguments),
            ),
        )
        for verb in ("Accept", "Reject")
    ]

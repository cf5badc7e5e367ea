"""textDocument/codeAction: ask, edit, fix, explain, test and document at the cursor.

Editors ask at each move of the cursor, so nothing is looked at but the open document. The commands
are given when one is chosen (`codeAction/resolve`), or at once to clients that do not ask again.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from lsprotocol import types

from composer_lsp.server.agent.diagnostics import known_of, to_json
from composer_lsp.server.documents import Document
from composer_lsp.server.server import ComposerServer

FIX = types.CodeActionKind.QuickFix.value
REWRITE = types.CodeActionKind.RefactorRewrite.value
ASK, EXPLAIN, TEST, PENDING = (
    "composer.ask",
    "composer.explain",
    "composer.test",
    "composer.pending",
)
_DOCUMENT = "Document this code as this file documents code, and change nothing else."
_MAX_DIAGNOSTICS = 20

JsonObject = dict[str, Any]


def register(server: ComposerServer) -> None:
    options = types.CodeActionOptions(
        code_action_kinds=[FIX, REWRITE, ASK, EXPLAIN, TEST, PENDING], resolve_provider=True
    )
    server.feature(types.TEXT_DOCUMENT_CODE_ACTION, options)(code_action)
    server.feature(types.CODE_ACTION_RESOLVE)(resolve)


@dataclass(frozen=True, kw_only=True, slots=True)
class Offer:
    title: str
    kind: str
    command: str
    arguments: Sequence[Any]
    diagnostics: Sequence[types.Diagnostic] = field(default=())


async def code_action(
    ls: ComposerServer, params: types.CodeActionParams
) -> list[types.CodeAction | types.Command] | None:
    document = ls.protocol.workspace.find(params.text_document.uri)
    if document is None or not await ls.session.usable_documents.has(document.uri):
        return None
    version = document.version or 0
    ls.session.diagnostics.remember(document.uri, version, params.range, params.context.diagnostics)
    if not ls.session.settings.agent.code_actions:
        return []
    features = ls.session.editor.features
    return [
        _as_action(offer, is_lazy=features.resolves_commands)
        if features.code_action_literals
        else _command(offer)
        for offer in _offers(ls, document, params)
        if _is_wanted(offer.kind, params.context.only)
    ]


def resolve(ls: ComposerServer, params: types.CodeAction) -> types.CodeAction:
    """The action with its command, which its `data` names."""
    data: Any = params.data
    if not isinstance(data, Mapping):
        return params
    fields = cast("Mapping[str, Any]", data)
    command, arguments = fields.get("command"), fields.get("arguments")
    if isinstance(command, str) and isinstance(arguments, list):
        given = cast("list[Any]", arguments)
        params.command = types.Command(title=params.title, command=command, arguments=given)
    return params


def _offers(
    ls: ComposerServer, document: Document, params: types.CodeActionParams
) -> Iterator[Offer]:
    features, context, chosen = ls.session.editor.features, params.context, params.range
    yield from _of_pending(ls, document, chosen)
    place: JsonObject = {"uri": document.uri, "range": _range(chosen)}
    if not features.agent:
        place["detached"] = True
    found = context.diagnostics[:_MAX_DIAGNOSTICS]
    if found:
        title = "Fix this problem" if len(found) == 1 else f"Fix these {len(found)} problems"
        known = [to_json(known_of(each)) for each in found]
        arguments = [None, {**place, "diagnostics": known}]
        yield Offer(
            title=title, kind=FIX, command="composer.fix", arguments=arguments, diagnostics=found
        )
    has_selection = (chosen.start.line, chosen.start.character) != (
        chosen.end.line,
        chosen.end.character,
    )
    # A lamp at every place of the cursor would say nothing.
    if context.trigger_kind == types.CodeActionTriggerKind.Automatic and not has_selection:
        return
    if features.asks_for_words:
        yield Offer(
            title="Ask about this…", kind=ASK, command="composer.ask", arguments=[None, place]
        )
        yield Offer(
            title="Edit selection…",
            kind=REWRITE,
            command="composer.editSelection",
            arguments=[None, place],
        )
    yield Offer(title="Explain", kind=EXPLAIN, command="composer.explain", arguments=[None, place])
    yield Offer(title="Write tests", kind=TEST, command="composer.test", arguments=[None, place])
    if has_selection:
        yield Offer(
            title="Document",
            kind=REWRITE,
            command="composer.editSelection",
            arguments=[_DOCUMENT, place],
        )


def _of_pending(ls: ComposerServer, document: Document, chosen: types.Range) -> Iterator[Offer]:
    """For clients without code lenses: the pending hunks at the cursor."""
    runs = ls.session.loaded_runs
    if runs is None or ls.session.editor.features.shows_hunks:
        return
    first, last = sorted((chosen.start.line, chosen.end.line))
    for file in runs.pending_in(document):
        here = [
            hunk.id
            for hunk in file.hunks
            if hunk.start_line <= last and first < max(hunk.end_line, hunk.start_line + 1)
        ]
        choices = [("this change", [file.run, file.path, here])] if here else []
        choices.append((f"all changes of this file ({file.num_hunks})", [file.run, file.path]))
        for what, arguments in choices:
            for verb in ("Accept", "Reject"):
                yield Offer(
                    title=f"{verb} {what}",
                    kind=PENDING,
                    command=f"composer.{verb.lower()}",
                    arguments=arguments,
                )


def _as_action(offer: Offer, *, is_lazy: bool) -> types.CodeAction:
    action = types.CodeAction(
        title=f"Composer: {offer.title}",
        kind=offer.kind,
        diagnostics=list(offer.diagnostics) or None,
    )
    if is_lazy:
        action.data = {"command": offer.command, "arguments": list(offer.arguments)}
    else:
        action.command = _command(offer)
    return action


def _command(offer: Offer) -> types.Command:
    return types.Command(
        title=f"Composer: {offer.title}", command=offer.command, arguments=list(offer.arguments)
    )


def _is_wanted(kind: str, only: Sequence[types.CodeActionKind | str] | None) -> bool:
    if only is None:
        return True
    wanted = [each.value if isinstance(each, types.CodeActionKind) else each for each in only]
    return any(not each or kind == each or kind.startswith(f"{each}.") for each in wanted)


def _range(chosen: types.Range) -> JsonObject:
    return {
        name: {"line": place.line, "character": place.character}
        for name, place in (("start", chosen.start), ("end", chosen.end))
    }

"""What runs changed: taken, left, taken back."""

from collections.abc import Mapping, Sequence
from typing import Any, cast

from pygls.exceptions import JsonRpcInvalidParams

from composer_lsp.server.agent.arguments import flag, text_at
from composer_lsp.server.server import ComposerServer

JsonObject = dict[str, Any]


def register(server: ComposerServer) -> None:
    for name, command in {
        "composer.accept": accept,
        "composer.reject": reject,
        "composer.undo": undo,
    }.items():
        server.command(name)(command)


async def accept(ls: ComposerServer, *arguments: Any) -> JsonObject:
    """Arguments: a run; optionally a path of it, a list of the file's hunks by their ids or numbers,
    and `{"review": true}` or `false`, by default as the settings say. Applies them; they are pending no more."""
    name = "composer.accept"
    id, path, hunks = _choice(name, arguments)
    given = arguments[3] if len(arguments) > 3 else None
    if given is not None and not isinstance(given, Mapping):
        raise JsonRpcInvalidParams(f"{name} takes an object, not {given!r}")
    fields = cast("Mapping[str, Any]", given or {})
    review = flag(fields, "review") if fields.get("review") is not None else None
    service = await ls.session.agent_runs()
    from composer_lsp.server.agent.failures import told

    with told():
        await service.accept(id, path, hunks, review=review)
        return dict(service.described(id))


async def reject(ls: ComposerServer, *arguments: Any) -> JsonObject:
    """Arguments: a run; optionally a path of it, and a list of the file's hunks. Forgets them; no
    file is touched."""
    id, path, hunks = _choice("composer.reject", arguments)
    service = await ls.session.agent_runs()
    from composer_lsp.server.agent.failures import told

    with told():
        service.reject(id, path, hunks)
        return dict(service.described(id))


async def undo(ls: ComposerServer, *arguments: Any) -> JsonObject:
    """Take back what was accepted last, in this window or an earlier one."""
    service = await ls.session.agent_runs()
    from composer_lsp.server.agent.failures import told

    with told():
        return {"undone": await service.undo()}


def _choice(
    name: str, arguments: Sequence[Any]
) -> tuple[str, str | None, Sequence[int | str] | None]:
    id, path = text_at(name, arguments, 0), text_at(name, arguments, 1)
    if id is None:
        raise JsonRpcInvalidParams(f"{name} takes a run; composer.runs lists them")
    given = arguments[2] if len(arguments) > 2 else None
    if given is None:
        return id, path, None
    hunks = cast("list[Any]", given) if isinstance(given, list) else None
    if path is None or hunks is None or not all(type(each) in (int, str) for each in hunks):
        raise JsonRpcInvalidParams(
            f"{name} takes a path and a list of hunks, by number or id, not {given!r}"
        )
    return id, path, hunks

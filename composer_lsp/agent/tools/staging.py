"""What is staged, as commands see it, and what commands make of files, staged again."""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from composer_index.printable import printable
from composer_lsp.agent.commands import CommandResult, CommandRunner, Offer
from composer_lsp.agent.edits.change_set import EditError, FileChange, Snapshot
from composer_lsp.agent.edits.text_file import TextError, TextFile
from composer_lsp.agent.tools.context import ToolContext
from composer_lsp.agent.tools.tool import ToolError
from composer_lsp.agent.workspace.paths import Place
from composer_lsp.agent.workspace.workspace import WorkspaceError

_MAX_PATHS = 20
"""Of those that a note names."""

Staged = Mapping[Path, bytes | None]
Stamps = Mapping[str, tuple[int, int]]
"""Time of change, in nanoseconds, and size in bytes, by path."""


async def files_for_command(
    context: ToolContext, runner: CommandRunner
) -> tuple[Staged, list[str]]:
    """What files are to be for a command, and what of it the command does not see, for the model.

    Where commands see the disk alone, what is staged is put there, if the user agrees. Raises:
    ToolError, WorkspaceError.
    """
    unsaved = await _unsaved(context)
    if runner.shows_staged:
        return {**unsaved, **await _of_changes(context)}, []
    if context.changes:
        await _apply_pending(context, runner)
    notes = (
        [
            f"[it did not see the unsaved text of {_listed(_shown(context, path) for path in unsaved)}]"
        ]
        if unsaved
        else []
    )
    return {}, notes


async def _apply_pending(context: ToolContext, runner: CommandRunner) -> None:
    changed = _listed(change.path for change in context.changes.changes())
    why = f"a command does not see what is not on the disk ({runner.why_not_staged})"
    if context.apply_pending is None:
        raise ToolError(f"not run: {why}, and the changes of {changed} cannot be applied yet")
    if not await context.ask_user(f"Apply the changes of {changed} first? Else {why}."):
        raise ToolError(f"not run: {why}, and the user did not want {changed} changed yet")
    await context.apply_pending()


async def _of_changes(context: ToolContext) -> dict[Path, bytes | None]:
    """Raises: ToolError."""
    paths = context.workspace.paths
    changes = list(context.changes.changes())
    await _check_again(context, changes)
    staged: dict[Path, bytes | None] = {}
    for change in changes:
        if change.moved_from is not None:
            staged.setdefault(Path(paths.locate(change.moved_from).absolute), None)
        try:
            data = change.data()
        except TextError as error:
            raise ToolError(f"not run: {change.path} cannot be written: {error}") from error
        place = paths.locate(change.path)
        staged[Path(place.absolute) if data is None else _written(place)] = data
    return staged


async def _check_again(context: ToolContext, changes: Sequence[FileChange]) -> None:
    """A folder may be a link by now. Raises: ToolError."""
    paths = context.workspace.paths
    names = [name for change in changes for name in (change.moved_from, change.path) if name]
    refused = await asyncio.to_thread(paths.refused, [paths.locate(name) for name in names])
    if refused:
        why = "; ".join(list(refused.values())[:_MAX_PATHS])
        raise ToolError(f"not run: it would not see all that is staged, since {why}")


def _written(place: Place) -> Path:
    """What is written to a link is written to what it leads to."""
    return Path(place.absolute).resolve()


async def _unsaved(context: ToolContext) -> dict[Path, bytes | None]:
    """Raises: ToolError, WorkspaceError."""
    paths = context.workspace.paths
    texts = {paths.locate(path): text for path, text in (await context.workspace.unsaved()).items()}
    refused = await asyncio.to_thread(paths.refused, texts)
    found: dict[Path, bytes | None] = {}
    for place, text in texts.items():
        if place in refused:
            continue
        file = (await context.snapshot(place)).file or TextFile(text="")
        try:
            found[_written(place)] = file.encode(text)
        except TextError as error:
            raise ToolError(f"not run: {place.path} cannot be saved: {error}") from error
    return found


async def ask_to_take(context: ToolContext, offers: Sequence[Offer]) -> bool:
    """Whether the user wants what a command did; the offers are all of one kind."""
    deeds: dict[str, list[str]] = {}
    for offer in offers:
        deeds.setdefault(offer.deed, []).append(_shown(context, offer.path))
    told = " and ".join(f"{deed} {_listed(paths)}" for deed, paths in deeds.items())
    why = "git ignores" if offers[0].is_ignored else "cannot be shown as a difference"
    return await context.ask_user(f"The command {told}, which {why}. Take it?")


def notices(context: ToolContext, result: CommandResult) -> list[str]:
    """What the user is to know at once, since no difference will show it."""
    told = {
        "The command wrote to the disk": result.kept,
        "The command changed on the disk, as git ignores it": result.ignored,
        "What the command did here is left out": result.left_out,
        "What the command did here is left out, as it has changed since": result.stale,
    }
    return [
        f"{what}: {_listed(_shown(context, path) for path in paths)}."
        for what, paths in told.items()
        if paths
    ]


async def take_changes(
    context: ToolContext, result: CommandResult, seen: Staged | None = None
) -> list[str]:
    """Stage what a command made of files; what of it happened, for the model. `seen`: what files were
    for one that ran while others could be edited; what is another by now stays as it is."""
    changed: list[str] = []
    left: list[str] = []
    paths = sorted({*result.changes, *result.modes})
    places = await asyncio.to_thread(_places, context, paths)
    refused = await asyncio.to_thread(
        context.workspace.paths.refused, filter(None, places.values())
    )
    staged = {change.path: change for change in context.changes.changes()}
    edited: Mapping[Path, str] = {}
    if seen is not None and paths:
        edited = await _edited_since(context, seen, paths)
    for path in paths:
        place = places[path]
        if place is None:
            left.append(f"{path} (it is outside of the workspace)")
            continue
        before, mode = staged.get(place.path), result.modes.get(path)
        if place in refused:
            why = refused[place]
        elif path in edited:
            why = edited[path]
        elif path in result.changes:
            why = await _stage(context, place, result.changes[path], before, mode)
        else:
            why = _stage_mode(context, before, mode)
        if why is None:
            changed.append(place.path)
            context.reads.forget(place.path)
        elif why:
            left.append(f"{place.path} ({why})")
    if changed or result.kept:
        context.ledger.edited()
    notes = {
        "it changed, as if you had": changed,
        "on the disk already, and in no difference": [
            _shown(context, path) for path in result.kept
        ],
        "left out, and nowhere now": left + [_shown(context, path) for path in result.left_out],
        "left out, since they changed elsewhere meanwhile": [
            _shown(context, path) for path in result.stale
        ],
    }
    return [f"[{what}: {_listed(paths)}]" for what, paths in notes.items() if paths]


async def _edited_since(
    context: ToolContext, seen: Staged, paths: Sequence[Path]
) -> Mapping[Path, str]:
    """Why the paths are not to be written."""
    try:
        now = {**await _unsaved(context), **await _of_changes(context)}
    except (ToolError, WorkspaceError) as error:
        return dict.fromkeys(paths, str(error))
    missing = object()
    return {
        path: "it was edited while the command ran"
        for path in paths
        if now.get(path, missing) != seen.get(path, missing)
    }


def _places(context: ToolContext, paths: Iterable[Path]) -> dict[Path, Place | None]:
    return {path: context.workspace.paths.of_absolute(str(path)) for path in paths}


async def _stage(
    context: ToolContext,
    place: Place,
    data: bytes | None,
    before: FileChange | None,
    mode: int | None,
) -> str | None:
    """`before`: as it was staged for the command. None once it is staged; else why not, empty if
    nothing is different."""
    try:
        snapshot = await context.snapshot(place)
        known = (before.like or before.before) if before is not None else snapshot.file
        file = None if data is None else _decoded(data, known)
        text = None if file is None else file.text
        if text == _text_now(context, place, snapshot) and mode is None:
            return ""
        like = before.like if before is not None else None
        if data is not None and file is not None and not _gives(known, file.text, data):
            like = file
        if like is None and mode is None:
            context.changes.write(place.path, snapshot, text)
        else:
            change = before or FileChange(
                path=place.path,
                before=snapshot.file,
                after=text,
                version=snapshot.version,
                mode=snapshot.mode,
            )
            mode = change.mode if mode is None else mode
            _stage_again(context, replace(change, after=text, like=like, mode=mode))
    except (TextError, EditError, WorkspaceError) as error:
        return str(error)
    return None


def _stage_mode(context: ToolContext, before: FileChange | None, mode: int | None) -> str | None:
    """As `_stage`, where only the permissions are others."""
    if before is None:
        return "its permissions, since its text is that of an editor"
    _stage_again(context, replace(before, mode=mode))
    return None


def _stage_again(context: ToolContext, change: FileChange) -> None:
    """With another encoding or other permissions, which a change set keeps from the first time."""
    if change.path in context.changes:
        context.changes.reject(change.path)
    context.changes.add(change)


def _decoded(data: bytes, known: TextFile | None) -> TextFile:
    """In the encoding that the file had, if it was not UTF-8 and is not now. Raises: TextError."""
    found = TextFile.decode(data)
    if known is not None and "utf-8" not in (known.encoding, found.encoding):
        with suppress(TextError):
            return TextFile.decode_as(data, known.encoding, known.bom)
    return found


def _gives(known: TextFile | None, text: str, data: bytes) -> bool:
    """Whether the text is these bytes in the encoding that the file had, or in UTF-8."""
    try:
        return (known or TextFile(text="")).encode(text) == data
    except TextError:
        return False


def _text_now(context: ToolContext, place: Place, snapshot: Snapshot) -> str | None:
    if place.path in context.changes:
        return context.changes.text(place.path)
    return snapshot.file.text if snapshot.file else None


async def stamps(context: ToolContext, runner: CommandRunner) -> Stamps | None:
    """Of the files on the disk, to find out what a command changes there. None where it cannot."""
    return None if runner.shows_staged else await asyncio.to_thread(_stamps, context)


async def changed_on_disk(context: ToolContext, before: Stamps | None) -> list[str]:
    """What is different from `before`, for the model."""
    if before is None:
        return []
    after = await asyncio.to_thread(_stamps, context)
    changed = [path for path in sorted({*before, *after}) if before.get(path) != after.get(path)]
    if not changed:
        return []
    for path in changed:
        context.reads.forget(path)
    context.ledger.edited()
    return [f"[on the disk, these files were changed: {_listed(changed)}]"]


def _stamps(context: ToolContext) -> Stamps:
    paths = context.workspace.paths
    found: dict[str, tuple[int, int]] = {}
    for path in paths.listed():
        try:
            status = Path(paths.locate(path).absolute).stat()
        except OSError:
            continue  # it went meanwhile
        found[path] = (status.st_mtime_ns, status.st_size)
    return found


def _shown(context: ToolContext, path: Path) -> str:
    place = context.workspace.paths.of_absolute(str(path))
    return printable(str(path) if place is None else place.path)


def _listed(paths: Iterable[str]) -> str:
    listed = list(paths)
    more = f" and {len(listed) - _MAX_PATHS} more" if len(listed) > _MAX_PATHS else ""
    return ", ".join(listed[:_MAX_PATHS]) + more

"""Tools that change files. They stage: nothing is written before the run's changes are applied."""

import asyncio
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from composer_lsp.agent.edits.hunks import Hunk, find_hunks
from composer_lsp.agent.edits.lines import split_lines
from composer_lsp.agent.edits.replace import ReplaceError, Replacement, replace, with_ends_of
from composer_lsp.agent.tools.context import ToolContext
from composer_lsp.agent.tools.tool import ToolError, tool
from composer_lsp.agent.workspace.paths import Place

_MAX_NAME_BYTES = 255
"""Of a file or folder: what file systems hold."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Edit:
    old: Annotated[str, "the lines as they stand there now, exactly, and enough to be unique"]
    new: Annotated[str, "what takes their place"]
    everywhere: Annotated[bool, "at all places where `old` stands, as to rename"] = False


@tool(only_reads=False)
async def edit_file(
    context: ToolContext,
    path: Annotated[str, "relative to the workspace"],
    edits: Annotated[tuple[Edit, ...], "all are made, or none"],
) -> str:
    """Change a file by exact search and replace. Each `old` must stand in the file once, unless it is
    to be replaced everywhere."""
    return await _edit(context, path, edits)


async def _edit(context: ToolContext, path: str, edits: Sequence[Edit]) -> str:
    place = await context.place(path)
    file = await context.file(place)
    if file is None:
        raise ToolError(f"there is no file {place.path}; write_file creates one")
    if not edits:
        raise ToolError("edits is empty")
    snapshot = await context.snapshot(place)
    try:
        replacements = [
            Replacement(old=each.old, new=each.new, everywhere=each.everywhere) for each in edits
        ]
        text, hunks = await asyncio.to_thread(_replaced, file.text, replacements)
    except ReplaceError as error:
        raise ToolError(f"{place.path} was not changed: {error}") from error
    context.write(place.path, snapshot, text)
    return changed_lines(context, place.path, hunks, text)


@tool(only_reads=False)
async def write_file(
    context: ToolContext,
    path: Annotated[str, "relative to the workspace"],
    text: Annotated[str, "all of the file"],
) -> str:
    """Create a file, or replace all of one that you have read wholly. To change a part of a file use
    edit_file."""
    place = await context.place(path)
    if not place.relative or path.endswith("/"):
        raise ToolError(f"{path} is a folder; give the path of a file")
    _check_folders(context, place)
    file = await context.file(place)
    if file is not None and file.text and not context.reads.is_whole(place.path):
        raise ToolError(
            f"{place.path} exists, and you have not read all of it: use edit_file, or read the rest"
        )
    snapshot = await context.snapshot(place)
    before = file.text if file else ""
    changed = await asyncio.to_thread(with_ends_of, before, text) if before else text
    if before == changed and file is not None:
        raise ToolError(f"{place.path} holds this text already")
    context.write(place.path, snapshot, changed)
    num = len(split_lines(changed))
    _log(context, place.path, 1, num, num)
    return f"{'Wrote' if file is None else 'Replaced'} {place.path}, {num} lines."


@tool(only_reads=False)
async def move_file(
    context: ToolContext, path: str, target: Annotated[str, "the new path, of a file too"]
) -> str:
    """Move or rename a file. Its uses elsewhere are not changed."""
    place, goal = await context.entry(path), await context.entry(target)
    _check_folders(context, goal)
    context.changes.move(
        place.path, await context.snapshot(place), goal.path, await context.snapshot(goal)
    )
    context.ledger.edited()
    context.reads.forget(place.path)
    return f"Moved {place.path} to {goal.path}."


@tool(only_reads=False)
async def delete_file(context: ToolContext, path: str) -> str:
    """Delete a file."""
    place = await context.entry(path)
    if await context.file(place) is None:
        raise ToolError(f"there is no file {place.path}")
    context.write(place.path, await context.snapshot(place), None)
    context.reads.forget(place.path)
    return f"Deleted {place.path}."


def _check_folders(context: ToolContext, place: Place) -> None:
    """Whether a file can be made there, as far as can be told. Raises: ToolError."""
    names = place.relative.split("/")
    if long := [name for name in names if len(os.fsencode(name)) > _MAX_NAME_BYTES]:
        raise ToolError(f"no file can be made: the name {long[0][:40]}… is too long")
    paths = context.workspace.paths
    for num_names in range(1, len(names)):
        above = paths.at(place.root, "/".join(names[:num_names]))
        if above.path in context.changes:
            is_file = context.changes.text(above.path) is not None
        else:
            is_file = os.path.lexists(above.absolute) and not Path(above.absolute).is_dir()
        if is_file:
            raise ToolError(f"{place.path} cannot be made: {above.path} is a file, and no folder")
    below = f"{place.path}/"
    for path in context.changes.paths:
        if path.startswith(below) and context.changes.text(path) is not None:
            raise ToolError(f"{place.path} cannot be made: it is a folder, since {path} is to be")


def _replaced(text: str, replacements: Sequence[Replacement]) -> tuple[str, Sequence[Hunk]]:
    """The new text, and where it differs. Raises: ReplaceError."""
    changed = replace(text, replacements)
    return changed, find_hunks(text, changed)


def changed_lines(context: ToolContext, path: str, hunks: Sequence[Hunk], after: str) -> str:
    """Those of an edit as they are now, with their numbers: what the next edit starts from."""
    lines = split_lines(after)
    context.reads.carry(path, hunks)
    shown: list[str] = []
    offset = 0
    for hunk in hunks:
        first = hunk.start + offset + 1
        last = first + len(hunk.new) - 1
        offset += hunk.offset
        _log(context, path, first, last, len(lines))
        shown += [f"{number}\t{lines[number - 1].rstrip()}" for number in range(first, last + 1)]
        shown.append("…")
    return f"Changed {path}:\n" + "\n".join(shown[:-1][:60])


def _log(context: ToolContext, path: str, first: int, last: int, num_lines: int) -> None:
    context.reads.add(path, first, last, num_lines)

"""Tools that change code by its names, and stage as the other edits do."""

import asyncio
import re
import textwrap
from collections.abc import Sequence
from typing import Annotated

from composer_lsp.agent.checks.syntax import syntax_problem
from composer_lsp.agent.edits.change_set import EditError, FileChange
from composer_lsp.agent.edits.definitions import (
    DefinitionError,
    definitions_replaced,
    put_definitions,
)
from composer_lsp.agent.edits.hunks import Hunk, find_hunks
from composer_lsp.agent.edits.lines import split_lines
from composer_lsp.agent.tools.context import ToolContext
from composer_lsp.agent.tools.edit import changed_lines
from composer_lsp.agent.tools.grep import paths_that_match
from composer_lsp.agent.tools.tool import ToolError, tool
from composer_lsp.agent.workspace.paths import PathError
from composer_lsp.agent.workspace.workspace import WorkspaceError

_NAME = re.compile(r"[^\W\d]\w*")
_MAX_SHOWN = 30
"""Files that the answer lists."""


@tool(only_reads=False)
async def rename_symbol(
    context: ToolContext,
    old: Annotated[str, "the name now, an identifier"],
    new: Annotated[str, "the new name, an identifier"],
) -> str:
    """Give a function, class or variable another name, in all files of the workspace. It changes the
    whole word wherever it stands, in comments and strings too."""
    for name in (old, new):
        if not _NAME.fullmatch(name):
            raise ToolError(f"{name!r} is no identifier; to move a file use move_file")
    if old == new:
        raise ToolError("both names are the same")
    word = re.compile(rf"(?<!\w){re.escape(old)}(?!\w)")
    changed: list[str] = []
    unread: list[str] = []
    for path in await paths_that_match(context, rf"\b{re.escape(old)}\b"):
        try:
            num = await _replaced(context, path, word, new)
        except (PathError, WorkspaceError, EditError) as error:
            unread.append(f"{path} ({error})")
            continue
        if num:
            changed.append(f"{path}: {num}")
    if not changed:
        raise ToolError(f"{old} stands in no file{_list('; could not be changed: ', unread)}")
    return (
        f"Renamed {old} to {new}, places by file:{_list(' ', changed)}"
        f"{_list('; could not be changed: ', unread)}. Look whether another thing has this name too."
    )


async def _replaced(context: ToolContext, path: str, word: re.Pattern[str], new: str) -> int:
    place = await context.place(path)
    file = await context.file(place)
    if file is None:
        return 0
    text, num = word.subn(new, file.text)
    if num:
        context.write(place.path, await context.snapshot(place), text)
        context.reads.forget(place.path)
    return num


def _list(begin: str, items: list[str]) -> str:
    more = f" and {len(items) - _MAX_SHOWN} more" if len(items) > _MAX_SHOWN else ""
    return begin + ", ".join(items[:_MAX_SHOWN]) + more if items else ""


@tool(only_reads=False)
async def write_code(
    context: ToolContext,
    path: Annotated[str, "relative to the workspace"],
    code: Annotated[str, "whole functions or classes, and the imports that they need"],
) -> str:
    """Write functions and classes into a file: in the place of those with their names, or behind the
    others. A file that is not there, or that this run has made, is made of the code alone."""
    place = await context.place(path)
    file = await context.file(place)
    snapshot = await context.snapshot(place)
    if file is None or snapshot.file is None:
        text = code.strip("\n") + "\n"
        if file is not None and file.text == text:
            return f"{place.path} holds this code already."
        context.write(place.path, snapshot, text)
        context.reads.forget(place.path)
        num = len(split_lines(text))
        context.reads.add(place.path, 1, num, num)
        return f"Wrote {place.path}, {num} lines."
    # Wrongly closed, it would be taken for more or less than it is.
    piece = FileChange(path=place.path, before=None, after=textwrap.dedent(code))
    if (problem := await asyncio.to_thread(syntax_problem, piece)) is not None:
        where = f"line {problem.line} of the code: {problem.message}"
        raise ToolError(f"{place.path} was not changed: {where}")
    try:
        for each in definitions_replaced(place.path, file.text, code):
            if not context.reads.has_seen(place.path, each.start_line, each.end_line):
                lines = f"{each.start_line} to {each.end_line}"
                raise ToolError(f"{each.name} was not changed: you have not read its lines {lines}")
        text, hunks = await asyncio.to_thread(_put, place.path, file.text, code)
    except DefinitionError as error:
        raise ToolError(f"{place.path} was not changed: {error}") from error
    if text == file.text:
        return f"{place.path} holds this code already."
    context.write(place.path, snapshot, text)
    return changed_lines(context, place.path, hunks, text)


def _put(path: str, text: str, code: str) -> tuple[str, Sequence[Hunk]]:
    """The new text, and where it differs. Raises: DefinitionError."""
    changed = put_definitions(path, text, code)
    return changed, find_hunks(text, changed)

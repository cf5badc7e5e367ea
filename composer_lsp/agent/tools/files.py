"""Tools that find and read files."""

import asyncio
from collections.abc import Sequence
from typing import Annotated

from composer_index.store.records import Filter
from composer_index.store.sql import GlobError, matches
from composer_lsp.agent.edits.lines import split_lines
from composer_lsp.agent.tools.context import ToolContext
from composer_lsp.agent.tools.outline import outline
from composer_lsp.agent.tools.tool import ToolError, tool

MAX_LINES = 400
"""Of one read."""
MAX_LINE_CHARS = 1000
MAX_PATHS = 200
"""Of one listing."""
OUTLINE_SHARE = 0.1
"""Of a result's room, for what is defined in the lines that were cut."""


@tool(only_reads=True)
async def read_file(
    context: ToolContext,
    path: Annotated[str, "relative to the workspace"],
    start_line: Annotated[int, "first line, 1-based"] = 1,
    end_line: Annotated[int | None, "last line; without it, as many as fit"] = None,
) -> str:
    """Read a text file, or some of its lines. Lines are shown as number, tab, text. Where the file
    goes on, the answer says so, with which start_line to read on, and what is defined there."""
    place = await context.place(path)
    file = await context.file(place)
    if file is None:
        raise ToolError(await _missing(context, place.path))
    lines = split_lines(file.shown)
    if not lines:
        context.reads.add(place.path, 1, 0, 0)
        return f"{place.path} is empty."
    if not 1 <= start_line <= len(lines):
        raise ToolError(f"{place.path} has {len(lines)} lines; start_line is {start_line}")
    if end_line is not None and end_line < start_line:
        raise ToolError(f"end_line {end_line} comes before start_line {start_line}")
    last = min(len(lines), end_line or len(lines))
    shown = _numbered(lines[start_line - 1 : last], start_line, context.max_result_chars)
    stop = start_line + len(shown) - 1
    _log(context, place.path, lines, start_line, stop)
    text = "\n".join(shown)
    if stop < last or (end_line is None and stop < len(lines)):
        text += f"\n[cut: these are lines {start_line} to {stop} of {len(lines)}; "
        text += f"read on with start_line={stop + 1}]"
        if start_line == 1:
            room = int(context.max_result_chars * OUTLINE_SHARE)
            text += await asyncio.to_thread(outline, place.path, file.text, stop + 1, room)
    elif last < len(lines) or start_line > 1:
        text += f"\n[lines {start_line} to {stop} of {len(lines)}]"
    return text


@tool(only_reads=True)
async def list_files(
    context: ToolContext,
    path: Annotated[str, "a folder, relative to the workspace"] = ".",
    depth: Annotated[int, "folders below it to open"] = 1,
) -> str:
    """List a folder's files and folders (with a slash, and how many files they hold). Hidden and
    ignored files are left out."""
    place = context.workspace.paths.locate(path) if path not in (".", "", "/") else None
    prefix = "" if place is None or place.path == "." else f"{place.path}/"
    inside = [each[len(prefix) :] for each in await context.files() if each.startswith(prefix)]
    if not inside:
        raise ToolError(f"{path} is no folder of the workspace, or holds no files that may be read")
    entries: dict[str, int] = {}
    for each in inside:
        parts = each.split("/")
        is_deep = len(parts) > depth + 1
        entry = "/".join(parts[: depth + 1]) + "/" if is_deep else each
        entries[entry] = entries.get(entry, 0) + is_deep
    listed = [f"{each} ({count} files)" if count else each for each, count in entries.items()]
    return _cut(listed, "give a folder below it")


@tool(only_reads=True)
async def find_files(
    context: ToolContext,
    pattern: Annotated[str, "part of a path, or a glob such as **/test_*.py"],
) -> str:
    """Find files by their path. Case does not matter for a part of a path."""
    paths = await context.files()
    if any(sign in pattern for sign in "*?["):
        # As search's globs: one without a slash is for the name alone.
        chosen = Filter(path_glob=pattern)
        try:
            found = await asyncio.to_thread(
                lambda: [each for each in paths if matches(chosen, each, "")]
            )
        except GlobError as error:
            raise ToolError(str(error)) from error
    else:
        found = [each for each in paths if pattern.lower() in each.lower()]
    if not found:
        return f"No file's path matches {pattern}."
    # The shorter a path, the more of it is the pattern.
    return _cut(sorted(found, key=len), "narrow the pattern")


def _numbered(lines: Sequence[str], first: int, max_chars: int) -> list[str]:
    shown: list[str] = []
    size = 0
    for number, line in enumerate(lines, first):
        text = line.rstrip("\r\n")
        if len(text) > MAX_LINE_CHARS:
            text = f"{text[:MAX_LINE_CHARS]}[cut: the line has {len(text)} characters]"
        size += len(text) + 8
        if shown and (size > max_chars or len(shown) == MAX_LINES):
            break
        shown.append(f"{number}\t{text}")
    return shown


def _log(context: ToolContext, path: str, lines: Sequence[str], first: int, last: int) -> None:
    context.reads.add(path, first, first - 1, len(lines))
    for number in range(first, last + 1):
        if len(lines[number - 1].rstrip("\r\n")) <= MAX_LINE_CHARS:
            context.reads.add(path, number, number)


async def _missing(context: ToolContext, path: str) -> str:
    name = path.rsplit("/", 1)[-1].lower()
    near = [each for each in await context.files() if each.rsplit("/", 1)[-1].lower() == name][:5]
    hint = f"; is it {', '.join(near)}?" if near else "; find_files looks for a name"
    return f"there is no file {path}{hint}"


def _cut(entries: Sequence[str], advice: str) -> str:
    text = "\n".join(entries[:MAX_PATHS])
    if len(entries) > MAX_PATHS:
        text += f"\n[cut: {MAX_PATHS} of {len(entries)}; {advice}]"
    return text

"""The code that a small model is shown for a change: what the request names, else what a search for
its words finds. Little, without line numbers, and what matters most last."""

import logging
import re
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from composer_index.search.boost import is_test
from composer_lsp.agent.edits.definitions import VALUES
from composer_lsp.agent.edits.lines import split_lines
from composer_lsp.agent.led.answers import PATH
from composer_lsp.agent.tools.context import ToolContext
from composer_lsp.agent.workspace.paths import PathError
from composer_lsp.agent.workspace.workspace import WorkspaceError
from composer_lsp.index.client import WorkerError

logger = logging.getLogger(__name__)

MAX_CHARS = 5000
"""Of all pieces: what a processor reads in a minute at worst."""
_MAX_LINES = 150
"""Of one piece. What is cut cannot be written anew."""
_MAX_HEAD_LINES = 30
"""Of a file of tests that is to get more."""
_MAX_MEANT = 2
"""A name that more places define says little."""
_NUM_RESULTS = 3
_MIN_NAME_CHARS = 3
_NAME = re.compile(r"[^\W\d]\w*(?:\.[^\W\d]\w*)*")
_CALLED = re.compile(r"\b([^\W\d]\w*)\(")


@dataclass(slots=True)
class CodeForChange:
    pieces: list[str] = field(default_factory=list[str])
    """Each under its path, for the prompt."""
    paths: list[str] = field(default_factory=list[str])
    """Of the pieces."""


def named_paths(text: str, files: Sequence[str]) -> list[str]:
    """Files that a text names by their path or the end of it, in the text's order."""
    found: list[str] = []
    for name in dict.fromkeys(PATH.findall(text)):
        found += [path for path in files if path == name or path.endswith(f"/{name}")][:1]
    return found


def piece(path: str, text: str) -> str:
    return f"{path}\n```\n{text.rstrip()}\n```"


async def code_for(context: ToolContext, request: str, tested: str = "") -> CodeForChange:
    """`tested`: the text of a test that fails; what it calls is shown as what the request names is."""
    found = CodeForChange()
    room = MAX_CHARS
    async for path, text in _pieces(context, request, tested):
        room -= len(text)
        if found.pieces and room < 0:
            break
        found.pieces.insert(0, piece(path, text))
        found.paths.insert(0, path)
    return found


async def _pieces(
    context: ToolContext, request: str, tested: str
) -> AsyncIterator[tuple[str, str]]:
    """Paths and texts, the one that matters most first."""
    files = await context.files()
    seen: list[tuple[str, int, int]] = []
    for name in _names(request, tested):
        for place in await _definitions(context, name):
            path, first, last = place
            if any(path == p and f <= first and last <= t for p, f, t in seen):
                continue
            seen.append(place)
            if text := await _lines(context, path, first, min(last, first + _MAX_LINES - 1)):
                yield path, text
    for path in named_paths(request, files):
        if is_test(path) and all(path != each for each, _, _ in seen):
            yield path, await _lines(context, path, 1, _MAX_HEAD_LINES)
    if not seen:
        async for each in _searched(context, request):
            yield each


def _names(request: str, tested: str) -> Iterator[str]:
    without_paths = PATH.sub(" ", request)
    names = [*_NAME.findall(without_paths), *_CALLED.findall(tested)]
    long = (name for name in dict.fromkeys(names) if len(name) >= _MIN_NAME_CHARS)
    yield from sorted(long, key=_rank)


def _rank(name: str) -> int:
    """What is a name for certain comes before words, and the tests of code behind the code."""
    if name.lower().startswith("test"):
        return 2
    return 0 if re.search(r"[_.\d]|[a-z][A-Z]", name) else 1


async def _definitions(context: ToolContext, name: str) -> list[tuple[str, int, int]]:
    if context.index is None:
        return []
    try:
        found = await context.index.definitions(name)
    except WorkerError as error:
        logger.warning("%s was not looked up: %s", name, error)
        return []
    places = [
        (_path(context, each), int(each["start_line"]), int(each["end_line"]))
        for each in found
        if each["kind"] not in (*VALUES, "module")
    ]
    return places if len(places) <= _MAX_MEANT else []


def _path(context: ToolContext, found: Mapping[str, Any]) -> str:
    return context.workspace.paths.at(found["root"], found["path"]).path


async def _lines(context: ToolContext, path: str, first: int, last: int) -> str:
    try:
        file = await context.file(await context.place(path))
    except (PathError, WorkspaceError):
        return ""
    if file is None:
        return ""
    lines = split_lines(file.text)
    while first > 1 and lines[first - 2 : first - 1] and lines[first - 2].strip().startswith("@"):
        first -= 1
    context.reads.add(path, first, min(last, len(lines)))
    return "".join(lines[first - 1 : last])


async def _searched(context: ToolContext, request: str) -> AsyncIterator[tuple[str, str]]:
    if context.index is None:
        return
    try:
        found = await context.index.search(request, limit=_NUM_RESULTS)
    except WorkerError as error:
        logger.warning("a change begins without a search: %s", error)
        return
    for each in found["results"]:
        first, last = int(each["start_line"]), int(each["end_line"])
        path = _path(context, each)
        if text := await _lines(context, path, first, min(last, first + _MAX_LINES - 1)):
            yield path, text

"""Tools that ask the index and the editor: by meaning, by name, and what is wrong."""

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Annotated, Any

from composer_index.search.tested import tested_stem
from composer_lsp.agent.tools.context import ToolContext
from composer_lsp.agent.tools.tool import Tool, ToolError, tool
from composer_lsp.agent.workspace.workspace import CodeIndex, Diagnostic
from composer_lsp.index.client import WorkerError

logger = logging.getLogger(__name__)

MAX_RESULTS = 10
MAX_RESULT_LINES = 40
"""Of one result of a search by meaning."""
Lint = Callable[[ToolContext, str], Awaitable[Sequence[Diagnostic]]]
"""What linters say of one file, as the run has left it."""
_MAX_QUERY_CHARS = 1000
_MAX_TESTS = 5


@tool(only_reads=True)
async def semantic_search(
    context: ToolContext,
    query: Annotated[str, "what the code does, in words or names"],
    glob: Annotated[str | None, "only files that match, such as src/**/*.py"] = None,
    language: Annotated[str | None, "only this language, such as python"] = None,
) -> str:
    """Find code of the whole workspace by what it does. Use it first when you do not know names."""
    found = await _index(context).search(query, limit=MAX_RESULTS, glob=glob, language=language)
    results: Sequence[Mapping[str, Any]] = found["results"]
    if not results:
        return f"Nothing was found for {query}."
    shown = _listed(context, results, MAX_RESULT_LINES, context.max_result_chars)
    if any(state != "ready" for state in found["states"].values()):
        shown += "\n[the index is still being built: there may be more]"
    return shown


@tool(only_reads=True)
async def symbols(
    context: ToolContext,
    name: Annotated[str, "exact, such as parse_header or Parser.feed"],
) -> str:
    """Find where a function, class or other name is defined."""
    found = await _index(context).definitions(name)
    if not found:
        return f"Nothing is called {name}; grep finds parts of names."
    return "\n".join(
        f"{_path(context, each)}:{each['start_line']}-{each['end_line']}: "
        f"{each['kind']} {each['symbol']}"
        for each in found
    )


@tool(only_reads=True)
async def references(
    context: ToolContext, name: Annotated[str, "an identifier, without its class"]
) -> str:
    """Find the lines that use a name."""
    found = await _index(context).references(name, limit=100)
    if not found:
        return f"Nothing uses {name}."
    for each in found:
        context.reads.add(_path(context, each), each["line"], each["line"])
    return "\n".join(f"{_path(context, each)}:{each['line']}:{each['text']}" for each in found)


def diagnostics_tool(lint: Lint | None = None) -> Tool:
    """The tool `diagnostics`. `lint`: asked of a file of which the workspace knows nothing."""

    @tool(only_reads=True)
    async def diagnostics(
        context: ToolContext, path: Annotated[str | None, "one file; without it, all"] = None
    ) -> str:
        """List the errors and warnings that are known: of the editor, and of the project's linters
        for one file."""
        place = await context.place(path) if path else None
        found = await context.workspace.diagnostics(place.path if place else None)
        if not found and lint is not None and place is not None:
            found = await lint(context, place.path)
        if not found:
            return "No errors or warnings are known."
        return "\n".join(
            f"{each.path}:{each.line}: {each.severity}: {each.message}"
            + (f" ({each.source})" if each.source else "")
            for each in found
        )

    return diagnostics


@dataclass(frozen=True, kw_only=True, slots=True)
class Likely:
    """What a search for the user's own words finds, for the beginning of a run: it saves the turn in
    which a model would search, and helps one that would not."""

    code: str = ""
    tests: Sequence[str] = ()
    """Files of tests whose names say that they are of the same modules."""


async def likely(
    context: ToolContext,
    request: str,
    *,
    num_results: int = 4,
    max_lines: int = 16,
    max_chars: int = 4000,
) -> Likely:
    """`max_lines`: of each result; `max_chars`: of all. Nothing without an index."""
    if context.index is None:
        return Likely()
    try:
        found = await context.index.search(request[:_MAX_QUERY_CHARS], limit=num_results)
    except WorkerError as error:
        logger.warning("a run begins without a search: %s", error)
        return Likely()
    results: Sequence[Mapping[str, Any]] = found["results"]
    modules = {PurePosixPath(result["path"]).stem for result in results}
    tests = [path for path in await context.files() if tested_stem(path) in modules]
    return Likely(code=_listed(context, results, max_lines, max_chars), tests=tests[:_MAX_TESTS])


def _index(context: ToolContext) -> CodeIndex:
    if context.index is None:
        raise ToolError("this workspace has no index; use grep and find_files")
    return context.index


def _path(context: ToolContext, result: Mapping[str, Any]) -> str:
    return context.workspace.paths.at(result["root"], result["path"]).path


def _listed(
    context: ToolContext, results: Sequence[Mapping[str, Any]], max_lines: int, room: int
) -> str:
    """As many as there is room for, in characters, the best first; the first in any case."""
    shown: list[str] = []
    for result in results:
        path, first = _path(context, result), result["start_line"]
        lines = result["text"].splitlines()
        text = _shown(path, result, lines, max_lines)
        room -= len(text)
        if shown and room < 0:
            break
        context.reads.add(path, first, first + min(len(lines), max_lines) - 1)
        shown.append(text)
    return "\n\n".join(shown)


def _shown(path: str, result: Mapping[str, Any], lines: Sequence[str], max_lines: int) -> str:
    first, last = result["start_line"], result["end_line"]
    symbol = f" {result['symbol']}" if result["symbol"] else ""
    body = "\n".join(f"{number}\t{line}" for number, line in enumerate(lines[:max_lines], first))
    more = f"\n[cut: it goes on to line {last}]" if len(lines) > max_lines else ""
    return f"{path}:{first}-{last}{symbol}\n{body}{more}"

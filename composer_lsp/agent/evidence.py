"""Checks what an answer claims against what the run has seen."""

import re
from dataclasses import dataclass
from pathlib import Path

from composer_lsp.agent.citations import Citation, citations, is_file_name, is_path
from composer_lsp.agent.claims_of_tests import claims_of_tests
from composer_lsp.agent.edits.lines import split_lines
from composer_lsp.agent.tools.context import ToolContext
from composer_lsp.agent.workspace.paths import PathError, Place
from composer_lsp.agent.workspace.workspace import WorkspaceError

_NAMED = re.compile(r"`([A-Za-z_][\w.:]*)(?:\(\))?`")
_MAX_NAMED = 5


@dataclass(frozen=True, slots=True)
class Problem:
    claim: str
    """As it stands in the answer, without marks of Markdown."""
    why: str


async def check_claims(text: str, context: ToolContext) -> list[Problem]:
    """Each citation of a line must be of lines that this run was shown, and "tests pass" needs a
    test command that ran and passed after the last edit."""
    problems = [
        Problem(citation.written, why)
        for citation in citations(text)
        if (why := await _why_not(citation, context)) is not None
    ]
    if not context.ledger.tests_passed:
        why = (
            "no test command ran"
            if not any(command.is_test for command in context.ledger.commands)
            else "no test command has passed since the last edit"
        )
        problems += [Problem(claim, why) for claim in claims_of_tests(text)]
    return list(dict.fromkeys(problems))


async def places_of_names(text: str, context: ToolContext) -> list[str]:
    """For an answer that cites nothing: where the names in it are defined, as `name` at path:lines,
    as far as the index knows one place alone, which this run was shown."""
    if context.index is None or any(citations(text)):
        return []
    places: list[str] = []
    for name in list(dict.fromkeys(_NAMED.findall(text)))[:_MAX_NAMED]:
        shown: list[str] = []
        for found in await context.index.definitions(name):
            path = context.workspace.paths.at(found["root"], found["path"]).path
            first, last = found["start_line"], found["end_line"]
            if context.reads.has_seen(path, first, first):
                shown.append(f"`{name}` at {path}:{first}-{last}")
        if len(shown) == 1:
            places += shown
    return places


async def _why_not(citation: Citation, context: ToolContext) -> str | None:
    is_file = is_file_name(citation.path) or is_path(citation.path)
    try:
        place = await context.place(citation.path)
        file = await context.file(place)
    except (PathError, WorkspaceError) as error:
        return str(error) if is_file else None
    if file is None:
        # `example.com:443` is no citation; `src/gone.py:3` is one that does not hold.
        return "there is no such file" if is_file or _is_in_folder(place) else None
    num_lines = len(split_lines(file.text))
    if not all(1 <= first <= last <= num_lines for first, last in citation.lines):
        return f"the file has {num_lines} lines"
    if not all(context.reads.has_seen(place.path, *stretch) for stretch in citation.lines):
        return "these lines were not read in this run"
    return None


def _is_in_folder(place: Place) -> bool:
    folder, slash, _ = place.relative.partition("/")
    return bool(slash) and (Path(place.root) / folder).is_dir()

